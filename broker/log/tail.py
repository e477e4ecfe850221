"""The end of a log: the segment that is written to, the next one, and what a torn write leaves.

In: bytes to write, the time as a value. Out: bytes in the active segment, ``DiskError`` and
``LogError``. Never: a look into the batches; the books of the log.
"""

from __future__ import annotations

import logging

from broker.config.views import TopicConfig
from broker.disk.port import Disk, DiskError
from broker.log.durability import Durability
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool
from broker.log.producer_state import ProducerState
from broker.log.rolling import must_roll
from broker.log.segment import Segment
from broker.log.segments import Segments
from broker.log.snapshots import Snapshots
from bus.errors import ErrorCode
from bus.records.batch import Buffer

log = logging.getLogger("broker.log")


class Tail:
    """Invariant: ``active`` is the last of the segments, and the only one that is written to."""

    __slots__ = (
        "_disk",
        "_durability",
        "_files",
        "_is_torn",
        "_producers",
        "_segments",
        "_snapshots",
        "active",
    )

    def __init__(
        self,
        segments: Segments,
        producers: ProducerState,
        snapshots: Snapshots,
        durability: Durability,
        disk: Disk,
        files: FilePool,
    ) -> None:
        self.active = segments.all[-1]
        self._segments = segments
        self._producers = producers
        self._snapshots = snapshots
        self._durability = durability
        self._disk = disk
        self._files = files
        self._is_torn = False

    def write(
        self,
        records: Buffer,
        size: int,
        max_timestamp_ms: int,
        last_offset: int,
        now_ms: int,
        config: TopicConfig,
        jitter_ms: int,
        largest_bytes: int = 0,
    ) -> None:
        """Put bytes at the end of the active segment, a new one if they do not belong in it."""
        if size > config.segment_bytes and size > largest_bytes:
            raise LogError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes, segment.bytes is {config.segment_bytes}",
            )
        try:
            if self._is_torn:
                self._repair()
            if must_roll(
                self.active, config, jitter_ms, size, max_timestamp_ms, last_offset, now_ms
            ):
                self.roll(now_ms)
            self.active.append(records)
        except DiskError as error:
            self._is_torn = True
            self._try_repair()
            raise storage_error(error) from error

    def _repair(self) -> None:
        self.active.cut_torn_tail()
        self._is_torn = False

    def _try_repair(self) -> None:
        try:
            self._repair()
        except DiskError as error:
            log.error(
                "%s: the torn tail stays until the next append: %s", self.active.directory, error
            )

    def roll(self, now_ms: int) -> None:
        """Begin a new segment at the log's end; nothing happens if the active one is empty."""
        closed = self.active
        if not closed.size_bytes:
            return
        end_offset = closed.end_offset
        fresh = self._new_segment(closed.directory, end_offset, now_ms)
        self._snapshots.take(end_offset, self._producers)
        refused = closed.try_close_for_writing()
        if refused is not None:
            log.warning("%s: indexes stay in memory for now: %s", closed.path, refused)
        elif self._durability.recovery_point >= end_offset:
            closed.flush_indexes()  # no later flush would look at this segment again
        self._segments.add(fresh)
        self.active = fresh

    def _new_segment(self, directory: str, base_offset: int, now_ms: int) -> Segment:
        segment = Segment(directory, base_offset, self._disk, self._files, now_ms)
        for path in segment.file_names():
            self._disk.remove(path)  # left by a roll or a truncation that was interrupted
        segment.open_for_writing()
        self._durability.name_made()
        return segment
