"""Looks up offsets by time (ListOffsets), down to the record inside its batch.

Finds the first record at or after a timestamp, or the record with the largest one. One batch is
unpacked, and those before it that cannot be: a batch is stored as its producer compressed it, and
one that is no gzip, though its header says so, must not hide the records that follow it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from broker.disk.port import DiskError
from broker.log.batch_scanner import NO_CRC, BatchScanner, ScannedBatch
from broker.log.errors import storage_error
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
    return None


def with_largest_timestamp(partition: Log) -> TimestampOffset | None:
    """The first record that has the largest timestamp of the log; ``None`` if it is empty."""
    try:
        return _with_largest_timestamp(partition)
    except DiskError as error:
        raise storage_error(error) from error


def _with_largest_timestamp(partition: Log) -> TimestampOffset | None:
    segments = partition.segments.since(partition.log_start_offset)
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    if newest.max_timestamp_ms < 0 or not newest.size_bytes:
        return None
    found = first_at_or_after(partition, newest.max_timestamp_ms)
    return found or _largest_readable(segments, partition.log_start_offset)


def _largest_readable(segments: list[Segment], start_offset: int) -> TimestampOffset | None:
    """Where the record that had the largest timestamp was deleted by offset, or cannot be read.

    Seldom needed: all headers are read, then batches from the largest timestamp down, until no
    header promises more than what was found.
    """
    headers = [
        (found.header.max_timestamp, -found.header.base_offset, segment)
        for segment in segments
        for found in _scan(segment, segment.position_of(start_offset) or 0)
    ]
    best: TimestampOffset | None = None
    for timestamp_ms, negative_offset, segment in sorted(headers, key=lambda one: one[:2])[::-1]:
        if best is not None and best.timestamp_ms >= timestamp_ms:
            return best
        found = next(iter(_scan(segment, segment.position_of(-negative_offset) or 0)))
        for record in _readable(found, start_offset):
            if best is None or record.timestamp_ms > best.timestamp_ms:
                best = record
    return best


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
    reached = (one for one in _readable(found, start_offset) if one.timestamp_ms >= timestamp_ms)
    return next(reached, None)


def _readable(found: ScannedBatch, start_offset: int) -> Iterator[TimestampOffset]:
    """The records of a batch from the log's start on, as far as they can be read."""
    header = found.header
    epoch = header.partition_leader_epoch
    if header.attributes & LOG_APPEND_TIME:
        yield TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), epoch)
        return
    with contextlib.suppress(RecordsError):  # reading by offset goes past it, too
        for record in read_records(found.data):
            if record.offset >= start_offset:
                yield TimestampOffset(record.timestamp_ms, record.offset, epoch)
