"""Looks up offsets by time (ListOffsets), down to the record inside its batch.

Finds the first record at or after a timestamp, or the record with the largest one. Mostly the
indexes lead to it; where the record that had a time was deleted or cleaned, or cannot be read, all
headers of a log may have to be read. So a look-up is made in pieces, between which other work may
run. One batch is unpacked at a time, and those before it that cannot be: a batch is stored as its
producer compressed it, and one that is no gzip, though its header says so, must not hide the
records that follow it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from broker.disk.port import DiskError, WouldBlock
from broker.log.batch_scanner import NO_CRC, BatchScanner, ScannedBatch
from broker.log.errors import storage_error
from broker.log.log import Log
from broker.log.segment import Segment, SegmentBytes
from bus.records.batch import LOG_APPEND_TIME, RecordsError
from bus.records.read import read_records

HEADERS_PER_PIECE = 500
"""Read between two moments at which other work may run."""

BYTES_PER_PIECE = 4 << 20
"""Of the batches behind these headers, at most: they are read with them."""

LARGEST = -3
"""As a time to look up: the record with the largest timestamp (KIP-734)."""

ResultT = TypeVar("ResultT")
Pieces = Generator[WouldBlock | None, None, ResultT]
"""Stops where other work may run (None), or for bytes that are not in memory."""


class SearchPending(Exception):
    """A look-up has used up its piece; it goes on where it is."""


class TimestampOffset(NamedTuple):
    """One record's place in time and in the log."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


class TimestampSearch:
    """A look-up that is under way.

    Invariant: what it has read is of the log as it is: of one that was cut or shortened since, it
    begins again. Segments that a cleaner has replaced meanwhile it reads to their end.
    """

    def __init__(self, partition: Log, timestamp_ms: int) -> None:
        """``timestamp_ms``: a time, or ``LARGEST``."""
        self.partition = partition
        self._timestamp_ms = timestamp_ms
        self._begin()

    def _begin(self) -> None:
        self._segments = list(self.partition.segments.all)
        self._generation = self.partition.cleaning.generation
        self._log_start_offset = self.partition.log_start_offset
        self._pieces = _pieces_of(self.partition, self._timestamp_ms)

    def next_piece(self) -> TimestampOffset | None:
        """The record, or None if there is no such one. Raises SearchPending where other work may
        run, WouldBlock for what is not in memory, both to be called again, and LogError."""
        partition = self.partition
        seen = (self._generation, self._log_start_offset)
        if seen != (partition.cleaning.generation, partition.log_start_offset):
            self._begin()
        try:
            with partition.non_blocking_reads():
                waiting = next(self._pieces)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        except DiskError as error:
            here = set(map(id, partition.segments.all))
            is_replaced = any(id(one) not in here for one in self._segments)
            self._begin()
            if is_replaced:  # the file that it read may have been removed since
                raise SearchPending from error
            raise storage_error(error) from error
        raise SearchPending if waiting is None else waiting


def _pieces_of(partition: Log, timestamp_ms: int) -> Pieces[TimestampOffset | None]:
    if timestamp_ms == LARGEST:
        return _with_largest_timestamp(partition)
    return _first_at_or_after(partition, timestamp_ms)


def _first_at_or_after(partition: Log, timestamp_ms: int) -> Pieces[TimestampOffset | None]:
    start_offset = partition.log_start_offset
    for segment in partition.segments.since(start_offset):
        if segment.max_timestamp_ms >= timestamp_ms:
            found = yield from _first_in(segment, timestamp_ms, start_offset)
            if found is not None:
                return found
            yield None
    return None


def _with_largest_timestamp(partition: Log) -> Pieces[TimestampOffset | None]:
    start_offset = partition.log_start_offset
    segments = partition.segments.since(start_offset)
    newest = max(segments, key=lambda segment: segment.max_timestamp_ms)
    if newest.max_timestamp_ms < 0 or not newest.size_bytes:
        return None
    found = yield from _first_at_or_after(partition, newest.max_timestamp_ms)
    return found or (yield from _largest_readable(segments, start_offset))


def _largest_readable(
    segments: list[Segment], start_offset: int
) -> Pieces[TimestampOffset | None]:
    """Where the record that had the largest timestamp was deleted by offset, or cannot be read.

    Seldom needed: all headers are read, segment by segment and some at a time, and of these the
    batches that may have more than what was found.
    """
    best: TimestampOffset | None = None
    for segment in sorted(segments, key=lambda one: -one.max_timestamp_ms):
        if best is not None and segment.max_timestamp_ms < best.timestamp_ms:
            return best
        position = yield from _until_read(partial(segment.position_of, start_offset))
        scanner = _scan(segment, position or 0)
        while bounds := (yield from _next_bounds(scanner)):
            yield None
            for bound in bounds:
                if best is not None and not bound.is_better_than(best):
                    break
                best = yield from _better_in(segment, bound.position, start_offset, best)
                yield None
    return best


class _BatchBound(NamedTuple):
    """What a batch may have at most: its largest time, at its base offset."""

    timestamp_ms: int
    base_offset: int
    position: int

    def is_better_than(self, best: TimestampOffset) -> bool:
        return (self.timestamp_ms, -self.base_offset) > (best.timestamp_ms, -best.offset)


def _next_bounds(scanner: BatchScanner) -> Pieces[list[_BatchBound]]:
    """Of the next batches, the largest time first."""
    found: list[_BatchBound] = []
    end_position = scanner.position + BYTES_PER_PIECE
    while len(found) < HEADERS_PER_PIECE and scanner.position < end_position:
        batch = yield from _until_read(lambda: next(iter(scanner), None))
        if batch is None:
            break
        header = batch.header
        found.append(_BatchBound(header.max_timestamp, header.base_offset, batch.position))
        scanner.pass_over(batch)
    return sorted(found, key=lambda one: (-one.timestamp_ms, one.base_offset))


def _better_in(
    segment: Segment, position: int, start_offset: int, best: TimestampOffset | None
) -> Pieces[TimestampOffset | None]:
    batch = yield from _until_read(lambda: next(iter(_scan(segment, position)), None))
    for record in () if batch is None else _readable(batch, start_offset):
        if best is None or record.timestamp_ms > best.timestamp_ms or (
            record.timestamp_ms == best.timestamp_ms and record.offset < best.offset
        ):
            best = record
    return best


def _until_read(read: Callable[[], ResultT]) -> Pieces[ResultT]:
    """The same read again once its bytes are in memory."""
    while True:
        try:
            return read()
        except WouldBlock as waiting:
            yield waiting


def _scan(segment: Segment, position: int) -> BatchScanner:
    return BatchScanner(
        SegmentBytes(segment),
        position,
        segment.size_bytes,
        base_offset=segment.base_offset,
        crc_from=NO_CRC,
    )


def _first_in(
    segment: Segment, timestamp_ms: int, start_offset: int
) -> Pieces[TimestampOffset | None]:
    position = yield from _until_read(lambda: _begin(segment, timestamp_ms, start_offset))
    scanner, number, paused_at = _scan(segment, position), 0, position
    while (found := (yield from _until_read(lambda: next(iter(scanner), None)))) is not None:
        if found.header.max_timestamp >= timestamp_ms:
            record = _first_record(found, timestamp_ms, start_offset)
            if record is not None:
                return record
        scanner.pass_over(found)
        number += 1
        if number >= HEADERS_PER_PIECE or scanner.position >= paused_at + BYTES_PER_PIECE:
            number, paused_at = 0, scanner.position
            yield None
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
    """The records of a batch from the log's start on, as far as they can be read; none of a batch
    that the cleaner has emptied, though its header still has a time."""
    header = found.header
    epoch = header.partition_leader_epoch
    is_whole = header.records_count == header.last_offset_delta + 1
    if header.attributes & LOG_APPEND_TIME and is_whole:  # all have one time: the first will do
        yield TimestampOffset(header.max_timestamp, max(header.base_offset, start_offset), epoch)
        return
    with contextlib.suppress(RecordsError):  # reading by offset goes past it, too
        for record in read_records(found.data):
            if record.offset >= start_offset:
                yield TimestampOffset(record.timestamp_ms, record.offset, epoch)
