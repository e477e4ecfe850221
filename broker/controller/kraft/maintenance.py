"""Periodic work of a quorum node: no-op records, snapshots, cleanup.

Uses no more disk than `metadata.max.retention.bytes` and one snapshot, and skips no-op records
while no replica fetches them.
"""

from __future__ import annotations

import logging
from typing import Protocol

from broker.clock.port import TaskHandle
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.effects import DropLogBefore
from broker.controller.kraft.event_loop import RaftEventLoop
from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.voter_registration import VoterRegistration
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.metadata.image import MetadataImage
from broker.metadata.image_writer import image_records
from broker.metadata.versions import record_version

log = logging.getLogger("broker.controller")

SNAPSHOT_WORKER = "metadata snapshots"

JUMP_MS = 10_000
"""A working time service moves the clock by less than this per minute."""


class NoOpWriter(Protocol):
    """What a node writes while it leads and nothing else happens."""

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    def write_noop(self) -> None:
        """Append a record that changes nothing."""


class QuorumMaintenance:
    """Runs beside the node; none of the quorum's guarantees depend on it."""

    def __init__(
        self,
        context: QuorumContext,
        event_loop: RaftEventLoop,
        registration: VoterRegistration,
        writer: NoOpWriter,
    ) -> None:
        self._context = context
        self._event_loop = event_loop
        self._registration = registration
        self._writer = writer
        self._tasks: list[TaskHandle] = []
        self._writing: TaskHandle | None = None
        self._removing: TaskHandle | None = None
        self._last_bytes = 0
        self._last_s = 0.0

    def start(self) -> None:
        """Starts the periodic tasks."""
        context = self._context
        self._last_bytes = context.log.size_bytes
        self._last_s = context.clock.monotonic()
        self._tasks = [
            context.clock.spawn(self._noops(), name="metadata no-ops"),
            context.clock.spawn(self._snapshots_by_age(), name="metadata snapshots"),
        ]
        if context.endpoint is not None:
            self._tasks.append(
                context.clock.spawn(self._registration.run(), name="voter registration")
            )

    def stop(self) -> None:
        """Cancels them."""
        for task in (*self._tasks, self._writing, self._removing):
            if task is not None:
                task.cancel()

    async def _noops(self) -> None:
        """Kafka writes one every 500 ms; here only while a replica fetches, so that the disk of a
        single node stays idle when nothing happens."""
        context = self._context
        interval_ms = context.config["metadata.max.idle.interval.ms"]
        if not interval_ms:
            return
        seen = -1
        while True:
            await context.clock.sleep(interval_ms / 1000)
            end = context.end_offset
            if self._writer.is_active and end == seen and self._has_fetchers():
                self._writer.write_noop()
            seen = context.end_offset

    def _has_fetchers(self) -> bool:
        current = self._context.raft.leader_state.current
        return current is not None and bool(current.progress)

    # -- snapshots --------------------------------------------------------------------------

    def on_commit(self) -> None:
        """Writes a snapshot if enough was committed since the last one."""
        context = self._context
        grown = context.log.size_bytes - self._last_bytes
        if grown >= context.config["metadata.log.max.record.bytes.between.snapshots"]:
            self.snapshot_soon()

    async def _snapshots_by_age(self) -> None:
        context = self._context
        interval_ms = context.config["metadata.log.max.snapshot.interval.ms"]
        while True:
            wall_ms, began_s = context.clock.now_ms(), context.clock.monotonic()
            await context.clock.sleep(max(min(interval_ms or 60_000, 60_000), 10) / 1000)
            self._warn_of_clock_jump(wall_ms, began_s)
            if interval_ms and context.clock.monotonic() - self._last_s >= interval_ms / 1000:
                self.snapshot_soon()
            self.clean()

    def _warn_of_clock_jump(self, wall_ms: int, began_s: float) -> None:
        """Warns if the wall clock was set meanwhile: nothing here depends on it, but data may."""
        passed_ms = int((self._context.clock.monotonic() - began_s) * 1000)
        by_ms = self._context.clock.now_ms() - wall_ms - passed_ms
        if abs(by_ms) >= JUMP_MS:
            log.warning(
                "the wall clock of this machine jumped by %d s; the quorum does not depend on it, "
                "but timestamps of records and retention by time do: see that the machine's time "
                "service (NTP) runs and sets it slowly",
                by_ms // 1000,
            )

    def snapshot_soon(self) -> None:
        """Writes a snapshot in the background, unless one is being written."""
        context = self._context
        latest = context.log.latest_snapshot
        end = context.metadata.committed.offset + 1
        if self._writing is not None or end <= (latest.offset if latest else 0):
            return
        # Monotonic: the wall clock may be set back by years, which must not delay snapshots.
        self._last_bytes, self._last_s = context.log.size_bytes, context.clock.monotonic()
        self._writing = context.clock.spawn(
            self._write(context.metadata.committed), name="metadata snapshot"
        )

    async def _write(self, image: MetadataImage) -> None:
        """The image is immutable, so other tasks run between two batches."""
        context = self._context
        snapshot = OffsetAndEpoch(image.offset + 1, image.epoch)
        voters = context.raft.quorum.voters.in_log_at(snapshot.offset)
        level = image.metadata_version
        rows = ((one, record_version(type(one).__name__, level)) for one in image_records(image))
        try:
            snapshots = context.log.snapshots
            steps = snapshots.write_steps(snapshot, rows, voters, context.clock.now_ms())
            for _ in steps:
                await context.clock.sleep(0)
            # Not on Raft's worker: the flush of a large file would delay that of a vote.
            await context.disk.run(snapshots.finish, snapshot, worker=SNAPSHOT_WORKER)
            snapshots.add(snapshot)
            log.info("wrote snapshot %s", snapshot)
        except (DiskError, LogError) as error:
            log.error("no snapshot %s: %s", snapshot, error)
        finally:
            self._writing = None
        self.clean()

    def clean(self) -> None:
        """Deletes what a newer snapshot covers, by size and by age: first the log's part, between
        two events of the Raft core, then the snapshot it began after. What the disk fails to delete
        is tried again next time."""
        try:
            self._clean()
        except (DiskError, LogError) as error:
            log.error("metadata that a snapshot covers is kept for now: %s", error)

    def _clean(self) -> None:
        context = self._context
        snapshots = context.log.snapshots
        max_bytes = context.config["metadata.max.retention.bytes"]
        max_ms = context.config["metadata.max.retention.ms"]
        while len(snapshots.ids) > 1:
            oldest, following = snapshots.ids[:2]
            total = context.log.size_bytes + sum(snapshots.size_of(one) for one in snapshots.ids)
            age_ms = context.clock.now_ms() - snapshots.modified_ms(oldest)
            excess = 0 <= max_bytes < total
            if not excess and not 0 <= max_ms < age_ms:
                return
            if following.offset > context.raft.high_watermark:
                return
            if context.log.begins_before(following):
                self._event_loop.enqueue_effect(DropLogBefore(following))
                return  # `on_log_dropped` continues
            snapshots.remove(oldest)
            self._last_bytes = context.log.size_bytes
            context.raft.quorum.voters.truncate_before(following.offset)

    def on_log_dropped(self, paths: list[str]) -> None:
        """The log begins later; these files are no longer read."""
        self._removing = self._context.clock.spawn(self._remove(paths), name="metadata files")
        self.clean()

    async def _remove(self, paths: list[str]) -> None:
        disk = self._context.disk
        try:
            for path in paths:
                await disk.run(disk.remove, path, worker=SNAPSHOT_WORKER)
        except DiskError as error:
            log.warning("metadata that is not needed any more stays on the disk: %s", error)
