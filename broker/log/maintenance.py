"""Periodic work on the logs: retention, flushing, checkpoints, removal of files.

Flushes and removals run on the disk's worker threads, never on the loop. A disk error of one log
goes to ``MaintainedLogs.on_disk_error``, a ``LogError`` of its retention to the log file; the work
on the other logs continues. Any other ``LogError`` or ``DiskError`` ends the round of its kind of
work and is logged; the next round comes at its interval. Any other exception ends the process
(``bus.runtime.tasks``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait
from broker.config.views import BrokerConfig
from broker.disk.port import Disk, DiskError, PathMissing
from broker.log.errors import LogError
from broker.log.flush_state import run_flush
from broker.log.log import Log
from broker.log.log_checkpoints import LogCheckpoints
from broker.log.retention import delete_old_segments
from broker.log.scrub import LogScrubber
from broker.log.volumes import REFRESH_EVERY_MS, Volumes

log = logging.getLogger("broker.log")

INITIAL_DELAY_MS = 30_000
"""As Kafka's log.initial.task.delay.ms: a starting broker has more urgent work."""

MAX_FLUSH_WAIT_MS = 1000
"""Limits the wait, so that a new flush.ms of a topic is seen within a second."""

SNAPSHOT_EVERY_BYTES = 64 << 20
"""After so much log a background flush also saves the producers: recovery reads at most this."""


class MaintainedLogs(Protocol):
    """What this module needs of the log manager."""

    config: BrokerConfig
    on_flushed: Callable[[float], None]
    volumes: Volumes
    on_released: Callable[[Log], None]
    scrubber: LogScrubber
    checkpoints: LogCheckpoints

    def logs(self) -> list[Log]: ...
    def on_disk_error(self, partition: Log, error: DiskError, /) -> None: ...


class LogMaintenance:
    """Invariant: between ``start`` and ``stop`` one task per kind of work runs."""

    def __init__(self, manager: MaintainedLogs, disk: Disk, clock: Clock) -> None:
        self._manager = manager
        self._disk = disk
        self._clock = clock
        self._tasks: list[TaskHandle] = []
        self._removals: set[TaskHandle] = set()
        self._waiting: list[tuple[str, int]] = []
        self._running = False
        self._snapshot_size: dict[str, int] = {}
        self._urgent: dict[Log, TaskHandle] = {}

    def start(self) -> None:
        """Begin."""
        config = self._manager.config
        self._running = True
        for name, every_ms, work in (
            ("log-retention", config["log.retention.check.interval.ms"], self.delete_old_segments),
            (
                "recovery-point-checkpoint",
                config["log.flush.offset.checkpoint.interval.ms"],
                self.flush_and_checkpoint,
            ),
            (
                "log-start-checkpoint",
                config["log.flush.start.offset.checkpoint.interval.ms"],
                self.checkpoint_starts,
            ),
            (
                "producer-expiry",
                config["producer.id.expiration.check.interval.ms"],
                self.expire_producers,
            ),
            ("log-directories", REFRESH_EVERY_MS, self._manager.volumes.refresh),
        ):
            self._tasks.append(self._clock.spawn(self._every(name, every_ms, work), name=name))
        self._tasks.append(self._clock.spawn(self._flush_loop(), name="log-flusher"))
        self._tasks.append(self._clock.spawn(self._manager.scrubber.run(), name="log-scrub"))
        while self._waiting:
            self.schedule_removal(*self._waiting.pop())

    async def stop(self) -> None:
        """Stop; files waiting for removal are removed at the next start."""
        self._running = False
        ending = [*self._tasks, *self._removals, *self._urgent.values()]
        self._tasks.clear()
        self._removals.clear()
        await cancel_and_wait(ending)

    async def _every(self, name: str, every_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        await self._clock.sleep(min(INITIAL_DELAY_MS, every_ms) / 1000)
        while self._running:
            try:
                await work()
            except (LogError, DiskError) as error:
                log.error("%s: %s", name, error)
            await self._clock.sleep(max(every_ms, 1) / 1000)

    # --- retention -------------------------------------------------------------------------------

    async def delete_old_segments(self) -> None:
        """Delete the old segments of every log, as its retention allows."""
        shortened = False
        for partition in self._manager.logs():
            try:
                paths = delete_old_segments(partition, self._disk, self._clock.now_ms())
            except DiskError as error:
                self._manager.on_disk_error(partition, error)
                continue
            except LogError as error:
                log.error("retention of %s: %s", partition.directory, error)
                continue
            shortened = shortened or bool(paths)
            for path in paths:
                self.schedule_removal(path, partition.config.file_delete_delay_ms)
            await self._clock.sleep(0)
        if shortened:
            self._manager.checkpoints.write_log_starts()

    def schedule_removal(self, path: str, delay_ms: int) -> None:
        """Remove a file or directory after a while, off the loop."""
        if not self._running:
            self._waiting.append((path, delay_ms))
            return
        task = self._clock.spawn(self._remove(path, delay_ms), name="log-delete")
        self._removals = {other for other in self._removals if not other.done()} | {task}

    async def _remove(self, path: str, delay_ms: int) -> None:
        await self._clock.sleep(delay_ms / 1000)
        is_directory = path.endswith("-delete")
        remove = self._disk.remove_tree if is_directory else self._disk.remove
        try:
            await self._disk.run(remove, path)
        except DiskError as error:
            log.warning("%s is left for the next start: %s", path, error)

    # --- flushing and checkpoints ----------------------------------------------------------------

    async def _flush_loop(self) -> None:
        while self._running:
            await self._clock.sleep(self._next_flush_ms() / 1000)
            now_ms = self._clock.now_ms()
            for partition in self._manager.logs():
                is_dirty = partition.recovery_point < partition.end_offset
                if is_dirty and now_ms - partition.last_flush_ms >= partition.config.flush_ms:
                    await self.flush(partition)

    def _next_flush_ms(self) -> int:
        shortest = min((p.config.flush_ms for p in self._manager.logs()), default=1 << 62)
        scheduled = int(self._manager.config["log.flush.scheduler.interval.ms"])
        return min(shortest, scheduled, MAX_FLUSH_WAIT_MS)

    async def flush(self, partition: Log) -> bool:
        """Flush one log without blocking the loop; whether that succeeded."""
        try:
            self._maybe_snapshot(partition)  # first, so that it lies below the recovery point then
            began = self._clock.monotonic()
            flush = partition.begin_flush()
        except DiskError as error:
            self._manager.on_disk_error(partition, error)
            return False
        directory = partition.directory
        try:
            await self._disk.run(
                run_flush, self._disk, directory, flush, worker=directory.rpartition("/")[0]
            )
        except PathMissing:
            return False  # deleted meanwhile
        except DiskError as error:
            partition.flush_failed(error)
            self._manager.on_disk_error(partition, error)
            return False
        partition.mark_flushed(flush, self._clock.now_ms())
        self._manager.on_flushed((self._clock.monotonic() - began) * 1000)
        return True

    def flush_soon(self, partition: Log) -> TaskHandle:
        """Flush a log now, unless that is under way; see ``LogManager.flush_soon``."""
        task = self._urgent.get(partition)
        if task is None:
            task = self._clock.spawn(self._flush_urgently(partition), name="log-flush")
            self._urgent[partition] = task
        return task

    async def _flush_urgently(self, partition: Log) -> None:
        try:
            while partition.needs_flush and await self.flush(partition):
                self._manager.on_released(partition)
        finally:
            del self._urgent[partition]

    def _maybe_snapshot(self, partition: Log) -> None:
        written = partition.size_bytes
        if abs(written - self._snapshot_size.get(partition.directory, 0)) >= SNAPSHOT_EVERY_BYTES:
            partition.take_snapshot()
            self._snapshot_size[partition.directory] = written

    async def flush_and_checkpoint(self) -> None:
        """Flush what is dirty in the background, then write the recovery points.

        Apache Kafka only writes them; the kernel has mostly written the data by then anyway, and a
        recovery point near the end makes the next start after a crash quick.
        """
        for partition in self._manager.logs():
            if partition.recovery_point < partition.end_offset:
                await self.flush(partition)
        self._manager.checkpoints.write_recovery_points()

    async def checkpoint_starts(self) -> None:
        """Write the logs' start offsets."""
        self._manager.checkpoints.write_log_starts()

    async def expire_producers(self) -> None:
        """Forget producers that were silent for producer.id.expiration.ms."""
        expiration_ms = self._manager.config["producer.id.expiration.ms"]
        for partition in self._manager.logs():
            partition.producers.expire(self._clock.now_ms(), expiration_ms)
