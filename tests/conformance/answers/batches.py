"""Batches as no well-behaved client sends them, and the requests that carry them.

In: nothing. Out: bytes, steps. Never: a batch's meaning; each has one changed field and a new CRC.
"""

from __future__ import annotations

import struct
import time
from dataclasses import replace

from bus.records.batch import seal
from bus.records.build import build_batch
from bus.records.record import Record
from tests.conformance.answers.case import Ask, ask

NOW_MS = int(time.time() * 1000)
"""Kafka refuses timestamps that are far from its own; a batch's timestamps are not compared."""

VERSIONS = (3, 7, 9, 11, 13)
"""Produce: the oldest, record sizes and zstd, flexible, leaders in the answer, topic ids."""

ATTRIBUTES, LAST_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_EPOCH, SEQUENCE, COUNT = (
    21, 23, 27, 35, 51, 53, 57)  # fmt: skip
LENGTH, LEADER_EPOCH, MAGIC, CRC, FIRST_RECORD = 8, 12, 16, 17, 61
_LAYOUT = {
    0: ">q", LENGTH: ">i", LEADER_EPOCH: ">i", MAGIC: ">b", CRC: ">I", ATTRIBUTES: ">h",
    LAST_DELTA: ">i", BASE_TIMESTAMP: ">q", MAX_TIMESTAMP: ">q", PRODUCER_EPOCH: ">h", SEQUENCE: ">i", COUNT: ">i",
    FIRST_RECORD: ">B",
}  # fmt: skip


def batch(count: int = 1, *, key: bytes | None = b"k", value: bytes = b"v", **fields: int) -> bytes:
    """A valid batch."""
    records = [Record(key, value, timestamp_ms=NOW_MS) for _ in range(count)]
    return bytes(build_batch(records, **fields))


def with_field(records: bytes, *changes: tuple[int, int], sealed: bool = True) -> bytes:
    """The batch with the field at each position changed."""
    made = bytearray(records)
    for at, value in changes:
        struct.pack_into(_LAYOUT[at], made, at, value)
    if sealed:
        seal(made, 0, len(made))
    return bytes(made)


def produce(version: int, records: bytes | None, *, index: int = 0, acks: int = -1) -> Ask:
    """One batch to one partition of `{topic}`."""
    data = {"index": index, "records": records}
    topic = {"name": "{topic}", "topic_id": "{topic_id}", "partition_data": [data]}
    return ask("Produce", version, acks=acks, topic_data=[topic])


def produced(records: bytes | None, **more: int) -> list[Ask]:
    """Produces the batch in every version, then requests the log's end."""
    return [*(produce(version, records, **more) for version in VERSIONS), log_end()]


def log_end() -> Ask:
    """The end offset of `{topic}`-0."""
    partition = {"partition_index": 0, "timestamp": -1}
    return ask(
        "ListOffsets", 6, replica_id=-1, topics=[{"name": "{topic}", "partitions": [partition]}]
    )


def writable() -> Ask:
    """Waits until the leader of `{topic}`-0 has its log: Metadata names it slightly earlier."""
    return replace(log_end(), until={"topics.0.partitions.0.error_code": 0})
