"""Looks up offsets by time (ListOffsets), down to the record inside its batch.

Finds the first record at or after a timestamp, or the record with the largest one. Not
more than one batch is unpacked.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.disk.port import DiskError
from broker.log.batch_scanner import NO_CRC, BatchScanner, ScannedBatch
from broker.log.errors import LogError, storage_error
from broker.log.log import Log
from broker.log.segment import Segment, SegmentBytes
from bus.records.batch import LOG_APPEND_TIME, RecordsError
from bus.records.read import read_records


class TimestampOffset(NamedTuple):
    """One record's place in time and in the log."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def first_at_or_after(partition: Log, timestamp_ms: int) -> TimestampOffset | None:
    """The first record whose timestamp is not before ``timestamp_ms``, if there is one."""
    try:
        for segment in partition.segments.since(partition.log_start_offset):
            if segment.max_timestamp_ms >= timestamp_ms:
                found = _first_in(segment, timestamp_ms, partition.log_start_offset)
                if found is not None:
                    return found
    except DiskError as error:
        raise storage_error(error) from error
    except RecordsError as error:
        raise LogError(error.code, error.detail) from error
    return None


def with_largest_timestamp(partition: Log) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log; ``None`` if it is empty."""
    try:
        return _with_largest_timestamp(partition)
    except DiskError as error:
        raise storage_error(error) from error
    except RecordsError as error:
        raise LogError(error.code, error.detail) from error


def _with_largest_timestamp(partition: Log) -> TimestampOffset | None:
    segments = partition.segments.since(partition.log_start_offset)
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    if newest.max_timestamp_ms < 0 or not newest.size_bytes:
        return None
    found = first_at_or_after(partition, newest.max_timestamp_ms)
    if found is not None:
        return found
    remaining = _largest_remaining(segments, partition.log_start_offset)
    return None if remaining is None else first_at_or_after(partition, remaining)


def _largest_remaining(segments: list[Segment], start_offset: int) -> int | None:
    """The largest timestamp when the record that had it was deleted by offset; seldom needed."""
    largest = [
        timestamp_ms
        for segment in segments
        for found in _scan(segment, segment.position_of(start_offset) or 0)
        for timestamp_ms in _remaining(found, start_offset)
    ]
    return max(largest, default=None)


def _remaining(found: ScannedBatch, start_offset: int) -> list[int]:
    """The timestamps that still count; of a batch that is wholly there only the largest."""
    if found.header.base_offset >= start_offset:
        return [found.header.max_timestamp]
    records = read_records(found.data)
    return [record.timestamp_ms for record in records if record.offset >= start_offset]


def _scan(segment: Segment, position: int) -> BatchScanner:
    return BatchScanner(
        SegmentBytes(segment),
        position,
        segment.size_bytes,
        base_offset=segment.base_offset,
        crc_from=NO_CRC,
    )


def _first_in(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampOffset | None:
    position = _begin(segment, timestamp_ms, start_offset)
    for found in _scan(segment, position):
        if found.header.max_timestamp >= timestamp_ms:
            record = _first_record(found, timestamp_ms, start_offset)
            if record is not None:
                return record
    return None


def _begin(segment: Segment, timestamp_ms: int, start_offset: int) -> int:
    """A position before which no batch reaches the timestamp or the log's start."""
    earlier = segment.times.floor_key(timestamp_ms - 1)
    reached = segment.base_offset + earlier[1] if earlier else segment.base_offset
    return segment.position_of(max(reached, start_offset, segment.base_offset)) or 0


def _first_record(
    found: ScannedBatch, timestamp_ms: int, start_offset: int
) -> TimestampOffset | None:
    header = found.header
    epoch = header.partition_leader_epoch
    if header.attributes & LOG_APPEND_TIME:
        offset = max(header.base_offset, start_offset)
        return TimestampOffset(header.max_timestamp, offset, epoch)
    for record in read_records(found.data):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(record.timestamp_ms, record.offset, epoch)
    return None
