"""How far one log is on the device, and what it takes to get it there.

In: the log's segments, its end, what was done on a worker thread. Out: forced files, the recovery
point. Never: when to flush.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.disk.port import Disk
from broker.log.epochs import LeaderEpochs
from broker.log.partition_metadata import flush_new
from broker.log.segment import Segment
from broker.log.segments import Segments


class Flush(NamedTuple):
    """A flush on its way: the offset it reaches, the files to force, how many of the names made in
    the directory it makes known to the device (0: none are new), and whether the directory itself
    is new to it."""

    offset: int
    paths: list[str]
    names: int
    is_new: bool


class Durability:
    """Invariant: everything below ``recovery_point`` is on the device. ``is_new``: neither the
    directory's name nor its topic id is."""

    __slots__ = (
        "_directory",
        "_disk",
        "_flushing_to",
        "_names_flushed",
        "_names_made",
        "is_new",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(self, disk: Disk, directory: str, *, is_new: bool) -> None:
        self._disk = disk
        self._directory = directory
        self.is_new = is_new
        self.recovery_point = 0
        self.last_flush_ms = 0
        self._flushing_to = 0
        self._names_made, self._names_flushed = 1, 0

    def opened(self, recovery_point: int, now_ms: int) -> None:
        """The log was opened, flushed up to there."""
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms

    def name_made(self) -> None:
        """The directory has another file."""
        self._names_made += 1

    def cut(self, flushed: int, end_offset: int) -> None:
        """The log was cut and ends there; what a flush that is under way reaches is below it."""
        self.recovery_point = min(flushed, end_offset)
        self._flushing_to = min(self._flushing_to, end_offset)

    def flush(
        self, segments: Segments, active: Segment, end_offset: int, epochs: LeaderEpochs
    ) -> None:
        """Force everything; raises DiskError."""
        for segment in segments.since(self.recovery_point):
            segment.save_indexes()
            segment.flush()
            if segment is not active:
                segment.flush_indexes()
        epochs.save()
        if self._names_made != self._names_flushed:
            self._disk.flush_directory(self._directory)
            self._names_flushed = self._names_made
        if self.is_new:
            flush_new(self._disk, self._directory)
            self.is_new = False
        self.recovery_point = max(self.recovery_point, end_offset)

    def begin(self, segments: Segments, end_offset: int) -> Flush:
        """What a worker thread has to force from here on."""
        self._flushing_to = end_offset
        unflushed = segments.since(self.recovery_point)
        for segment in unflushed:
            segment.save_indexes()
        paths = [segment.path for segment in unflushed]
        for segment in unflushed[:-1]:
            paths += segment.index_files()
        names = self._names_made if self._names_made != self._names_flushed else 0
        return Flush(end_offset, paths, names, self.is_new)

    def done(self, flush: Flush, end_offset: int, now_ms: int) -> None:
        """What ``flush`` was for is on the device, except for what a truncation has replaced since
        it began."""
        reached = min(flush.offset, self._flushing_to, end_offset)
        self.recovery_point = max(self.recovery_point, reached)
        self._names_flushed = max(self._names_flushed, flush.names)
        self.is_new = self.is_new and not flush.is_new
        self.last_flush_ms = now_ms
