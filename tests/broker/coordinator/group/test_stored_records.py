"""Foreign records in `__consumer_offsets`: read at every start, never fatal."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.coordinator.group.records import CommittedOffset, OffsetRecord, encode
from broker.coordinator.newest_records import stored_batches
from bus.records.batch import RecordsError
from bus.records.build import build_batch
from bus.records.record import Record
from tests.broker.coordinator.offsets_broker import OffsetsBroker


def offset_record(group: str, offset: int) -> OffsetRecord:
    return OffsetRecord(group, "t", 0, CommittedOffset(offset, -1, "", 1))


def batch(*pairs: tuple[bytes | None, bytes | None], base_offset: int = 0) -> bytes:
    records = [Record(key, value, timestamp_ms=1) for key, value in pairs]
    return bytes(build_batch(records, base_offset=base_offset))


@pytest.mark.parametrize(
    "odd",
    [
        (b"\x00\x01", b"a key that is cut off"),
        (b"\x00\x01\x7f\xffg", b"a length past the end"),
        (encode(offset_record("g", 1))[0], b"\x00\x63 a version of another time"),
        (encode(offset_record("g", 1))[0], b""),
        (b"", b""),
        (None, b"no key at all"),
    ],
)
def test_a_record_that_is_none_is_left_out(
    odd: tuple[bytes | None, bytes | None], tmp_path: Path
) -> None:
    """The records before and after it in the same batch are applied."""
    first, last = offset_record("first", 1), offset_record("last", 2)
    broker = OffsetsBroker(str(tmp_path))
    broker.partition.log.append_as_follower(batch(encode(first), odd, encode(last)), 1)
    broker.partition.log.advance_high_watermark(3)
    assert broker.newest() == [first, last]


def test_a_damaged_batch_is_never_unpacked() -> None:
    """A flipped bit must not become an offset that was never committed. What is around it is read the
    slower way, see test_damaged_offsets."""
    damaged = bytearray(batch(encode(offset_record("lost", 7))))
    damaged[-3] ^= 1
    with pytest.raises(RecordsError, match="CRC"):
        stored_batches(bytes(damaged), 0, 1)


def test_batches_that_cannot_be_told_apart_are_an_error_of_the_partition() -> None:
    """Its groups wait, and the log says why; no other partition is concerned."""
    data = bytearray(batch(encode(offset_record("first", 1))))
    data[8:12] = b"\x00\x00\x00\x01"
    with pytest.raises(RecordsError):
        stored_batches(bytes(data), 0, 1)
