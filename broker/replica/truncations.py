"""Makes truncations of partitions' logs durable, each in a task of its own.

In: partitions whose log was cut in memory and on the page cache. Out: tasks that end when the disk
has it. Never: the cut itself; nothing is appended to such a log meanwhile, as it is blocked.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TaskHandle
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.log.segments import PendingTruncation
from broker.purgatory.purgatory import Purgatory
from broker.replica.partition import Partition


class TruncationTasks:
    """Invariant: ``pending`` has every task that has not ended."""

    def __init__(
        self,
        logs: LogManager,
        clock: Clock,
        produce_purgatory: Purgatory,
        on_log_error: Callable[[Partition, LogError], None],
    ) -> None:
        self._logs = logs
        self._clock = clock
        self._produce_purgatory = produce_purgatory
        self._on_log_error = on_log_error
        self.pending: set[TaskHandle] = set()

    def begin(self, partition: Partition, truncation: PendingTruncation) -> TaskHandle:
        """Begin to make it durable."""
        task = self._clock.spawn(
            self._finish(partition, partition.log, truncation), name="truncation"
        )
        self.pending = {one for one in self.pending if not one.done()} | {task}
        return task

    async def _finish(
        self, partition: Partition, truncate_log: Log, truncation: PendingTruncation
    ) -> None:
        try:
            await self._logs.finish_truncation(truncate_log, truncation)
        except LogError as error:
            self._on_log_error(partition, error)
        if partition.is_leader:  # a mirror's claim waits for it
            self._produce_purgatory.wake(partition.key)
