"""Replaces neighbouring closed segments of a running log by one, step by step.

In: a log, its segments, whose replacement is written as ``.cleaned``. Out: the paths of the old
files, to be removed later; or LogError, and the log is as it was. Never: a step that waits for the
device on the loop, or that holds it longer than a file's rename does; a replacement of what the log
does not hold any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from broker.clock.port import Clock
from broker.clock.tasks import in_slices
from broker.disk.port import Disk, DiskError
from broker.log.errors import LogError, storage_error
from broker.log.files import FilePool
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.replacement_files import (
    Span,
    forget_span,
    store_span,
)
from broker.log.segment import Segment
from broker.log.segments import Segments


async def replace_segments(
    partition: Log,
    replaced: Sequence[Segment],
    disk: Disk,
    files: FilePool,
    clock: Clock,
    writer: str = "",
) -> list[str]:
    """All steps of ``replacement_files`` after ``write_cleaned``, whose ``writer`` it was.

    Whatever shortens the log meanwhile withdraws the replacement: LogError then. A LogError whose
    cause is a disk's: if that was full, the old segments stay; else the directory has failed, and
    where names could not be given back (UnfinishedReplacementError) the next start finishes the
    replacement.
    """
    segments = partition.segments
    span = segments.begin_replacement(replaced, partition.recovery_point)
    try:
        await _on_worker(store_span, partition, span, disk)
        await in_slices(segments.propose_replacement(span, disk, writer), clock)
        await _force(partition, disk)
        paths = await in_slices(segments.replace(span, disk, files), clock)
    except LogError:
        _withdraw(segments, disk)
        await _on_worker(forget_span, partition, span, disk)  # perhaps stored after it was void
        raise
    await _force(partition, disk)
    segments.end_replacement()
    await _on_worker(forget_span, partition, span, disk)
    return paths


async def _force(partition: Log, disk: Disk) -> None:
    directory = partition.directory
    try:
        await disk.run(disk.flush_directory, directory, worker=parent_of(partition))
    except DiskError as error:
        partition.flush_failed(error)  # what the device knows of the names is not known any more
        raise storage_error(error) from error


async def _on_worker(
    work: Callable[[Disk, str, Span], None], partition: Log, span: Span, disk: Disk
) -> None:
    try:
        await disk.run(work, disk, partition.directory, span, worker=parent_of(partition))
    except DiskError as error:
        raise storage_error(error) from error


def _withdraw(segments: Segments, disk: Disk) -> None:
    """What was proposed goes, unless something has withdrawn it already."""
    try:
        segments.withdraw_replacement(disk)
    except DiskError as error:
        raise storage_error(error) from error
