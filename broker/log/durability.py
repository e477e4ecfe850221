"""How far one log is on the device, and what it takes to get it there.

In: the log's segments, its end, what was done on a worker thread. Out: forced files, the recovery
point, the offset from which on nothing may be acknowledged yet. Never: when to flush; a second
flush of a file whose flush has failed: the kernel may have dropped what it could not write, and
says so only once.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.disk.port import Disk, DiskError
from broker.log.directories import flush_file
from broker.log.epochs import LeaderEpochs, Unsaved, store
from broker.log.partition_metadata import flush_new
from broker.log.segment import Segment
from broker.log.segments import Segments


class Flush(NamedTuple):
    """A flush on its way: the offset it reaches, the files to force, how many of the names made in
    the directory it makes known to the device (0: none are new), whether the directory itself is
    new to it, and the leader epochs to store with the number of their version."""

    offset: int
    paths: list[str]
    names: int
    is_new: bool
    epochs: Unsaved | None = None


class Durability:
    """Invariant: everything below ``recovery_point`` is on the device. ``is_new``: neither the
    directory's name nor its topic id is. ``held_at``: where what flush.messages keeps from being
    acknowledged begins; None: nothing is kept. ``failure``: the flush that failed, the last one."""

    __slots__ = (
        "_directory",
        "_disk",
        "_flushing_to",
        "_names_flushed",
        "_names_made",
        "_others",
        "failure",
        "held_at",
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
        self.held_at: int | None = None
        self.failure: DiskError | None = None
        self._flushing_to = 0
        self._names_made, self._names_flushed = 1, 0
        self._others: dict[str, None] = {}

    def opened(self, recovery_point: int, now_ms: int, unforced: list[str]) -> None:
        """The log was opened, flushed up to there but for what was cut off ``unforced`` files: that
        could come back below records that are flushed in later ones."""
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        for path in unforced:
            self.force_too(path)

    def name_made(self) -> None:
        """The directory has another file."""
        self._names_made += 1

    def force_too(self, path: str) -> None:
        """The next flush forces this file as well."""
        self._others[path] = None

    def take_over(self, former: Durability) -> None:
        """Force what another directory's books, renamed to ours, would have forced."""
        for path in former._others:
            self.force_too(f"{self._directory}/{path.rpartition('/')[2]}")

    def reaches(self, offset: int) -> bool:
        """Whether no later flush will look at what lies below ``offset``."""
        return max(self.recovery_point, self._flushing_to) >= offset

    def hold(self, offset: int) -> None:
        """What is appended from ``offset`` on may not be acknowledged before it is flushed."""
        if self.held_at is None:
            self.held_at = offset

    def cut(self, flushed: int, end_offset: int) -> None:
        """The log was cut and ends there; what a flush that is under way reaches is below it."""
        self.recovery_point = min(flushed, end_offset)
        self._flushing_to = min(self._flushing_to, end_offset)
        if self.held_at is not None and self.held_at >= end_offset:
            self.held_at = None

    def flush(
        self, segments: Segments, active: Segment, end_offset: int, epochs: LeaderEpochs
    ) -> None:
        """Force everything; raises DiskError."""
        self.check_sound()
        try:
            self._flush(segments, active, epochs)
        except DiskError as error:
            self.failure = error
            raise
        self.recovery_point = max(self.recovery_point, end_offset)
        self.held_at = None

    def _flush(self, segments: Segments, active: Segment, epochs: LeaderEpochs) -> None:
        for segment in segments.since(self.recovery_point):
            segment.save_indexes()
            segment.flush()
            self._others.pop(segment.path, None)
            if segment is not active:
                segment.flush_indexes()
        for path in list(self._others):
            flush_file(self._disk, path)
            del self._others[path]
        epochs.save()
        if self.is_new:
            flush_new(self._disk, self._directory)
            self.is_new = False
        if self._names_made != self._names_flushed:
            self._disk.flush_directory(self._directory)
            self._names_flushed = self._names_made

    def check_sound(self) -> None:
        """Raise the DiskError of the flush that failed."""
        if self.failure is not None:
            raise self.failure

    def begin(self, segments: Segments, end_offset: int, epochs: LeaderEpochs) -> Flush:
        """What a worker thread has to force from here on."""
        self.check_sound()
        self._flushing_to = end_offset
        unflushed = segments.since(self.recovery_point)
        for segment in unflushed:
            segment.save_indexes()
        paths = [segment.path for segment in unflushed]
        for segment in unflushed[:-1]:
            paths += segment.index_files()
        paths += [path for path in self._others if path not in paths]
        names = self._names_made if self._names_made != self._names_flushed else 0
        return Flush(end_offset, paths, names, self.is_new, epochs.unsaved())

    def done(self, flush: Flush, end_offset: int, now_ms: int, flush_messages: int) -> None:
        """What ``flush`` was for is on the device, except for what a truncation has replaced since
        it began."""
        reached = min(flush.offset, self._flushing_to, end_offset)
        self.recovery_point = max(self.recovery_point, reached)
        self._names_flushed = max(self._names_flushed, flush.names)
        self.is_new = self.is_new and not flush.is_new
        self.last_flush_ms = now_ms
        for path in flush.paths:
            self._others.pop(path, None)
        if self.held_at is not None:
            is_near = end_offset - self.recovery_point < flush_messages
            self.held_at = None if is_near else max(self.held_at, self.recovery_point)


def force(disk: Disk, directory: str, flush: Flush) -> None:
    """Do it, on a worker thread: by handles of our own, the logs may close theirs meanwhile."""
    if flush.is_new:
        flush_new(disk, directory)
    if flush.names:
        disk.flush_directory(directory)
    for path in flush.paths:
        flush_file(disk, path)
    if flush.epochs is not None:
        store(disk, directory, flush.epochs)
