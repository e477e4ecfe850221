"""Which offsets of the logs are checkpointed, per log directory: recovery points, log starts, and
from where compacted logs are dirty.

In: the logs as they are, truncations, deletions, new logs. Out: contents for the checkpoint writer;
logs blocked until the files on the device are true again. Never: a file written here; the high
watermarks, which are the replica manager's.

A checkpointed offset of an older log, or of a truncated one, would be trusted after a loss of power
for the records appended instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from broker.clock.port import Clock, TaskHandle
from broker.clock.tasks import cancel_and_wait
from broker.log.checkpoint import TopicPartition
from broker.log.checkpoint_writer import CheckpointWriter
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.unusable import UnusableLogs

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
FIRST_DIRTY = "cleaner-offset-checkpoint"


class LogCheckpoints:
    """Invariant: `_recovery_points` and `_first_dirty` are what the writer was last handed, or what
    was found at the start. `_stale`: logs, and directories that they are not in any more but whose
    files may still hold their offsets."""

    def __init__(
        self,
        writer: CheckpointWriter,
        clock: Clock,
        unusable: UnusableLogs,
        logs: Callable[[], list[Log]],
        future_logs: Callable[[], list[Log]],
        directories: Callable[[], list[str]],
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._unusable = unusable
        self._logs = logs
        self._future_logs = future_logs
        self._directories = directories
        self._recovery_points: dict[TopicPartition, int] = {}
        self._first_dirty: dict[TopicPartition, int] = {}
        self._stale: set[tuple[TopicPartition, str]] = set()
        self._with_first_dirty: set[str] = set()
        self._unblocking: set[TaskHandle] = set()

    # --- writing ---------------------------------------------------------------------------------

    def add_found(
        self,
        directory: str,
        recovery_points: Mapping[TopicPartition, int],
        first_dirty: Mapping[TopicPartition, int],
    ) -> None:
        """What a directory's files say at the start."""
        self._recovery_points.update(recovery_points)
        self._first_dirty.update(first_dirty)
        self._stale.update((key, directory) for key in (*recovery_points, *first_dirty))
        if first_dirty:
            self._with_first_dirty.add(directory)

    def has_stale_lines(self) -> bool:
        """After all logs were opened: whether one of them was deleted, or moved to another
        directory, and the process died before the checkpoints of its directory were written."""
        here = {
            ((partition.topic, partition.index), parent_of(partition))
            for partition in (*self._logs(), *self._future_logs())
        }
        unusable = self._unusable.reasons
        self._stale = {one for one in self._stale - here if one[0] not in unusable}
        return bool(self._stale)

    def write(self) -> None:
        """Write all checkpoints now: logs were deleted, created or moved."""
        self.write_recovery_points()
        self.write_log_starts()
        self.write_first_dirty()

    def write_recovery_points(self) -> None:
        """Checkpoint below which offset each log is flushed."""
        self._put(RECOVERY_POINTS, lambda partition: partition.recovery_point)
        self._recovery_points = {
            (partition.topic, partition.index): partition.recovery_point
            for partition in self._logs()
        }

    def write_log_starts(self) -> None:
        """Checkpoint where each log begins, unless its first segment says it."""
        self._put(
            LOG_STARTS,
            lambda p: p.log_start_offset if p.log_start_offset > p.first_base_offset else None,
        )

    def write_first_dirty(self) -> None:
        """Checkpoint from where each log is dirty, unless all of it is. A directory in which
        nothing was ever cleaned has no such file."""
        cleaned = (one for one in self._logs() if one.cleaning.first_dirty_offset)
        self._with_first_dirty.update(parent_of(one) for one in cleaned)
        self._put(
            FIRST_DIRTY,
            lambda partition: partition.cleaning.first_dirty_offset or None,
            self._with_first_dirty,
        )
        self._first_dirty = {
            (partition.topic, partition.index): partition.cleaning.first_dirty_offset
            for partition in self._logs()
        }

    def _put(
        self,
        name: str,
        value: Callable[[Log], int | None],
        directories: Collection[str] | None = None,
    ) -> None:
        here = [*self._logs(), *self._future_logs()]
        for directory in self._directories():
            if directories is not None and directory not in directories:
                continue
            offsets = self._unusable.lines(f"{directory}/{name}")
            for partition in here:
                offset = value(partition) if parent_of(partition) == directory else None
                if offset is not None:
                    offsets[partition.topic, partition.index] = offset
            self._writer.put(directory, name, offsets)

    # --- logs whose checkpoint is not true -------------------------------------------------------

    def on_truncated(self, partition: Log) -> None:
        """Nothing above the truncation is flushed any more."""
        key = (partition.topic, partition.index)
        if self._recovery_points.get(key, 0) > partition.recovery_point:
            self.write_recovery_points()
        if self._first_dirty.get(key, 0) > partition.cleaning.first_dirty_offset:
            self.write_first_dirty()

    def on_deleted(self, partition: Log) -> None:
        """Its lines stay in the files until they are written again."""
        key = (partition.topic, partition.index)
        if self._recovery_points.get(key) or self._first_dirty.get(key):
            self._stale.add((key, parent_of(partition)))

    def on_created(self, created: Log) -> None:
        """Block it if its directory's files may hold the offsets of an older log of its name."""
        line = ((created.topic, created.index), parent_of(created))
        if line in self._stale:
            self._stale.remove(line)
            self.block_until_written(created)

    def block_until_written(self, partition: Log) -> None:
        """Block a log until the checkpoints of its directory that are on their way are written: a
        new one, or one that ends before its checkpointed recovery point."""
        directory = parent_of(partition)
        if not self._writer.is_writing(directory):
            return

        async def release() -> None:
            await self._writer.until_written(directory)
            partition.guard.unblock()

        partition.guard.block()
        task = self._clock.spawn(release(), name="unvouch")
        self._unblocking = {one for one in self._unblocking if not one.done()} | {task}

    async def stop(self) -> None:
        """Wait for no log any more."""
        await cancel_and_wait(self._unblocking)
