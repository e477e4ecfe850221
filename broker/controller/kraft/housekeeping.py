"""What a node of the quorum does by the clock: no-op records, snapshots, its own place.

In: the context. Out: decisions, files, requests. Never: more disk than
`metadata.max.retention.bytes` and one snapshot, nor a no-op record in a cluster where nobody would
hear it.
"""

from __future__ import annotations

import logging
from typing import Protocol

from broker.clock.port import TaskHandle
from broker.controller.kraft.carrier import DropBefore
from broker.controller.kraft.context import QuorumContext
from broker.controller.kraft.driver import Driver
from broker.controller.kraft.messages import OffsetAndEpoch
from broker.controller.kraft.presence import Presence
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.metadata.image import MetadataImage
from broker.metadata.records import image_records
from broker.metadata.versions import record_version

log = logging.getLogger("broker.controller")

SNAPSHOT_WORKER = "metadata snapshots"

JUMP_MS = 10_000
"""A time service that works moves the clock by less than this in a minute."""


class NoOpWriter(Protocol):
    """What a node writes while it leads and nothing else happens."""

    @property
    def is_active(self) -> bool:
        """Whether this node may decide now."""

    def write_noop(self) -> None:
        """Append a record that changes nothing."""


class Housekeeping:
    """Runs beside the node; nothing of it is needed for what the quorum promises."""

    def __init__(
        self, context: QuorumContext, driver: Driver, presence: Presence, writer: NoOpWriter
    ) -> None:
        self._context = context
        self._driver = driver
        self._presence = presence
        self._writer = writer
        self._tasks: list[TaskHandle] = []
        self._writing: TaskHandle | None = None
        self._removing: TaskHandle | None = None
        self._last_bytes = 0
        self._last_s = 0.0

    def start(self) -> None:
        """Begin."""
        context = self._context
        self._last_bytes = context.log.size_bytes
        self._last_s = context.clock.monotonic()
        self._tasks = [
            context.clock.spawn(self._noops(), name="metadata no-ops"),
            context.clock.spawn(self._snapshots_by_age(), name="metadata snapshots"),
        ]
        if context.endpoint is not None:
            self._tasks.append(context.clock.spawn(self._presence.run(), name="quorum presence"))

    def stop(self) -> None:
        """End."""
        for task in (*self._tasks, self._writing, self._removing):
            if task is not None:
                task.cancel()

    async def _noops(self) -> None:
        """Kafka writes one each 500 ms; here only while somebody fetches, so that the disk of a
        machine of its own stays idle when nothing happens."""
        context = self._context
        interval_ms = context.config["metadata.max.idle.interval.ms"]
        if not interval_ms:
            return
        seen = -1
        while True:
            await context.clock.sleep(interval_ms / 1000)
            end = context.end_offset
            if self._writer.is_active and end == seen and self._is_heard():
                self._writer.write_noop()
            seen = context.end_offset

    def _is_heard(self) -> bool:
        term = self._context.machine.leading.term
        return term is not None and bool(term.progress)

    # -- snapshots --------------------------------------------------------------------------

    def on_commit(self) -> None:
        """Something was committed: perhaps enough for a snapshot."""
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
            self._look_at_clock(wall_ms, began_s)
            if interval_ms and context.clock.monotonic() - self._last_s >= interval_ms / 1000:
                self.snapshot_soon()
            self.clean()

    def _look_at_clock(self, wall_ms: int, began_s: float) -> None:
        """Say it if the wall clock was set meanwhile: nothing here depends on it, data may."""
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
        """Write a snapshot beside what else happens, unless one is being written."""
        context = self._context
        latest = context.log.latest_snapshot
        end = context.images.committed.offset + 1
        if self._writing is not None or end <= (latest.offset if latest else 0):
            return
        # The wall clock may be set back by years; the next snapshot must not wait for that long.
        self._last_bytes, self._last_s = context.log.size_bytes, context.clock.monotonic()
        self._writing = context.clock.spawn(
            self._write(context.images.committed), name="metadata snapshot"
        )

    async def _write(self, image: MetadataImage) -> None:
        """The image is frozen, so that the loop may serve others between two batches."""
        context = self._context
        snapshot = OffsetAndEpoch(image.offset + 1, image.epoch)
        voters = context.machine.core.voters.in_log_at(snapshot.offset)
        level = image.metadata_version
        rows = ((one, record_version(type(one).__name__, level)) for one in image_records(image))
        try:
            snapshots = context.log.snapshots
            steps = snapshots.write_steps(snapshot, rows, voters, context.clock.now_ms())
            for _ in steps:
                await context.clock.sleep(0)
            # Not on Raft's worker: a large file's flush would stand in front of a vote's.
            await context.disk.run(snapshots.finish, snapshot, worker=SNAPSHOT_WORKER)
            snapshots.finished(snapshot)
            log.info("wrote snapshot %s", snapshot)
        except (DiskError, LogError) as error:
            log.error("no snapshot %s: %s", snapshot, error)
        finally:
            self._writing = None
        self.clean()

    def clean(self) -> None:
        """Give back what a newer snapshot covers, by size and by age: the log's part first, between
        two events of the machine, then the snapshot that it began behind. What the disk refuses to
        give back stays until the next time."""
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
            if following.offset > context.machine.high_watermark:
                return
            if context.log.begins_before(following):
                self._driver.carry(DropBefore(following))
                return  # `dropped` goes on from here
            snapshots.remove(oldest)
            self._last_bytes = context.log.size_bytes
            context.machine.core.voters.forget_before(following.offset)

    def dropped(self, paths: list[str]) -> None:
        """The log begins later; nobody reads these files any more."""
        self._removing = self._context.clock.spawn(self._remove(paths), name="metadata files")
        self.clean()

    async def _remove(self, paths: list[str]) -> None:
        disk = self._context.disk
        try:
            for path in paths:
                await disk.run(disk.remove, path, worker=SNAPSHOT_WORKER)
        except DiskError as error:
            log.warning("metadata that is not needed any more stays on the disk: %s", error)
