"""Writes to the active segment, rolls to the next one, and removes what a failed write left.

It knows nothing of the contents of batches, nor of the log's offsets and producer state.
"""

from __future__ import annotations

import logging

from broker.config.views import TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool
from broker.log.flush_state import FlushState
from broker.log.producer_snapshots import ProducerSnapshots
from broker.log.producer_state import ProducerState
from broker.log.segment import Segment, should_roll
from broker.log.segments import Segments
from bus.errors import ErrorCode
from bus.records.batch import Buffer

log = logging.getLogger("broker.log")


class ActiveSegmentWriter:
    """Invariant: ``active`` is the last of the segments, and the only one that is written to.
    ``_unused``: a segment whose first write failed; its files are removed before the next
    append."""

    __slots__ = (
        "_disk",
        "_files",
        "_flush_state",
        "_is_partial",
        "_producers",
        "_segments",
        "_snapshots",
        "_unused",
        "active",
    )

    def __init__(
        self,
        segments: Segments,
        producers: ProducerState,
        snapshots: ProducerSnapshots,
        flush_state: FlushState,
        disk: Disk,
        files: FilePool,
    ) -> None:
        self.active = segments.all[-1]
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots
        self._flush_state = flush_state
        self._disk = disk
        self._files = files
        self._is_partial = False
        self._unused: Segment | None = None

    def write(
        self,
        records: Buffer,
        size: int,
        max_timestamp_ms: int,
        last_offset: int,
        now_ms: int,
        config: TopicConfig,
        jitter_ms: int,
        max_append_bytes: int = 0,
        first_offset: int | None = None,
    ) -> None:
        """Append bytes to the active segment, or to a new one if they do not fit into it.

        ``first_offset``: of batches that have their offsets already, and may begin beyond the
        log's end. Without ``max_append_bytes`` nothing larger than ``segment.bytes`` is taken. A
        leader's segment may be larger than ours (its segment.bytes was when it was written), and
        a batch too large for any segment of ours gets one of its own.
        """
        if size > config.segment_bytes and size > max_append_bytes:
            raise LogError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes, segment.bytes is {config.segment_bytes}",
            )
        try:
            # What a failed append left must not lie between two batches.
            if self._is_partial or self._unused is not None:
                self._repair()
            if (self.active.size_bytes or first_offset is not None) and should_roll(
                self.active, config, jitter_ms, size, max_timestamp_ms, last_offset, now_ms
            ):
                self._roll(now_ms, records, self._next_base(first_offset, last_offset))
            else:
                self._append(records)
        except DiskError as error:
            self._try_repair()
            raise storage_error(error) from error

    def _append(self, records: Buffer) -> None:
        try:
            self.active.append(records)
        except DiskError:
            self._is_partial = True
            raise

    def _repair(self) -> None:
        if self._unused is not None:
            self._discard(self._unused)
            self._unused = None
        if self._is_partial:
            self.active.truncate_partial_batch()
            self._is_partial = False

    def _try_repair(self) -> None:
        try:
            self._repair()
        except DiskError as error:
            log.error(
                "%s: the partial batch stays until the next append: %s",
                self.active.directory,
                error,
            )

    def _discard(self, segment: Segment) -> None:
        segment.release()
        for path in segment.file_names():
            self._disk.remove(path)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end; nothing happens if the active one is empty."""
        if self.active.size_bytes:
            self._roll(now_ms, b"", self.active.end_offset)

    def _next_base(self, first_offset: int | None, last_offset: int) -> int:
        """Where the next segment begins: at the log's end, unless what follows lies so far beyond
        it that no index could name it there."""
        end_offset = self.active.end_offset
        if first_offset is None or last_offset - end_offset < OFFSETS_PER_SEGMENT:
            return end_offset
        return first_offset

    def _roll(self, now_ms: int, records: Buffer, base_offset: int) -> None:
        """A new segment that begins with ``records``. They are written first: if that fails, the
        old one is still the one that is written to, and nothing has changed."""
        closed = self.active
        end_offset = closed.end_offset
        fresh = self._new_segment(closed.directory, base_offset, now_ms)
        if records:
            try:
                fresh.append(records)
            except DiskError:
                self._unused = fresh
                raise
        self._save_producers(base_offset)
        refused = closed.try_close_for_writing()
        if refused is not None:
            log.warning("%s: indexes stay in memory for now: %s", closed.path, refused)
        elif self._flush_state.reaches(end_offset):
            for path in closed.index_files():  # a flush begins at the recovery point
                self._flush_state.add_file(path)
        self._segments.add(fresh)
        self.active = fresh

    def _save_producers(self, offset: int) -> None:
        try:
            path = self._snapshots.write(offset, self._producers)
        except DiskError as error:  # recovery begins at an older one and reads more
            log.warning("%s: no snapshot at %d: %s", self.active.directory, offset, error)
            return
        if path is not None:
            self._flush_state.add_file(path)

    def _new_segment(self, directory: str, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(directory, base_offset, self._disk, self._files, now_ms)
        for path in segment.file_names():
            self._disk.remove(path)  # left by an interrupted roll or truncation
        segment.open_for_writing()
        self._flush_state.on_file_created()
        return segment
