"""Segments replaced by one: the files, and what a start makes of a replacement that was cut short.

In: neighbouring closed segments, the batches that are to stand for all of them. Out: their files
swapped so that, whenever the process or the machine dies, the next start finds the old segments or
the new one, whole; never both, never neither. Never: which segments, which batches (the cleaner
says); in memory anything (``Segments.replace``), when which step comes (``replacement.py``).

The new files are written and forced as ``.cleaned`` (``write_cleaned``). Then, step by step:

1. ``<base>.replaces`` says which offsets they stand for, durably.
2. ``.cleaned`` → ``.swap``, the log last.
3. The directory is forced. From here on the replacement is decided.
4. The old files → ``.deleted``, then ``.swap`` → their names, the log last.
5. The directory is forced, ``.replaces`` removed; ``.deleted`` is removed later, as in retention.

Steps 2 and 4 yield after each rename: one takes up to a millisecond while another process forces
files of the same directory. The log is served in between, from the old segments by whatever names
their files have.

A replacement ends with the batch with which the old segments end, emptied if need be: recovery
takes a segment that ends before the next one begins for one that lost its end (ADR 0082).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from errno import EIO
from typing import NamedTuple

from broker.disk.port import Disk, DiskError
from broker.log.batch_scanner import NO_CRC, BatchScanner
from broker.log.checked import verify_checksum, with_checksum
from broker.log.files import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    REPLACES,
    SWAP,
    TIME_INDEX,
    TXN_INDEX,
    FilePool,
    base_offset_of,
    segment_path,
)
from broker.log.log_dir_files import flush_file
from broker.log.segment import Segment, SegmentFile
from broker.log.txnindex import AbortedTransaction
from bus.errors import check
from bus.records.batch import Buffer, iter_batches

log = logging.getLogger("broker.log")

DAMAGED = ".damaged"
"""Suffix of a replacement that a start found not whole. Nothing reads it; a person may."""

_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX, LOG)
"""Of a replacement's files, the one that decides last."""

_WRITE_BYTES = 1 << 18
"""Small batches are written together."""

_UNFINISHED = (REPLACES, LOG + SWAP, TXN_INDEX + SWAP)
"""Suffixes of files that show a replacement on its way; other indexes are built again."""


class Span(NamedTuple):
    """The offsets [base_offset, end_offset) that a replacement stands for."""

    base_offset: int
    end_offset: int


# --- writing -------------------------------------------------------------------------------------


def cleaned_suffix(writer: str) -> str:
    """What a writer's new files end with, after the suffix of their kind."""
    return f".{writer}{CLEANED}" if writer else CLEANED


def write_cleaned(
    disk: Disk,
    directory: str,
    span: Span,
    batches: Iterable[Buffer],
    aborted: Sequence[AbortedTransaction],
    interval_bytes: int,
    writer: str = "",
) -> None:
    """Write the files of a replacement and force them; ``aborted`` touch batches that stay, and is
    read once all ``batches`` are. Each buffer of these may hold several batches.

    May run in another process; ``writer`` is part of the files' names then, so that a process of a
    former broker that has not died yet writes into none of these. A DiskError, or what ``batches``
    raises, leaves ``.cleaned`` files, which the next attempt writes over and a start removes.
    """
    suffix = cleaned_suffix(writer)
    segment = Segment(directory, span.base_offset, disk, FilePool(disk), 0, suffix)
    for path in segment.file_names():
        disk.remove(path)
    try:
        _append_all(segment, span, batches, interval_bytes)
        segment.transactions.create()
        for entry in aborted:
            segment.transactions.append(entry)
        segment.close_for_writing()
    finally:
        segment.release()
    for path in segment.file_names():
        flush_file(disk, path)


def _append_all(
    segment: Segment, span: Span, batches: Iterable[Buffer], interval_bytes: int
) -> None:
    end_offset = span.base_offset
    parts: list[Buffer] = []
    waiting_bytes = 0
    for part in batches:
        for _, header in iter_batches(part):
            check(end_offset <= header.base_offset, "batches of a replacement are in their order")
            end_offset = header.end_offset
            segment.index_batch(header, end_offset - 1, header.size_bytes, interval_bytes)
        parts.append(part)
        waiting_bytes += len(part)
        if waiting_bytes >= _WRITE_BYTES:
            segment.append(b"".join(parts))
            parts, waiting_bytes = [], 0
    check(end_offset == span.end_offset, "a replacement ends where what it replaces ends")
    segment.append(b"".join(parts))


def store_span(disk: Disk, directory: str, span: Span) -> None:
    """Step 1, durably."""
    text = f"version: 0\nbase_offset: {span.base_offset}\nend_offset: {span.end_offset}\n"
    path = segment_path(directory, span.base_offset, REPLACES)
    disk.replace_text_durably(path, with_checksum(text))


def read_span(disk: Disk, path: str) -> Span | None:
    """What a file of step 1 says; None if it is damaged."""
    text = verify_checksum(disk.read_text(path))
    if text is None:
        return None
    lines = dict(line.split(": ") for line in text.splitlines())
    return Span(int(lines["base_offset"]), int(lines["end_offset"]))


class UnfinishedReplacementError(DiskError):
    """Some files have their new names, and the disk gives none of them its old one back: the next
    start finishes the replacement. Until then nothing of it may be removed, and the log is not to
    be read by its old names."""

    def __init__(self, refused: DiskError) -> None:
        super().__init__(f"a replacement of segments is not finished: {refused}", EIO)


class FileReplacement:
    """Step 4 of one replacement: renames of which all are made or none, and the segments whose
    files have got other names by them."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._made: list[tuple[str, str]] = []
        self._deleted: list[tuple[Segment, SegmentFile]] = []

    def rename(self, source: str, target: str) -> None:
        self._disk.rename(source, target)
        self._made.append((source, target))

    def mark_deleted(self, segment: Segment) -> Iterator[None]:
        """Its files become ``.deleted``, one at a time; whoever holds it reads on."""
        for file in segment.all_files():
            if self._disk.exists(file.path):
                segment.release()  # somebody may have read in the meantime
                self.rename(file.path, file.path + DELETED)
            file.path += DELETED
            self._deleted.append((segment, file))
            yield

    def undo(self) -> None:
        """UnfinishedReplacementError if the disk refuses that too."""
        for segment, _ in self._deleted:
            segment.release()
        while self._made:
            source, target = self._made.pop()
            try:
                self._disk.rename(target, source)
            except DiskError as error:
                raise UnfinishedReplacementError(error) from error
        while self._deleted:
            _, file = self._deleted.pop()
            file.path = file.path.removesuffix(DELETED)


def propose(disk: Disk, directory: str, span: Span, writer: str = "") -> Iterator[None]:
    """Step 2, a file at a time: the rename of one that another process has just forced holds the
    caller for half a millisecond. DiskError: some are proposed, ``withdraw`` removes them."""
    written = cleaned_suffix(writer)
    for suffix in _SUFFIXES:
        path = segment_path(directory, span.base_offset, suffix)
        disk.rename(path + written, path + SWAP)
        yield


def withdraw(disk: Disk, directory: str, span: Span) -> None:
    """Undo steps 1 and 2, the log first: without it the others mean nothing."""
    for suffix in reversed(_SUFFIXES):
        disk.remove(segment_path(directory, span.base_offset, suffix) + SWAP)
    forget_span(disk, directory, span)


def forget_span(disk: Disk, directory: str, span: Span) -> None:
    """The end of step 5."""
    disk.remove(segment_path(directory, span.base_offset, REPLACES))


def swap_files(
    directory: str, span: Span, old: Sequence[Segment], renames: FileReplacement
) -> Iterator[None]:
    """Step 4, a file at a time. DiskError: ``renames`` can be undone."""
    for segment in old:
        yield from renames.mark_deleted(segment)
    for suffix in _SUFFIXES:
        path = segment_path(directory, span.base_offset, suffix)
        renames.rename(path + SWAP, path)
        yield


def open_replacement(disk: Disk, directory: str, span: Span, files: FilePool) -> Segment:
    """The new segment, once its files have their names. DiskError."""
    fresh = Segment(directory, span.base_offset, disk, files, 0)
    fresh.size_bytes, fresh.end_offset = disk.size_of(fresh.path), span.end_offset
    fresh.transactions.load()
    if not (fresh.offsets.attach() and fresh.times.attach()):
        raise DiskError(f"{fresh.path}: an index of the replacement is not whole")
    fresh.restore_max_timestamp()
    return fresh


# --- at a start ----------------------------------------------------------------------------------


def finish_replacements(disk: Disk, directory: str, names: list[str]) -> list[str]:
    """Finish or undo what was cut short, before any ``.deleted`` is removed; returns the names that
    are there then. The caller may wait for the device.

    A ``.swap`` without ``.replaces`` is Apache Kafka's: its own batches say what it covers.
    """
    unfinished = [name for name in names if any(_is(name, suffix) for suffix in _UNFINISHED)]
    bases = {base for name in unfinished if (base := base_offset_of(name)) is not None}
    for base in sorted(bases):
        _Unfinished(disk, directory, base, disk.listdir(directory)).resolve()
    return disk.listdir(directory) if bases else names


def _is(name: str, suffix: str) -> bool:
    return name.partition(".")[2] == suffix[1:]


class _Unfinished:
    """One replacement as a start finds it. Invariant: ``resolve`` may itself be cut short anywhere
    and repeated."""

    def __init__(self, disk: Disk, directory: str, base: int, names: list[str]) -> None:
        self._disk = disk
        self._directory = directory
        self._base = base
        self._names = set(names)
        path = self._path(base, REPLACES)
        self._span = read_span(disk, path) if self._has(base, REPLACES) else None

    def resolve(self) -> None:
        covered = self._span.end_offset if self._span is not None else None
        if self._has(self._base, LOG + SWAP):
            end = self._end_of(LOG + SWAP)
            if end is not None and covered in (None, end):
                self._finish(end)
            else:
                self._undo()
        elif self._has(self._base, REPLACES):
            # Before step 2 was complete; or after step 4, in which the log got its name last.
            if covered is not None and self._end_of(LOG) == covered:
                self._remove_covered(covered)
            self._remove_swaps()
        elif self._has(self._base, LOG):  # Apache Kafka names the log first
            path = self._path(self._base, TXN_INDEX)
            self._disk.rename(path + SWAP, path)
        self._disk.remove(self._path(self._base, REPLACES))

    def _finish(self, end: int) -> None:
        """The segments covered go before the log gets its name: never both."""
        self._remove_covered(end)
        for suffix in _SUFFIXES:
            path = self._path(self._base, suffix)
            if self._has(self._base, suffix + SWAP):
                self._disk.rename(path + SWAP, path)
            elif suffix in (OFFSET_INDEX, TIME_INDEX):
                self._disk.remove(path)  # the former segment's or this one's: built again
        self._disk.flush_directory(self._directory)

    def _remove_covered(self, end: int) -> None:
        for base in self._bases(LOG, end):
            if base != self._base:
                self._remove(base)
        self._disk.flush_directory(self._directory)

    def _remove_swaps(self) -> None:
        for suffix in _SUFFIXES[:-1]:
            self._disk.remove(self._path(self._base, suffix) + SWAP)

    def _undo(self) -> None:
        """The segments covered get their names back."""
        path = self._path(self._base, LOG)
        log.error("%s is not whole: it is put aside as %s, what it was to replace stays",
                  path + SWAP, DAMAGED)  # fmt: skip
        end = self._span.end_offset if self._span is not None else self._next_base()
        self._remove_swaps()
        floor = self._base
        for base in sorted({*self._bases(LOG, end), *self._bases(LOG + DELETED, end)}):
            # One that an earlier replacement left may lie inside of another.
            if base >= floor and not self._has(base, LOG):
                self._restore(base)
            floor = max(floor, self._end_of(LOG, base, NO_CRC) or base)
        self._disk.flush_directory(self._directory)
        self._disk.rename(path + SWAP, path + DAMAGED)
        self._disk.flush_directory(self._directory)

    def _restore(self, base: int) -> None:
        for suffix in _SUFFIXES:
            if self._has(base, suffix + DELETED):
                self._disk.rename(self._path(base, suffix) + DELETED, self._path(base, suffix))

    def _remove(self, base: int) -> None:
        for suffix in reversed(_SUFFIXES):
            self._disk.remove(self._path(base, suffix))

    def _bases(self, suffix: str, end: int) -> list[int]:
        """Of the segments covered, those that have a file of a kind."""
        bases = [base_offset_of(name) for name in self._names if _is(name, suffix)]
        return sorted(base for base in bases if base is not None and self._base <= base < end)

    def _next_base(self) -> int:
        bases = [base_offset_of(name) for name in self._names if _is(name, LOG)]
        return min((b for b in bases if b is not None and b > self._base), default=1 << 63)

    def _end_of(self, suffix: str, base: int | None = None, crc_from: int = 0) -> int | None:
        """Where a file of batches ends; None if it is missing, empty or not whole."""
        base = self._base if base is None else base
        path = self._path(base, suffix)
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        try:
            scan = BatchScanner(file, 0, file.size(), base_offset=base, crc_from=crc_from)
            end = max((found.header.end_offset for found in scan), default=None)
        finally:
            file.close()
        return None if scan.fault else end

    def _has(self, base: int, suffix: str) -> bool:
        return f"{base:020d}{suffix}" in self._names

    def _path(self, base: int, suffix: str) -> str:
        return segment_path(self._directory, base, suffix)


