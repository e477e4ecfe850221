"""Arrow's columns become messages, headers found by name."""

from __future__ import annotations

import random
import subprocess
import sys

import pyarrow as pa

from spark_apps.batches.message import HEADERS, StreamMessage, messages_of

HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("value", pa.binary()),
        ("headers", pa.list_(HEADER)),
    ]
)
Headers = list[tuple[str, bytes | None]] | None


def table(rows: list[Headers], chunk_rows: int = 1000) -> pa.Table:
    batches = [
        pa.RecordBatch.from_pylist(
            [
                {"topic": "t", "partition": 1, "offset": first + n, "timestamp_ms": 5, "value": b"v",
                 "headers": None if row is None else [{"key": k, "value": v} for k, v in row]}
                for n, row in enumerate(rows[first : first + chunk_rows])
            ],
            schema=SCHEMA,
        )
        for first in range(0, len(rows), chunk_rows)
    ]  # fmt: skip
    return pa.Table.from_batches(batches, SCHEMA)


def test_known_headers_are_found_and_others_passed_over() -> None:
    """A message without headers has none."""
    found = messages_of(
        table([[("record-id", b"a"), ("x", b"y"), ("field", "车牌".encode())], None, []])
    )
    assert found[0] == StreamMessage("t", 1, 0, 5, b"v", record_id="a", field="车牌")
    assert found[1:] == [StreamMessage("t", 1, 1, 5, b"v"), StreamMessage("t", 1, 2, 5, b"v")]


def test_the_last_of_a_name_wins_and_bytes_that_are_no_text_stay_readable() -> None:
    """As everywhere in Kafka; nothing here may raise."""
    (found,) = messages_of(
        table([[("source", b"1"), ("source", b"2"), ("kind", b"\xff"), ("reason", None)]])
    )
    assert (found.source, found.kind, found.reason) == ("2", "\ufffd", None)


def test_without_the_column_there_are_no_headers() -> None:
    """Meters are read without."""
    assert messages_of(table([[("kind", b"x")]]).select(range(5))) == [
        StreamMessage("t", 1, 0, 5, b"v")
    ]


def test_every_message_gets_its_own_headers(dice: random.Random) -> None:
    """Property: the result equals that for each message separately, over any chunks."""
    names = [*HEADERS, "other"]
    rows: list[Headers] = [
        None if dice.random() < 0.1
        else [(dice.choice(names), str(n).encode()) for _ in range(dice.randrange(5))]
        for n in range(500)
    ]  # fmt: skip
    for row, found in zip(rows, messages_of(table(rows, dice.randrange(1, 200))), strict=True):
        expected = {k: v.decode() for k, v in row or [] if v is not None}
        assert [expected.get(name) for name in HEADERS] == list(found[5:])


READS_A_BATCH = """
import sys, pyarrow
from spark_apps.batches.message import messages_of
found = messages_of(pyarrow.ipc.open_stream(sys.stdin.buffer.read()).read_all())
print([message.kind for message in found], "pandas" in sys.modules)
"""


def test_a_process_that_reads_headers_loads_no_pandas() -> None:
    """What broke: one comparison with a number cost each driver 36 MB of packages."""
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, SCHEMA) as stream:
        stream.write_table(table([[("kind", b"face"), ("field", b"x")], None]))
    done = subprocess.run(
        [sys.executable, "-c", READS_A_BATCH], input=written.getvalue().to_pybytes(),
        capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode().strip() == "['face', None] False"
