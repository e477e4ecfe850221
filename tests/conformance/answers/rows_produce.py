"""Produce: what Kafka answers to batches that no well-behaved client sends."""

from __future__ import annotations

from bus.records.compression import Compression
from tests.conformance.answers.batches import (
    ATTRIBUTES,
    BASE_TIMESTAMP,
    COUNT,
    CRC,
    FIRST_RECORD,
    LAST_DELTA,
    LEADER_EPOCH,
    LENGTH,
    MAGIC,
    MAX_TIMESTAMP,
    NOW_MS,
    PRODUCER_EPOCH,
    SEQUENCE,
    batch,
    log_end,
    produce,
    produced,
    with_field,
    writable,
)
from tests.conformance.answers.case import Deviation, Step, ask, row
from tests.conformance.answers.steps import new_topic

GZIP, ZSTD = Compression.GZIP, Compression.ZSTD
AHEAD_MS = NOW_MS + 2 * 86_400_000
PRODUCER = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
TRANSACTIONAL, CONTROL, LOG_APPEND, UNUSED = 0x10, 0x20, 0x08, 0x80
IDLE_HEADER = bytes(LENGTH) + b"\0\0\0\x40\0\0\0\0\2"
"""The start of a further batch: enough to show that it has format 2 and is truncated."""


def case(id: str, name: str, records: bytes | None, **topic: str) -> list[Deviation]:
    """One batch in every version of Produce, on a topic with these settings."""
    return sent(id, name, *produced(records), **topic)


def sent(id: str, name: str, *steps: Step, **topic: str) -> list[Deviation]:
    """Requests to a topic of their own."""
    given = [new_topic(**topic), writable()]
    return row(id, name, *steps, given=given, may_differ=["times", "epochs"])


def in_sequence(name: str, *batches: tuple[int, int]) -> list[Deviation]:
    """Batches of one idempotent producer: (sequence, epoch) in their order."""
    steps = [
        produce(9, batch(producer_id=7, producer_epoch=epoch, base_sequence=sequence))
        for sequence, epoch in batches
    ]
    return sent("produce", name, *steps, log_end())


ROWS: list[Deviation] = [
    *case("K6", "a codec that does not exist", with_field(batch(), (ATTRIBUTES, 7))),
    *case("K6", "base offset 77", batch(base_offset=77)),
    *case("K6", "base offset 77, gzip", batch(base_offset=77, compression=GZIP)),
    *case("K6", "base offset -5", with_field(batch(), (0, -5))),
    *case("K6", "transactional without transactional id",
          with_field(batch(**PRODUCER), (ATTRIBUTES, TRANSACTIONAL))),
    *case("K6", "transactional without producer id",
          with_field(batch(), (ATTRIBUTES, TRANSACTIONAL))),
    *case("K6", "the batch cut off", batch(3)[:-3]),
    *case("K6", "forty bytes of a header", batch()[:40]),
    *case("K6", "five bytes", batch()[:5]),
    *case("K6", "four stray bytes behind the batch", batch() + b"\1\2\3\4"),
    *case("K6", "a header cut off behind the batch", batch() + IDLE_HEADER),
    *case("K6", "sixteen zero bytes behind the batch", batch() + bytes(16)),
    *case("K6", "two batches", batch() + batch()),
    *case("produce", "no bytes at all", b""),
    *case("21", "format 0", with_field(batch(), (MAGIC, 0), sealed=False)),
    *case("21", "format 1", with_field(batch(), (MAGIC, 1), sealed=False)),
    *case("21", "format 3", with_field(batch(), (MAGIC, 3), sealed=False)),
    *case("21", "format -1", with_field(batch(), (MAGIC, -1), sealed=False)),
    *case("21", "a wrong checksum", with_field(batch(), (CRC, 77), sealed=False)),
    *case("21", "a length below any format's", with_field(batch(), (LENGTH, -1), sealed=False)),
    *case("21", "a length below the header's",
          with_field(batch(), (LENGTH, 20), sealed=False)),
    *case("21", "a length beyond the request",
          with_field(batch(), (LENGTH, 1 << 30), sealed=False)),
    *case("21", "larger than max.message.bytes", batch(value=b"x" * 1_100_000)),
    *case("21", "a control batch", with_field(batch(), (ATTRIBUTES, CONTROL))),
    *case("21", "a producer id without sequence", with_field(batch(**PRODUCER), (SEQUENCE, -1))),
    *case("21", "no record", with_field(batch(), (COUNT, 0))),
    *case("21", "more records told than offsets", with_field(batch(), (COUNT, 5))),
    *case("21", "more offsets told than records", with_field(batch(), (LAST_DELTA, 3))),
    *case("21", "no record, no offset", with_field(batch(), (COUNT, 0), (LAST_DELTA, -1))),
    *case("21", "records without key on a compacted topic", batch(4, key=None),
          cleanup_policy="compact"),
    *case("21", "one packed record without key on a compacted topic",
          batch(key=None, compression=GZIP), cleanup_policy="compact"),
    *case("21", "no gzip under the gzip flag on a compacted topic",
          with_field(batch(), (ATTRIBUTES, GZIP)), cleanup_policy="compact"),
    *row("21", "times far ahead are named record by record",
         *produced(with_field(batch(), (MAX_TIMESTAMP, AHEAD_MS))),
         *produced(with_field(batch(2), (BASE_TIMESTAMP, AHEAD_MS), (MAX_TIMESTAMP, AHEAD_MS))),
         given=[new_topic(), writable()], only=["error_code", "batch_index", "offset"]),
    *case("produce", "flags without meaning", with_field(batch(), (ATTRIBUTES, UNUSED))),
    *case("produce", "the broker's time claimed", with_field(batch(), (ATTRIBUTES, LOG_APPEND))),
    *case("produce", "a leader epoch claimed", with_field(batch(), (LEADER_EPOCH, 7))),
    *case("produce", "a producer id without epoch",
          with_field(batch(**PRODUCER), (PRODUCER_EPOCH, -1))),
    *case("produce", "a sequence without producer id", batch(base_sequence=5)),
    *case("produce", "the largest time unknown", with_field(batch(), (MAX_TIMESTAMP, -1))),
    *case("produce", "gzip", batch(3, compression=GZIP)),
    *case("produce", "zstd", batch(3, compression=ZSTD)),
    *case("produce", "the broker's time", batch(3), message_timestamp_type="LogAppendTime"),
    *sent("produce", "acknowledgements nobody knows", *produced(batch(), acks=5)),
    *row("produce", "topics that nobody writes to", *[
         ask("Produce", 9, acks=-1, topic_data=[{"name": name, "partition_data": [
             {"index": 0, "records": batch()}]}])
         for name in ("__cluster_metadata", "__consumer_offsets", "", "a b", "nil")],
         only=["error_code", "error_message"]),
    *case("4.4", "packed records within the topic's bound", batch(3, compression=GZIP),
          max_decompressed_message_bytes="1000"),
    *case("4.4", "a packed record beyond the topic's bound", batch(3, compression=GZIP),
          max_decompressed_message_bytes="5"),
    *case("4.4", "plain records beyond the topic's bound", batch(3),
          max_decompressed_message_bytes="5"),
    *sent("produce", "a partition that is not there", *produced(batch(), index=9)),
    *in_sequence("a batch comes again", (0, 0), (1, 0), (1, 0), (0, 0)),
    *in_sequence("a gap in the sequence", (0, 0), (2, 0), (1, 0)),
    *in_sequence("a new epoch begins at 0", (0, 0), (1, 1), (0, 1), (1, 0), (1, 1)),
    *in_sequence("the sixth batch back is out of order",
                 *((sequence, 0) for sequence in range(7)), (2, 0), (1, 0)),
]  # fmt: skip

VALIDATED: list[Deviation] = [
    *case("K6", "no gzip under the gzip flag", with_field(batch(), (ATTRIBUTES, GZIP))),
    *case("K6", "no lz4 under the lz4 flag", with_field(batch(), (ATTRIBUTES, 3))),
    *case("K6", "no zstd under the zstd flag", with_field(batch(), (ATTRIBUTES, ZSTD))),
    *case("K6", "a record that runs past the batch", with_field(batch(), (FIRST_RECORD, 100))),
    *case("K6", "a record that ends early", with_field(batch(), (FIRST_RECORD, 8))),
    *case("K6", "five records told, one there", with_field(batch(), (COUNT, 5), (LAST_DELTA, 4))),
    *case("K6", "one record told, three there", with_field(batch(3), (COUNT, 1), (LAST_DELTA, 0))),
    *case("K6", "one told, three there, packed",
          with_field(batch(3, compression=GZIP), (COUNT, 1), (LAST_DELTA, 0))),
    *case("produce", "gzip", batch(3, compression=GZIP)),
    *case("produce", "plain", batch(3)),
]  # fmt: skip
"""Rows that our broker answers like Kafka only with produce.records.validation.enable; see
docs/differences-from-kafka.md."""
