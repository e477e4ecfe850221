"""Record batches between us and Kafka's own classes, both ways, in all compressions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.errors import ErrorCode
from bus.records.batch import only_batch
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.read import read_records
from bus.records.record import Record

pytestmark = pytest.mark.java

RECORDS = [
    Record(b"k" * 50, b"v" * 5000, [("schema", b"vehicle/1"), ("none", None)], 1_700_000_000_000),
    Record(None, None, [], 1_699_999_999_000),
    Record(b"", b"", [], 1_700_000_000_001),
]
AT_1000 = [record._replace(offset=1000 + n) for n, record in enumerate(RECORDS)]


def test_java_reads_our_batches(run_java: Any, jars_of_kafka_44: list[Path]) -> None:
    ours = [build_batch(AT_1000, base_offset=1000, compression=codec) for codec in Compression]
    stdin = "".join(batch.hex() + "\n" for batch in ours)
    lines = run_java("Batches.java", jars_of_kafka_44, "read", stdin=stdin).splitlines()
    assert lines == [_shown(record) for _ in Compression for record in AT_1000]


def test_we_read_the_batches_of_java(run_java: Any, jars_of_kafka_44: list[Path]) -> None:
    lines = run_java("Batches.java", jars_of_kafka_44, "write").splitlines()
    assert len(lines) == len(Compression)
    for codec, line in zip(Compression, lines, strict=True):
        batch = bytes.fromhex(line)
        header = only_batch(batch)
        assert header.compression == codec
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 40)
        assert (header.base_offset, header.partition_leader_epoch) == (1000, 5)
        assert list(read_records(batch)) == AT_1000


def test_the_table_of_errors_is_that_of_java(run_java: Any, jars_of_kafka_44: list[Path]) -> None:
    rows = [line.split() for line in run_java("ErrorCodes.java", jars_of_kafka_44).splitlines()]
    theirs = {int(code): (name, retriable == "true") for code, name, retriable in rows}
    assert {int(code): (code.name, code.retriable) for code in ErrorCode} == theirs


def _shown(record: Record) -> str:
    headers = [f"{name}={_hex(value, '')}" for name, value in record.headers]
    fields = [str(record.offset), str(record.timestamp_ms), _hex(record.key), _hex(record.value)]
    return " ".join(fields + headers)


def _hex(value: Any, quote: str = "'") -> str:
    return "null" if value is None else quote + value.hex() + quote
