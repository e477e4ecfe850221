"""One segment of a log: a file of batches with its two sparse indexes.

In: valid batches to append, offsets and positions to find. Out: byte ranges of whole batches.
Never: decisions about retention or who may read what; never a look into records.
"""

from __future__ import annotations

from struct import Struct
from typing import Protocol

from broker.config.views import TopicConfig
from broker.disk.port import Buffer, Disk, DiskError, File
from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.errors import LogError
from broker.log.files import (
    DELETED,
    LOG,
    OFFSET_INDEX,
    TIME_INDEX,
    TXN_INDEX,
    FilePool,
    close_quietly,
    segment_path,
)
from broker.log.index import OffsetIndex, TimeIndex
from broker.log.txnindex import TransactionIndex
from bus.errors import ErrorCode
from bus.limits import MAX_BATCH_BYTES
from bus.records.batch import HEADER_BYTES, LENGTH_AND_OFFSET_BYTES, NO_TIMESTAMP, BatchHeader

_HEAD = Struct(">qi11xi").unpack_from  # base offset, batch length, last offset delta
_HEAD_BYTES = 27
_SCAN_BYTES = 8192
"""Read at once when looking for an offset: an index interval and the batch after it, mostly."""
_MAX_CURSORS = 32
"""Remembered ends of reads per segment, so that continuing readers find their position at once."""


class SegmentFile(Protocol):
    """A part of a segment, under the name it has now."""

    path: str


class Segment:
    """A segment.

    Invariant: ``size_bytes`` is the end of the last whole batch in the file. Invariant:
    ``index_bytes`` is what the larger index will have after its next entry (for time, and the last
    one that closing adds).
    """

    __slots__ = (
        "_cursors",
        "_disk",
        "_file",
        "_files",
        "base_offset",
        "bytes_since_index",
        "created_ms",
        "directory",
        "end_offset",
        "first_timestamp_ms",
        "index_bytes",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "offsets",
        "path",
        "size_bytes",
        "times",
        "transactions",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        disk: Disk,
        files: FilePool,
        now_ms: int,
        file_suffix: str = "",
    ) -> None:
        """``file_suffix``: of its files while they are none of the log."""

        def path(suffix: str) -> str:
            return segment_path(directory, base_offset, suffix) + file_suffix

        self.directory = directory
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.path = path(LOG)
        self.size_bytes = 0
        self.created_ms = now_ms
        self.first_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.bytes_since_index = 0
        self.index_bytes = 0
        self.offsets = OffsetIndex(path(OFFSET_INDEX), disk, files)
        self.times = TimeIndex(path(TIME_INDEX), disk, files)
        self.transactions = TransactionIndex(path(TXN_INDEX), disk)
        self._disk = disk
        self._files = files
        self._file: File | None = None
        self._cursors: dict[int, int] = {}

    # --- writing -------------------------------------------------------------------------------

    def open_for_writing(self) -> File:
        """Hold the file open, created if need be; the segment is the active one."""
        if self._file is None:
            self._files.forget(self.path)
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def append(self, data: Buffer) -> None:
        """Write bytes after the last whole batch; ``index_batch`` must follow for each batch."""
        (self._file or self.open_for_writing()).append(data)

    def index_batch(
        self, header: BatchHeader, last_offset: int, size: int, interval_bytes: int
    ) -> None:
        """Update sizes, timestamps and indexes for the batch just written at the end of the
        file."""
        if header.max_timestamp > self.max_timestamp_ms:
            self.max_timestamp_ms = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if not self.size_bytes:
            self.first_timestamp_ms = header.max_timestamp
        if self.bytes_since_index > interval_bytes:
            self.offsets.append(last_offset - self.base_offset, self.size_bytes)
            self._index_time()
            self.bytes_since_index = 0
            self.index_bytes = max(self.offsets.size_bytes + 8, self.times.size_bytes + 24)
        self.bytes_since_index += size
        self.size_bytes += size
        self.end_offset = last_offset + 1

    def _index_time(self) -> None:
        last = self.times.last()
        if self.max_timestamp_ms > (last[0] if last else NO_TIMESTAMP):
            self.times.append(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)

    def truncate_partial_batch(self) -> None:
        """Truncate the file to the last whole batch after a partly failed append."""
        self.open_for_writing().truncate(self.size_bytes)

    def close_for_writing(self) -> None:
        """The segment is closed: finish the indexes and free memory and handle."""
        self._index_time()
        self.offsets.seal()
        self.times.seal()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def save_indexes(self) -> None:
        """Write index entries that stand in memory only."""
        self.offsets.save()
        self.times.save()

    def release(self) -> None:
        """Close the files without writing anything."""
        file, self._file = self._file, None
        if file is not None:
            close_quietly(file)
        for path in (self.path, self.offsets.path, self.times.path):
            self._files.forget(path)

    def flush(self) -> None:
        """Force the batches to the device."""
        self.file.flush()

    @property
    def file(self) -> File:
        """The open file of batches, not to be kept."""
        return self._file or self._files.get(self.path)

    @property
    def largest_timestamp_ms(self) -> int:
        """The newest record's timestamp, or when the file was written if records carry none."""
        if self.max_timestamp_ms >= 0:
            return self.max_timestamp_ms
        return self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the file of batches was last written."""
        return self._disk.modified_ms(self.path)

    # --- reading -------------------------------------------------------------------------------

    def read_bytes(self, position: int, size: int) -> bytes | bytearray:
        """Bytes of the file of batches, fewer only at its end."""
        return self._files.read(self._file or self._files.get(self.path), position, size)

    def position_of(self, offset: int) -> int | None:
        """Where the batch that contains ``offset`` (or the next one after it) begins."""
        if offset >= self.end_offset:
            return None
        position = self._cursors.get(offset)
        if position is not None:
            return position
        entry = self.offsets.floor_key(max(offset - self.base_offset, 0))
        return self._scan_for(offset, entry[1] if entry else 0)

    def _scan_for(self, offset: int, position: int) -> int | None:
        chunk: bytes | bytearray = b""
        chunk_at = position
        while position < self.size_bytes:
            at = position - chunk_at
            if at + _HEAD_BYTES > len(chunk):
                size = min(_SCAN_BYTES, self.size_bytes - position)
                chunk, chunk_at, at = self.read_bytes(position, size), position, 0
                if len(chunk) < _HEAD_BYTES:
                    raise self._damaged(position)
            base, length, delta = _HEAD(chunk, at)
            if base + delta >= offset:
                return position
            position += self._checked_size(length, position)
        return None

    def read(self, position: int, max_bytes: int, end: int, min_one: bool) -> Buffer:
        """Whole batches from ``position`` (where one begins) up to the position ``end``.

        At most ``max_bytes``, except that with ``min_one`` the first batch comes even if it is
        larger.
        """
        wanted = min(max_bytes, end - position)
        if wanted < end - position:
            return self._read_part(position, wanted, min_one)
        data = self.read_bytes(position, wanted)
        if len(data) < wanted:
            return self._whole_batches(data, position, 0)
        if end == self.size_bytes:
            self._remember(self.end_offset, end)
        return data

    def _read_part(self, position: int, wanted: int, min_one: bool) -> Buffer:
        # One read of what is wanted, cut to whole batches afterwards: from the last index entry
        # within it on, so that the headers of a megabyte of small batches are not all looked at.
        data = self.read_bytes(position, wanted) if wanted > 0 else b""
        entry = self.offsets.floor_value(position + len(data))
        begin = max(entry[1] - position, 0) if entry else 0
        whole = self._whole_batches(data, position, begin)
        if whole or not min_one:
            return whole
        head = self.read_bytes(position, HEADER_BYTES)
        if len(head) < HEADER_BYTES:
            raise self._damaged(position)
        base, length, delta = _HEAD(head)
        size = self._checked_size(length, position)
        self._remember(base + delta + 1, position + size)
        return self._whole_batches(self.read_bytes(position, size), position, 0)

    def _whole_batches(self, data: bytes | bytearray, position: int, at: int) -> Buffer:
        """``data`` without its incomplete last batch; a batch begins at ``at``."""
        end, next_offset = at, -1
        while at + _HEAD_BYTES <= len(data):
            base, length, delta = _HEAD(data, at)
            at += self._checked_size(length, position + at)
            if at > len(data):
                break
            end, next_offset = at, base + delta + 1
        if next_offset >= 0:
            self._remember(next_offset, position + end)
        return data if end == len(data) else memoryview(data)[:end]

    def _checked_size(self, batch_length: int, position: int) -> int:
        size = batch_length + LENGTH_AND_OFFSET_BYTES
        if not HEADER_BYTES <= size <= MAX_BATCH_BYTES:
            raise self._damaged(position)
        return size

    def _damaged(self, position: int) -> LogError:
        return LogError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{self.path} is damaged at byte {position}: no batch header there",
        )

    def _remember(self, offset: int, position: int) -> None:
        cursors = self._cursors
        cursors[offset] = position
        if len(cursors) > _MAX_CURSORS:
            del cursors[next(iter(cursors))]

    def restore_max_timestamp(self) -> None:
        """Take the largest timestamp from the index: closing a segment adds it as last entry."""
        last = self.times.last()
        if last is not None:
            self.max_timestamp_ms = last[0]
            self.max_timestamp_offset = self.base_offset + last[1]

    def forget_cursors(self) -> None:
        """The file is about to be truncated; remembered positions may become wrong."""
        self._cursors.clear()

    # --- files -----------------------------------------------------------------------------------

    def all_files(self) -> tuple[SegmentFile, ...]:
        """Whatever of the segment has a path of its own: its batches and its indexes."""
        return (self, self.offsets, self.times, self.transactions)

    def file_names(self) -> list[str]:
        """Paths of all files of the segment that exist."""
        return [file.path for file in self.all_files() if self._disk.exists(file.path)]

    def set_suffix(self, suffix: str) -> None:
        """The files have been renamed: each has this suffix now."""
        for file in self.all_files():
            file.path += suffix

    def mark_deleted(self) -> list[str]:
        """Rename the files to ``.deleted``, whose paths are returned, to be removed later: whoever
        holds this segment reads on."""
        self.release()
        for path in self.file_names():
            self._disk.rename(path, path + DELETED)
        self.set_suffix(DELETED)
        return self.file_names()

    def flush_indexes(self) -> None:
        """Force the index files of a closed segment. Below the recovery point they are used as
        they are: a page that never reached the device would mislead reads and retention."""
        for path in self.index_files():
            file = self._disk.open(path)
            try:
                file.flush()
            finally:
                file.close()

    def index_files(self) -> list[str]:
        """Paths of the index files that exist."""
        return self.file_names()[1:]

    def try_close_for_writing(self) -> DiskError | None:
        """Close even if the disk refuses the indexes; they then stay in memory for a later save."""
        try:
            self.close_for_writing()
        except DiskError as error:
            return error
        return None


class SegmentBytes:
    """A segment's batches as something to read from, as its log reads them."""

    __slots__ = ("read",)

    def __init__(self, segment: Segment) -> None:
        self.read = segment.read_bytes


def should_roll(
    segment: Segment,
    config: TopicConfig,
    jitter_ms: int,
    size: int,
    timestamp_ms: int,
    last_offset: int,
    now_ms: int,
) -> bool:
    """Whether ``size`` bytes ending at ``last_offset`` belong into a new segment."""
    if not segment.size_bytes:
        return last_offset - segment.base_offset >= OFFSETS_PER_SEGMENT
    return (
        segment.size_bytes + size > config.segment_bytes
        or _age_ms(segment, timestamp_ms, now_ms) > config.max_segment_ms - jitter_ms
        or segment.index_bytes > config.segment_index_bytes
        or last_offset - segment.base_offset >= OFFSETS_PER_SEGMENT
    )


def _age_ms(segment: Segment, timestamp_ms: int, now_ms: int) -> int:
    """Measured in the records' own time where they have one, as Kafka does."""
    if segment.first_timestamp_ms >= 0 and timestamp_ms >= 0:
        return timestamp_ms - segment.first_timestamp_ms
    return now_ms - segment.created_ms
