"""Replaces neighbouring closed segments of a running log by one, step by step.

In: a log, its segments, whose replacement is written as ``.cleaned``. Out: the paths of the old
files, to be removed later; or LogError, and the log is as it was. Never: a step that waits for the
device on the loop; a replacement of what the log does not hold any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.disk.port import Disk, DiskError
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool
from broker.log.log import Log
from broker.log.replacement_files import (
    Span,
    UnfinishedReplacementError,
    forget_span,
    store_span,
)
from broker.log.segment import Segment
from broker.log.segments import Segments


async def replace_segments(
    partition: Log, replaced: Sequence[Segment], disk: Disk, files: FilePool, writer: str = ""
) -> list[str]:
    """All steps of ``replacement_files`` after ``write_cleaned``, whose ``writer`` it was.

    Whatever shortens the log meanwhile withdraws the replacement: LogError then. A LogError whose
    cause is a disk's: if that was full, the old segments stay; else the directory has failed, and
    where names could not be given back the next start finishes the replacement.
    """
    segments, directory = partition.segments, partition.directory
    span = segments.begin_replacement(replaced, partition.recovery_point)
    try:
        await _store_span(directory, span, disk)
        segments.propose_replacement(span, disk, writer)
        await _force(partition, disk)
        paths = segments.replace(span, disk, files)
    except LogError as error:
        if isinstance(error.__cause__, UnfinishedReplacementError):
            segments.leave_replacement()
        else:
            _withdraw(segments, directory, span, disk)
        raise
    await _force(partition, disk)
    _withdraw(segments, directory, span, disk)
    return paths


async def _store_span(directory: str, span: Span, disk: Disk) -> None:
    worker = directory.rpartition("/")[0]
    try:
        await disk.run(store_span, disk, directory, span, worker=worker)
    except DiskError as error:
        raise storage_error(error) from error


async def _force(partition: Log, disk: Disk) -> None:
    directory = partition.directory
    try:
        await disk.run(disk.flush_directory, directory, worker=directory.rpartition("/")[0])
    except DiskError as error:
        partition.flush_failed(error)  # what the device knows of the names is not known any more
        raise storage_error(error) from error


def _withdraw(segments: Segments, directory: str, span: Span, disk: Disk) -> None:
    """What was proposed goes, if it was not made or withdrawn meanwhile, and the note of it."""
    try:
        segments.withdraw_replacement(disk)
        forget_span(disk, directory, span)
    except DiskError as error:
        raise storage_error(error) from error
