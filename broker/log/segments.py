"""The segments of one log, oldest first, and what makes their truncation durable.

In: offsets. Out: the segment or the bytes they stand for. Never: writing batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from typing import NamedTuple

from broker.disk.port import Disk, DiskError
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool
from broker.log.log_dir_files import flush_file
from broker.log.replacement_files import (
    FileReplacement,
    Span,
    forget_span,
    open_replacement,
    propose,
    swap_files,
    withdraw,
)
from broker.log.segment import Segment
from broker.log.txnindex import AbortedTransaction
from bus.errors import ErrorCode
from bus.records.batch import HEADER_BYTES, Buffer, header_at, iter_batches

_EMPTY = b""

MOST_EMPTY_READS = 64
"""Segments without records that one fetch steps over: about a millisecond."""


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


class PendingReplacement(NamedTuple):
    """A replacement under way; ``is_proposed``: from the begin of step 2 to the end of step 4;
    ``renames``: what of step 4 is made."""

    span: Span
    replaced: list[Segment]
    is_proposed: bool = False
    renames: FileReplacement | None = None


class Segments:
    """Invariant: never empty; base offsets rise; ``_bases`` are those of ``all``. At most one
    replacement is under way."""

    def __init__(self, segments: list[Segment]) -> None:
        self.all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._replacement: PendingReplacement | None = None

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
        """Remove the oldest segments from the list and return them; ``withdraw_replacement``
        before."""
        gone = self.all[:count]
        del self.all[:count], self._bases[:count]
        return gone

    # --- replacing -------------------------------------------------------------------------------

    def begin_replacement(self, replaced: Sequence[Segment], recovery_point: int) -> Span:
        """What a replacement of these segments stands for; ``store_span`` is next. LogError unless
        they are neighbouring closed segments of this log, and forced: what is not may be lost with
        the power, and a replacement on the device would outlive what it was made of."""
        slot = self.all.index(replaced[0]) if replaced[0] in self.all[:-1] else len(self.all)
        following = slot + len(replaced)
        if following >= len(self.all) or self.all[slot:following] != list(replaced):
            raise _not_replaced(replaced[0], "these are no neighbouring closed segments of the log")
        span = Span(replaced[0].base_offset, self.all[following].base_offset)
        if span.end_offset > recovery_point:
            raise _not_replaced(replaced[0], f"only what lies before {recovery_point} is forced")
        if self._replacement is not None:
            raise _not_replaced(replaced[0], f"{self._replacement.span} is under way")
        self._replacement = PendingReplacement(span, list(replaced))
        return span

    def propose_replacement(
        self, span: Span, disk: Disk, writer: str = ""
    ) -> Generator[None, None, None]:
        """Step 2 of ``replacement_files``, of the files that a writer made, in slices between which
        the log may change. LogError: it was withdrawn, or has to be."""
        self._replacement = self._pending(span)._replace(is_proposed=True)
        try:
            for _ in propose(disk, self.first.directory, span, writer):
                yield
                self._pending(span)
        except DiskError as error:
            raise storage_error(error) from error

    def _pending(self, span: Span) -> PendingReplacement:
        pending = self._replacement
        if pending is None or pending.span != span:
            raise _not_replaced(self.first, f"{span} was withdrawn")
        return pending

    def replace(self, span: Span, disk: Disk, files: FilePool) -> Generator[None, None, list[str]]:
        """Step 4, in slices between which the log may be read and changed: the new segment stands
        in the place of the old ones, whose paths are returned: they may be removed after
        file.delete.delay.ms, for somebody may still read there.

        LogError: nothing has changed, unless its cause is an UnfinishedReplacementError; the log
        was truncated since, or the disk refuses.
        """
        directory, renames = self.first.directory, FileReplacement(disk)
        pending = self._replacement = self._pending(span)._replace(renames=renames)
        try:
            for _ in swap_files(directory, span, pending.replaced, renames):
                yield
                self._pending(span)
            fresh = open_replacement(disk, directory, span, files)
        except DiskError as error:
            raise storage_error(error) from error
        slot = self.all.index(pending.replaced[0])
        self.all[slot : slot + len(pending.replaced)] = [fresh]
        self._bases = [segment.base_offset for segment in self.all]
        self._replacement = pending._replace(is_proposed=False)
        return [path for segment in pending.replaced for path in segment.file_names()]

    def withdraw_replacement(self, disk: Disk) -> None:
        """The log is about to be truncated or shortened: what was proposed for it is void, and what
        was renamed for it gets its name back. One that stands already stays; only the note of what
        it covers goes, as in step 5. DiskError."""
        pending, self._replacement = self._replacement, None
        if pending is None:
            return
        directory = self.first.directory
        if not pending.is_proposed:
            forget_span(disk, directory, pending.span)
            return
        if pending.renames is not None:
            pending.renames.undo()
        withdraw(disk, directory, pending.span)

    def end_replacement(self) -> None:
        """It stands; ``forget_span`` is next, unless the log was changed since."""
        self._replacement = None

    # --- looking up ------------------------------------------------------------------------------

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

    def read_records(self, offset: int, max_bytes: int, upper_offset: int, min_one: bool) -> Buffer:
        """As ``read``; where only batches without records come, what follows them, if there is any.

        A cleaner leaves such batches, alone in a segment where no record stays. librdkafka takes an
        answer without records for one that is too small, asks for twice as much each time, and
        after a dozen of them tells its application that a record is too large.
        """
        data = self.read(offset, max_bytes, upper_offset, min_one)
        for _ in range(MOST_EMPTY_READS):
            end_offset = _end_of_empty(data)
            if end_offset is None or end_offset >= upper_offset:
                break
            following = self.read(end_offset, max_bytes, upper_offset, min_one)
            if not following:
                break
            data = following
        return data

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
        self.withdraw_replacement(disk)
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


def _end_of_empty(data: Buffer) -> int | None:
    """Where batches end that have no records; None if there is a record among them, or no batch."""
    if len(data) < HEADER_BYTES or header_at(data).records_count:
        return None  # nearly always
    end_offset = None
    for _, header in iter_batches(data):
        if header.records_count:
            return None
        end_offset = header.end_offset
    return end_offset


def _not_replaced(segment: Segment, why: str) -> LogError:
    return LogError(ErrorCode.KAFKA_STORAGE_ERROR, f"{segment.path} is not replaced: {why}")
