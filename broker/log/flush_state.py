"""How much of one log is on the device: the recovery point and the files still to be flushed.

In: the log's segments, its end, what was done on a worker thread. Out: flushed files, the recovery
point, the offset from which on nothing may be acknowledged yet. Never: when to flush; a second
flush of a file whose flush has failed: the kernel may have dropped what it could not write, and
reports that only once.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.disk.port import Disk, DiskError
from broker.log.epochs import LeaderEpochs, UnsavedEpochs, store_epochs
from broker.log.log_dir_files import flush_file
from broker.log.partition_metadata import flush_new
from broker.log.segment import Segment
from broker.log.segments import Segments


class PendingFlush(NamedTuple):
    """A flush on its way: the offset it reaches, the files to force, how many of the names made in
    the directory it makes known to the device (0: none are new), whether the directory itself is
    new to it, and the leader epochs to store with the number of their version."""

    offset: int
    paths: list[str]
    names: int
    is_new: bool
    epochs: UnsavedEpochs | None = None


class FlushState:
    """Invariant: everything below ``recovery_point`` is on the device. ``is_new``: neither the
    directory's name nor its topic id is. ``held_at``: where what flush.messages keeps from being
    acknowledged begins; None: nothing is kept. ``failure``: the flush that failed, the last one."""

    __slots__ = (
        "_directory",
        "_disk",
        "_extra_files",
        "_flushing_to",
        "_names_flushed",
        "_names_made",
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
        self._extra_files: dict[str, None] = {}

    def on_open(self, recovery_point: int, now_ms: int, unforced: list[str]) -> None:
        """The log was opened and is flushed up to there, except for ``unforced`` files: what was
        cut off them could reappear below records that are flushed in later files, and indexes
        written anew could be torn."""
        self.recovery_point = recovery_point
        self.last_flush_ms = now_ms
        for path in unforced:
            self.add_file(path)

    def on_file_created(self) -> None:
        """The directory has another file."""
        self._names_made += 1

    def add_file(self, path: str) -> None:
        """The next flush forces this file as well."""
        self._extra_files[path] = None

    def copy_pending_files(self, former: FlushState) -> None:
        """Also flush the files that the log's former directory, now renamed to ours, had
        pending."""
        for path in former._extra_files:
            self.add_file(f"{self._directory}/{path.rpartition('/')[2]}")

    def reaches(self, offset: int) -> bool:
        """Whether no later flush includes what lies below ``offset``."""
        return max(self.recovery_point, self._flushing_to) >= offset

    def hold(self, offset: int) -> None:
        """What is appended from ``offset`` on may not be acknowledged before it is flushed."""
        if self.held_at is None:
            self.held_at = offset

    def on_truncate(self, flushed: int, end_offset: int) -> None:
        """The log was truncated and ends there; a flush under way reaches at most that."""
        self.recovery_point = min(flushed, end_offset)
        self._flushing_to = min(self._flushing_to, end_offset)
        if self.held_at is not None and self.held_at >= end_offset:
            self.held_at = None

    def flush(
        self, segments: Segments, active: Segment, end_offset: int, epochs: LeaderEpochs
    ) -> None:
        """Force everything; raises DiskError."""
        self.raise_if_failed()
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
            self._extra_files.pop(segment.path, None)
            if segment is not active:
                segment.flush_indexes()
        for path in list(self._extra_files):
            flush_file(self._disk, path)
            del self._extra_files[path]
        epochs.save()
        if self.is_new:
            flush_new(self._disk, self._directory)
            self.is_new = False
        if self._names_made != self._names_flushed:
            self._disk.flush_directory(self._directory)
            self._names_flushed = self._names_made

    def raise_if_failed(self) -> None:
        """Raise the DiskError of the flush that failed."""
        if self.failure is not None:
            raise self.failure

    def begin(self, segments: Segments, end_offset: int, epochs: LeaderEpochs) -> PendingFlush:
        """The files a worker thread has to flush now."""
        self.raise_if_failed()
        self._flushing_to = end_offset
        unflushed = segments.since(self.recovery_point)
        for segment in unflushed:
            segment.save_indexes()
        paths = [segment.path for segment in unflushed]
        for segment in unflushed[:-1]:
            paths += segment.index_files()
        paths += [path for path in self._extra_files if path not in paths]
        names = self._names_made if self._names_made != self._names_flushed else 0
        return PendingFlush(end_offset, paths, names, self.is_new, epochs.unsaved())

    def complete(
        self, flush: PendingFlush, end_offset: int, now_ms: int, flush_messages: int
    ) -> None:
        """What ``flush`` was for is on the device, except for what a truncation has replaced since
        it began."""
        reached = min(flush.offset, self._flushing_to, end_offset)
        self.recovery_point = max(self.recovery_point, reached)
        self._names_flushed = max(self._names_flushed, flush.names)
        self.is_new = self.is_new and not flush.is_new
        self.last_flush_ms = now_ms
        for path in flush.paths:
            self._extra_files.pop(path, None)
        if self.held_at is not None:
            is_near = end_offset - self.recovery_point < flush_messages
            self.held_at = None if is_near else max(self.held_at, self.recovery_point)


def run_flush(disk: Disk, directory: str, flush: PendingFlush) -> None:
    """Flush on a worker thread, through handles of our own: the logs may close theirs meanwhile."""
    if flush.is_new:
        flush_new(disk, directory)
    if flush.names:
        disk.flush_directory(directory)
    for path in flush.paths:
        flush_file(disk, path)
    if flush.epochs is not None:
        store_epochs(disk, directory, flush.epochs)
