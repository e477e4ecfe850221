"""One pass over one log: handed to the child process, its groups swapped in as they are reported.

In: a log, its pass, the port of the child. Out: a ``PassOutcome``. Never: a result of a log that
was shortened, deleted, moved or given another policy since; a wait for the device on the loop; a
file named by the child taken over without having been asked for.
"""

from __future__ import annotations

import logging
from contextlib import aclosing, suppress
from enum import Enum
from typing import NamedTuple, Protocol

from broker.cleaner_process.port import CleanerProcess, FailureKind, RequestFailed
from broker.clock.port import Clock
from broker.disk.port import Disk, DiskError, DiskFull
from broker.log.cleaner.model import (
    CleanedGroup,
    CleanerMessageError,
    CleaningPass,
    PassResult,
    report_from_json,
    to_json,
)
from broker.log.cleaner.order import CleaningOrder
from broker.log.cleaner.uncleanable import CleaningFault
from broker.log.errors import LogError
from broker.log.files import FilePool
from broker.log.log import Log
from broker.log.replacement import replace_segments
from broker.log.replacement_files import cleaned_suffix
from broker.log.segment import Segment

log = logging.getLogger("broker.log")


class PassOutcome(Enum):
    """What became of a pass."""

    CLEANED = "cleaned"
    WITHDRAWN = "withdrawn"
    """The log changed: tried again soon."""
    PROCESS_DIED = "process died"
    """Tried again soon, too."""
    UNCLEANABLE = "uncleanable"
    DISK_FULL = "disk full"
    DISK_FAILED = "disk failed"
    """Its directory goes offline, by ``on_disk_error``."""


class CleaningTotals(NamedTuple):
    """What a pass has read and kept."""

    bytes_read: int = 0
    bytes_kept: int = 0
    records_read: int = 0
    records_kept: int = 0
    copied_whole: int = 0

    def plus(self, group: CleanedGroup) -> CleaningTotals:
        return CleaningTotals(
            self.bytes_read + group.bytes_read,
            self.bytes_kept + group.bytes_kept,
            self.records_read + group.records_read,
            self.records_kept + group.records_kept,
            self.copied_whole + group.copied_whole,
        )


class CleaningPorts(Protocol):
    """What a pass needs of the broker."""

    disk: Disk
    files: FilePool
    clock: Clock
    process: CleanerProcess

    def is_current(self, partition: Log) -> bool: ...
    def remove_later(self, partition: Log, paths: list[str]) -> None: ...
    def on_disk_error(self, partition: Log, error: DiskError) -> None: ...


class CleaningRun:
    """Invariant: ``_segments`` are the log's own of the moment of the plan, so that one that was
    replaced or truncated since is none of the log's any more."""

    def __init__(
        self, partition: Log, work: CleaningPass, writer: str, ports: CleaningPorts
    ) -> None:
        """``writer``: no other pass of any broker writes under this name."""
        self.partition = partition
        self.work = work
        self.totals = CleaningTotals()
        self.result: PassResult | None = None
        self.fault = CleaningFault.BUG
        self.reason = ""
        """With ``fault`` why the log is uncleanable, if it is."""
        self._writer = writer
        self._ports = ports
        self._segments = {one.base_offset: one for one in partition.segments.all[:-1]}

    @property
    def is_current(self) -> bool:
        """Whether the log is the one that was planned for, and still to be cleaned."""
        partition = self.partition
        return (
            self._ports.is_current(partition)
            and partition.cleaning.generation == self.work.generation
            and partition.config.compacted
        )

    async def run(self) -> PassOutcome:
        """Until its end; what was swapped in by then stays. No error of the disk or of the process
        is raised."""
        try:
            return await self._run()
        except RequestFailed as error:
            return self._failed(error)
        except CleanerMessageError as error:
            return self._uncleanable(
                CleaningFault.BUG, f"its pass reports what cannot be read: {error}"
            )
        except LogError as error:
            return self._swap_failed(error)
        finally:
            await self._remove_leftovers()

    async def _run(self) -> PassOutcome:
        order = CleaningOrder(self._writer, self.work)
        async with aclosing(self._ports.process.run(to_json(order))) as reports:
            async for line in reports:
                report = report_from_json(line)
                if not self.is_current:
                    return PassOutcome.WITHDRAWN
                if isinstance(report, CleanedGroup):
                    await self._swap(report)
                else:
                    return self._ended(report)
        return PassOutcome.WITHDRAWN

    async def _swap(self, group: CleanedGroup) -> None:
        self.totals = self.totals.plus(group)
        if not group.is_changed:
            return
        ports = self._ports
        paths = await replace_segments(
            self.partition, self._named(group), ports.disk, ports.files, ports.clock, self._writer
        )
        self._ports.remove_later(self.partition, paths)

    def _named(self, group: CleanedGroup) -> list[Segment]:
        """The segments that a group stands for, if such a group was asked for."""
        known = [self._segments.get(base) for base in group.bases]
        segments = [one for one in known if one is not None]
        is_known = len(segments) == len(group.bases) > 0
        if not is_known or group.end_offset > self.work.end_offset:
            raise CleanerMessageError(f"a group of {group.bases} was not asked for")
        return segments

    def _ended(self, result: PassResult) -> PassOutcome:
        if result.uncleanable:
            return self._uncleanable(CleaningFault.DAMAGED, result.uncleanable)
        if not self.work.first_dirty_offset < result.next_dirty_offset <= self.work.end_offset:
            return self._uncleanable(
                CleaningFault.BUG, f"its pass has got to {result.next_dirty_offset}, no further"
            )
        self.result = result
        self.partition.cleaning.on_cleaned(result.next_dirty_offset, self.totals.records_kept)
        return PassOutcome.CLEANED

    # --- failures --------------------------------------------------------------------------------

    def _uncleanable(self, fault: CleaningFault, reason: str) -> PassOutcome:
        self.fault, self.reason = fault, reason
        return PassOutcome.UNCLEANABLE

    def _failed(self, error: RequestFailed) -> PassOutcome:
        if not self.is_current:
            return PassOutcome.WITHDRAWN
        if error.kind is FailureKind.DIED:
            return PassOutcome.PROCESS_DIED
        if error.kind is FailureKind.DISK_FULL:
            return PassOutcome.DISK_FULL
        is_of_disk = error.kind is FailureKind.DISK
        fault = CleaningFault.UNREADABLE if is_of_disk else CleaningFault.BUG
        return self._uncleanable(fault, str(error))

    def _swap_failed(self, error: LogError) -> PassOutcome:
        cause = error.__cause__
        if not self.is_current or not isinstance(cause, DiskError):
            return PassOutcome.WITHDRAWN
        if isinstance(cause, DiskFull):
            return PassOutcome.DISK_FULL
        self._ports.on_disk_error(self.partition, cause)
        return PassOutcome.DISK_FAILED

    async def _remove_leftovers(self) -> None:
        """Files of groups that were not swapped in. What is left even so, a start removes."""
        with suppress(DiskError):
            await self._ports.disk.run(
                remove_cleaned, self._ports.disk, self.partition.directory, self._writer
            )


def remove_cleaned(disk: Disk, directory: str, writer: str) -> None:
    """Remove the files of one writer. DiskError."""
    suffix = cleaned_suffix(writer)
    for name in disk.listdir(directory):
        if name.endswith(suffix):
            disk.remove(f"{directory}/{name}")
