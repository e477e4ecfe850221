"""The segments of one log, oldest first, and what makes their truncation durable.

In: offsets. Out: the segment or the bytes they stand for. Never: writing batches.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from broker.disk.port import Disk
from broker.log.log_dir_files import flush_file
from broker.log.segment import Segment
from broker.log.txnindex import AbortedTransaction
from bus.records.batch import Buffer

_EMPTY = b""


class PendingTruncation(NamedTuple):
    """What makes a truncation durable: the files to force, and whether files were removed."""

    paths: list[str]
    names: bool


def force_truncation(disk: Disk, directory: str, truncation: PendingTruncation) -> None:
    """Force it, on a thread that may wait for the device.

    If a loss of power undid a truncation after other records had been appended in its place, the
    log would hold both.
    """
    for path in truncation.paths:
        flush_file(disk, path)
    if truncation.names:
        disk.flush_directory(directory)


class FetchSlice(NamedTuple):
    """The result of a read: whole batches, all of them below ``upper_offset``."""

    data: Buffer
    upper_offset: int


class Segments:
    """Invariant: never empty; base offsets rise; ``_bases`` are those of ``all``."""

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        self._bases = [segment.base_offset for segment in segments]

    def __len__(self) -> int:
        return len(self.all)

    @property
    def first(self) -> Segment:
        return self.all[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.all)

    def add(self, segment: Segment) -> None:
        """Put a new segment at the end."""
        self.all.append(segment)
        self._bases.append(segment.base_offset)

    def remove_first(self, count: int) -> list[Segment]:
        """Remove the oldest segments from the list and return them."""
        gone = self.all[:count]
        del self.all[:count], self._bases[:count]
        return gone

    def slot_of(self, offset: int) -> int:
        """The index of the last segment that does not begin after ``offset``."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def since(self, offset: int) -> list[Segment]:
        """The segments that may hold batches at or after ``offset``."""
        return self.all[self.slot_of(offset) :]

    def find(self, offset: int) -> tuple[Segment, int] | None:
        """Segment and position of the batch that contains ``offset``, or of the next one."""
        for segment in self.since(offset):
            position = segment.position_of(offset)
            if position is not None:
                return segment, position
        return None

    def read(self, offset: int, max_bytes: int, upper_offset: int, min_one: bool) -> Buffer:
        """Whole batches of one segment from ``offset`` on, none at or above ``upper_offset``."""
        found = self.find(offset)
        if found is None:
            return _EMPTY
        segment, position = found
        end = segment.size_bytes
        if upper_offset < segment.end_offset:
            upper = segment.position_of(upper_offset)
            end = end if upper is None else upper
        if end <= position:
            return _EMPTY
        return segment.read(position, max_bytes, end, min_one)

    def distance(self, offset: int, upper_offset: int) -> int:
        """Bytes between two offsets."""
        return self._bytes_before(upper_offset) - self._bytes_before(offset)

    def _bytes_before(self, offset: int) -> int:
        slot = self.slot_of(offset)
        before = sum(segment.size_bytes for segment in self.all[:slot])
        position = self.all[slot].position_of(offset)
        return before + (self.all[slot].size_bytes if position is None else position)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that touch [start, end), from the segments their markers are in."""
        return [
            entry
            for segment in self.since(start_offset)
            for entry in segment.transactions.touching(start_offset, end_offset)
        ]

    def truncate(self, offset: int, disk: Disk) -> PendingTruncation:
        """Truncate the files so that ``offset`` and all after it is gone; nothing else is updated.

        The result makes it durable, which must happen before the next append.
        """
        slot = self.slot_of(offset)
        for segment in self.all[slot + 1 :]:
            segment.release()
            for path in segment.file_names():
                disk.remove(path)
        last = self.all[slot]
        position = last.position_of(offset)
        if position is not None:
            file = disk.open(last.path)
            try:
                file.truncate(position)
            finally:
                file.close()
        last.save_indexes()
        last.release()
        return PendingTruncation([] if position is None else [last.path], slot + 1 < len(self.all))
