"""Cleans the compacted logs of a broker: chooses, has a pass run, takes over what it made.

In: the logs, their configuration, the port of the child process. Out: fewer bytes in the logs, and
from where each is dirty. Never: a batch read or written here; a slice of more than a millisecond on
the loop; a partition that stops another.

It looks for work every ``log.cleaner.backoff.ms``, and at once after a pass. So many passes as
``log.cleaner.threads`` says run at a time, over different logs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from broker.cleaner_process.port import CleanerProcess
from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait, in_slices
from broker.config.views import BrokerConfig
from broker.disk.port import Disk, DiskError
from broker.log.checkpoint import TopicPartition
from broker.log.cleaner.cleaner_metrics import CleanerFigures, CleaningReport
from broker.log.cleaner.cleaning_run import CleaningRun, PassOutcome
from broker.log.cleaner.log_summary import (
    active_producer,
    compacted_log,
    limits_of,
    oldest_dirty_ms,
)
from broker.log.cleaner.model import ActiveProducer, CompactedLog
from broker.log.cleaner.plan import DirtyLog, cleaning_pass, dirty_log, next_log
from broker.log.cleaner.segment_rolls import is_roll_due
from broker.log.cleaner.uncleanable import UncleanableLogs
from broker.log.errors import LogError
from broker.log.files import FilePool
from broker.log.log import Log
from broker.log.log_checkpoints import LogCheckpoints
from broker.log.log_dirs import parent_of

log = logging.getLogger("broker.log")


PRODUCERS_PER_SLICE = 500
"""Producers put into a pass before the loop serves others."""


class CleanedLogs(Protocol):
    """What this module needs of the log manager."""

    config: BrokerConfig
    disk: Disk
    files: FilePool
    checkpoints: LogCheckpoints

    def get(self, topic: str, index: int, /) -> Log | None: ...
    def logs(self) -> list[Log]: ...
    def on_disk_error(self, partition: Log, error: DiskError, /) -> None: ...
    def remove_later(self, paths: list[str], delay_ms: int, /) -> None: ...


class LogCleaner:
    """Invariant: a log is in at most one pass; no more passes than ``log.cleaner.threads`` begin.
    ``process`` is the port; between ``start`` and ``stop`` one task looks for work."""

    def __init__(
        self,
        logs: CleanedLogs,
        process: CleanerProcess,
        clock: Clock,
        is_internal: Callable[[str], bool],
    ) -> None:
        """``is_internal``: whether a topic is a coordinator's."""
        self._logs = logs
        self.process = process
        self.clock = clock
        self._is_internal = is_internal
        self.disk, self.files = logs.disk, logs.files
        self.uncleanable = UncleanableLogs()
        self.figures = CleanerFigures(logs.logs, self.uncleanable, clock)
        self._incarnation = clock.new_uuid().hex()[:16]
        self._passes = 0
        self._running: dict[TopicPartition, TaskHandle] = {}
        self._main: TaskHandle | None = None
        self._wake = asyncio.Event()
        self._is_stopped = False

    # --- its life --------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin, unless ``log.cleaner.enable`` is off."""
        if self._logs.config["log.cleaner.enable"]:
            self._main = self.clock.spawn(self._run(), name="log-cleaner")

    async def stop(self) -> None:
        """End the child and what it does; a swap under way is finished."""
        self._is_stopped = True
        if self._main is not None:
            await cancel_and_wait([self._main])
        await self.process.stop()
        await self.until_idle()

    async def until_idle(self) -> None:
        """Wait until no pass runs."""
        while self._running:
            await next(iter(self._running.values()))

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            await self.begin_due_passes()
            await self._rest()

    async def begin_due_passes(self) -> None:
        """Roll what is to be rolled, and begin the passes that are due, as many as may run."""
        await self._roll()
        while len(self._running) < int(self._logs.config["log.cleaner.threads"]):
            dirty = await self._next()
            if dirty is None:
                return
            await self._begin(dirty)

    async def _rest(self) -> None:
        """Until a pass ends, or it is time to look again."""
        backoff_s = max(int(self._logs.config["log.cleaner.backoff.ms"]), 1) / 1000
        timer = self.clock.call_later(backoff_s, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    # --- choosing --------------------------------------------------------------------------------

    async def _roll(self) -> None:
        now_ms = self.clock.now_ms()
        for partition in self._compacted():
            try:
                is_internal = self._is_internal(partition.topic)
                if is_roll_due(partition, now_ms, is_internal=is_internal):
                    partition.roll(now_ms)
            except (LogError, DiskError) as error:
                log.warning("%s is not rolled for the cleaner: %s", partition.directory, error)
            await self.clock.sleep(0)

    def _compacted(self) -> list[Log]:
        return [one for one in self._logs.logs() if one.config.compacted]

    async def _next(self) -> DirtyLog | None:
        """The log to clean next; what is dirty is noted for those who ask."""
        best: DirtyLog | None = None
        now_ms = self.clock.now_ms()
        partitions = self._compacted()
        here = {(one.topic, one.index) for one in partitions}
        self.uncleanable.keep_only(here)
        self.figures.keep_only(here)
        for partition in partitions:
            dirty = await self._dirty(partition, now_ms)
            if dirty is not None and self._may_begin(dirty, now_ms):
                best = next_log(one for one in (best, dirty) if one is not None)
            await self.clock.sleep(0)
        self.figures.explain()
        return best

    async def _dirty(self, partition: Log, now_ms: int) -> DirtyLog | None:
        try:
            dirty = dirty_log(await in_slices(compacted_log(partition), self.clock), now_ms)
        except (LogError, DiskError) as error:
            log.warning("%s is not looked at by the cleaner: %s", partition.directory, error)
            return None
        if not dirty.cleanable_bytes:
            self.uncleanable.on_nothing_dirty(dirty.log)
        self.figures.on_checked(dirty, oldest_dirty_ms(partition))
        return dirty

    def _may_begin(self, dirty: DirtyLog, now_ms: int) -> bool:
        found = dirty.log
        return (
            dirty.is_cleanable
            and (found.topic, found.index) not in self._running
            and self.uncleanable.may_clean(found, now_ms)
        )

    # --- passes ----------------------------------------------------------------------------------

    async def _begin(self, dirty: DirtyLog) -> None:
        found = dirty.log
        partition = self._logs.get(found.topic, found.index)
        if partition is None:
            return
        self._passes += 1
        writer = f"{self._incarnation}-{self._passes}"
        config = self._logs.config
        self.process.limit_rate(float(config["log.cleaner.io.max.bytes.per.second"]))
        producers = await self._producers(partition)
        work = cleaning_pass(dirty, producers, limits_of(config), self.clock.now_ms())
        run = CleaningRun(partition, work, writer, self)
        if not run.is_current:
            return
        key = (found.topic, found.index)
        self._running[key] = self.clock.spawn(self._clean(run, found), name="log-cleaning")

    async def _producers(self, partition: Log) -> list[ActiveProducer]:
        entries = list(partition.producers.entries.values())
        found: list[ActiveProducer] = []
        for at in range(0, len(entries), PRODUCERS_PER_SLICE):
            found += [active_producer(one) for one in entries[at : at + PRODUCERS_PER_SLICE]]
            await self.clock.sleep(0)
        return found

    async def _clean(self, run: CleaningRun, found: CompactedLog) -> None:
        began = self.clock.monotonic()
        try:
            outcome = await run.run()
        finally:
            del self._running[found.topic, found.index]
            self._wake.set()
        took_s = self.clock.monotonic() - began
        now_ms = self.clock.now_ms()
        if outcome is PassOutcome.CLEANED:
            self._cleaned(run, found, took_s)
        elif outcome is PassOutcome.UNCLEANABLE:
            self.uncleanable.mark(found, run.fault, run.reason, now_ms)
            self.figures.explain()
        elif outcome is PassOutcome.DISK_FULL:
            self.uncleanable.rest_directory(parent_of(run.partition), now_ms)
        else:
            self.figures.dead_workers = int(outcome is PassOutcome.PROCESS_DIED)
            self.uncleanable.rest(found, now_ms)

    def _cleaned(self, run: CleaningRun, found: CompactedLog, took_s: float) -> None:
        self._logs.checkpoints.write_first_dirty()
        self.uncleanable.on_cleaned(found)
        self.figures.explain()
        totals, result = run.totals, run.result
        assert result is not None
        self.figures.on_cleaned(found, CleaningReport(took_s, totals, result))
        log.info("%s is clean up to offset %d after %.1f s: %d of %d bytes, %d of %d records stay",
                 found.directory, result.next_dirty_offset, took_s, totals.bytes_kept,
                 totals.bytes_read, totals.records_kept, totals.records_read)  # fmt: skip
        if totals.copied_whole:
            log.warning("%s: %d batches do not unpack and stay as they are",
                        found.directory, totals.copied_whole)  # fmt: skip

    # --- what a pass needs -----------------------------------------------------------------------

    def is_current(self, partition: Log) -> bool:
        """Whether the log is served here, and this broker does not stop."""
        here = self._logs.get(partition.topic, partition.index)
        return here is partition and not self._is_stopped

    def remove_later(self, partition: Log, paths: list[str]) -> None:
        """Remove files of old segments once readers have finished."""
        self._logs.remove_later(paths, partition.config.file_delete_delay_ms)

    def on_disk_error(self, partition: Log, error: DiskError) -> None:
        """Its directory has failed."""
        self._logs.on_disk_error(partition, error)
