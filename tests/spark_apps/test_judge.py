"""Executors judge as the driver's process does: the same functions, the same rows."""

from __future__ import annotations

import json
import random

import msgspec
import pyarrow as pa

from bus.contracts.meters import Sent
from bus.contracts.register import Register
from bus.domain.kinds import TOPIC_OF_KIND
from spark_apps.batches.message import StreamMessage, messages_of
from spark_apps.tasks.judge import JudgedBatch, judge_batches, judge_messages, judged_batch

ZONE = "Asia/Shanghai"
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


def batch(rows: list[dict[str, object]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def row(topic: str, offset: int, value: bytes | None, **headers: str) -> dict[str, object]:
    found = [{"key": key, "value": text.encode()} for key, text in headers.items()]
    return {"topic": topic, "partition": 1, "offset": offset, "timestamp_ms": 5, "value": value,
            "headers": found}  # fmt: skip


def both_ways(given: pa.RecordBatch) -> tuple[JudgedBatch, JudgedBatch]:
    messages = messages_of(pa.Table.from_batches([given]))
    here = judge_messages(messages, Register(), ZONE)
    made = pa.Table.from_batches(judge_batches([given], Register(), ZONE))
    return here, judged_batch(made)


def counter(sent: int) -> Sent:
    return Sent(producer="p", epoch=1, kind="vehicle", camera_ip="c", minute_ms=0, sent=sent)


def test_valid_rejected_and_quarantined_records_come_back_as_they_were_judged() -> None:
    """Through Arrow and its bytes nothing changes."""
    good = json.dumps({"卡口编号": "c1", "车牌号码": "浙A1", "抓拍时间": "2017-08-24 17:25:34"})
    given = batch(
        [
            row("data.vehicle", 0, good.encode(), **{"record-id": "id-0"}),
            row("data.vehicle", 1, b'{"broken'),
            row("data.face", 2, None),
            row("quarantine.records", 3, b"{}", kind="face", reason="no-time", field="抓拍时间"),
        ]
    )
    here, there = both_ways(given)
    assert here == there
    assert len(there.records) == 4


def test_counters_of_senders_travel_beside_the_records() -> None:
    """One that is none is passed over."""
    given = batch(
        [
            row("meter.sent", 0, msgspec.json.encode(counter(3))),
            row("meter.sent", 1, b"{}"),
            row("data.vehicle", 2, b"{}"),
        ]
    )
    here, there = both_ways(given)
    assert here == there
    assert there.counters == [counter(3)]
    assert len(there.records) == 1


def test_places_and_identities_stand_beside_the_rows() -> None:
    """By them executors divide and sort what they write."""
    given = batch([row("data.vehicle", 7, b"{}", **{"record-id": "a"}), row("data.face", 8, b"{}")])
    [made] = judge_batches([given], Register(), ZONE)
    found = [made.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    assert found == [["data.vehicle", "data.face"], [1, 1], [7, 8]]
    assert made.column("record_id")[0].as_py() == "a"
    assert made.column("row_type").to_pylist() == ["rejected", "rejected"]


def test_an_empty_batch_is_an_empty_batch() -> None:
    """Sparse topics have many."""
    here, there = both_ways(batch([]))
    assert here == there == ([], [], {}, [])


def test_no_bytes_stop_a_task(dice: random.Random) -> None:
    """Whatever a stranger writes is judged, in both ways the same."""
    pieces = [b'{"', "卡口编号".encode(), b'": "', b'"', b"\\ud800", b"\xff", b"}", b"[", b"1e999",
              "抓拍时间".encode(), b"2017-08-24 17:25:34", b",", b":", b"\x00"]  # fmt: skip
    rows = []
    for offset in range(300):
        value = b"".join(dice.choices(pieces, k=dice.randrange(12)))
        topic = dice.choice([*TOPIC_OF_KIND.values(), "quarantine.records"])
        headers = {"record-id": "x" * dice.randrange(3), "source": dice.choice(["", "é"])}
        rows.append(row(topic, offset, value, **headers))
    here, there = both_ways(batch(rows))
    assert here == there


def test_the_message_type_is_what_the_arrow_columns_give() -> None:
    """Spark's columns and the tests' are the same."""
    [message] = messages_of(pa.Table.from_batches([batch([row("data.face", 3, b"v")])]))
    assert message == StreamMessage("data.face", 1, 3, 5, b"v")
