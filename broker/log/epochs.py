"""Which leader epoch wrote which offsets of a log (KIP-101, KIP-279).

In: epochs and offsets, as they are appended or truncated. Out: the end of an epoch, the epoch of an
offset. Never: I/O except in ``save``; the file need only be complete up to the recovery point,
because recovery reads the epochs of everything after it from the batches, and of nothing else where
some of these were deleted. Where the file is damaged it reads all of them from there: by a wrong
epoch a follower cuts off what it has acknowledged. Apache Kafka writes its file with every epoch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from broker.disk.port import Disk
from broker.log.checkpoint import read_epochs, write_epochs

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEnd(NamedTuple):
    """The largest epoch not above the one asked for, and the offset after its last record."""

    epoch: int
    end_offset: int


class UnsavedEpochs(NamedTuple):
    """Epochs to be stored, and the version of them that this is."""

    version: int
    entries: list[tuple[int, int]]


def store_epochs(disk: Disk, directory: str, unsaved: UnsavedEpochs) -> None:
    """Write the file of the log in ``directory``, on a thread that may wait for the device."""
    write_epochs(disk, f"{directory}/{FILE_NAME}", unsaved.entries)


class LeaderEpochs:
    """Epochs with their start offsets. Invariant: both rise strictly from entry to entry;
    ``_version`` differs from ``_saved_version`` when the file does not say the same.
    ``is_doubtful``: the file is missing or damaged, so the batches have to be read."""

    def __init__(self, disk: Disk, path: str, is_stored: bool = True) -> None:
        """``is_stored``: whether there may be a file to begin with."""
        self._disk = disk
        self._path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self._version = 0
        stored, is_sound = read_epochs(disk, path) if is_stored else ([], False)
        for epoch, start in stored:
            self.assign(epoch, start)
        self.is_doubtful = not is_sound or self.entries != stored
        self._saved_version = self._version

    @property
    def latest(self) -> int:
        """The epoch of the newest batch; -1 in an empty log."""
        return self._epochs[-1] if self._epochs else UNDEFINED_EPOCH

    @property
    def first_start(self) -> int | None:
        """Where the oldest epoch begins that is known."""
        return self._starts[0] if self._starts else None

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """From ``start_offset`` on batches carry ``epoch``; what contradicts that is dropped."""
        if epoch < 0 or (self._epochs and self._epochs[-1] == epoch):
            return
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self._version += 1

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where ``epoch`` ends here: the start of the next one known, or the log's end."""
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == self._epochs[-1]:
            return EpochEnd(epoch, log_end_offset)
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):  # newer than any epoch here: the caller must fence itself
            return EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if after == 0:  # older than anything kept: all of it has been deleted
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[after - 1], self._starts[after])

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch a batch at ``offset`` was written in; -1 if that is not known any more."""
        at = bisect_right(self._starts, offset) - 1
        return self._epochs[at] if at >= 0 else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that begin at or after ``end_offset``."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self._version += 1

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at or before ``start_offset``."""
        at = bisect_right(self._starts, start_offset) - 1
        if at < 0 or (at == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:at], self._starts[:at]
        self._starts[0] = start_offset
        self._version += 1

    def rebuild(self, batches: Iterable[tuple[int, int]]) -> None:
        """Rebuild from the log's batches, given as (leader epoch, base offset) in their order."""
        self.clear()
        for epoch, base_offset in batches:
            self.assign(epoch, base_offset)

    def clear(self) -> None:
        """Forget everything (the log restarts at another offset)."""
        self._version += bool(self._epochs)
        self._epochs, self._starts = [], []
        self.is_doubtful = False

    def copy_from(self, others: LeaderEpochs) -> None:
        """Copy the entries of ``others``."""
        self._epochs, self._starts = list(others._epochs), list(others._starts)
        self._version += 1

    def unsaved(self) -> UnsavedEpochs | None:
        """What ``store_epochs`` has to write, if anything has changed since."""
        if self._version == self._saved_version:
            return None
        return UnsavedEpochs(self._version, self.entries)

    def mark_saved(self, version: int) -> None:
        """That version stands in the file."""
        self._saved_version = max(self._saved_version, version)

    def save(self) -> None:
        """Write the file if anything has changed."""
        unsaved = self.unsaved()
        if unsaved is not None:
            write_epochs(self._disk, self._path, unsaved.entries)
            self.mark_saved(unsaved.version)
