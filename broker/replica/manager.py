"""The partitions this broker has a replica of, and the requests that wait for them.

In: what the controller's metadata says of partitions. Out: ``Partition`` objects; waiting produces
and fetches woken when something moves. Never: a decision about leaders or in-sync sets.
"""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker.clock.port import Clock, TaskHandle
from broker.config.views import TopicConfig
from broker.disk.port import DiskError
from broker.log.checkpoint import TopicPartition, read_offsets, write_offsets
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.manager import LogManager, parent_of
from broker.log.records_in import AppendInfo
from broker.metrics.registry import Metrics
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timer import Timer
from broker.replica.partition import Partition
from bus.errors import ErrorCode

log = logging.getLogger("broker.replica")

HIGH_WATERMARKS = "replication-offset-checkpoint"


class ReplicaManager:
    """The replicas of one broker. Invariant: a partition here has its log in the log manager."""

    def __init__(
        self,
        *,
        broker_id: int,
        log_manager: LogManager,
        clock: Clock,
        timer: Timer,
        metrics: Metrics,
    ) -> None:
        self.broker_id = broker_id
        self.produce_purgatory = Purgatory("Produce", timer)
        self.fetch_purgatory = Purgatory("Fetch", timer)
        self.delete_records_purgatory = Purgatory("DeleteRecords", timer)
        self._logs = log_manager
        self._disk = log_manager.disk
        self._clock = clock
        self._partitions: dict[TopicPartition, Partition] = {}
        self._topic_ids: dict[bytes, str] = {}
        self._written: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] | None = None
        self._task: TaskHandle | None = None
        self._measure(metrics)

    # --- what the metadata says ------------------------------------------------------------------

    def create_partition(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        config: TopicConfig,
    ) -> Partition:
        """Make a partition, or bring an existing one to what the controller says now."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            partition = self._add(topic, topic_id, index, config)
        partition.update(
            leader_id=leader_id,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=replicas,
            isr=isr,
        )
        return partition

    def _add(self, topic: str, topic_id: bytes, index: int, config: TopicConfig) -> Partition:
        partition_log = self._logs.create(topic, index, topic_id, config)
        partition_log.reconfigure(config)
        partition = Partition(
            topic, topic_id, index, partition_log, self.broker_id, self._on_moved
        )
        self._restore_watermark(partition_log)
        self._partitions[topic, index] = partition
        self._topic_ids[topic_id] = topic
        return partition

    def _restore_watermark(self, partition_log: Log) -> None:
        if self._stored is None:
            self._stored = {}
            for directory in self._logs.directories:
                self._stored.update(read_offsets(self._disk, f"{directory}/{HIGH_WATERMARKS}"))
        stored = self._stored.pop((partition_log.topic, partition_log.index), 0)
        watermark = min(max(stored, partition_log.log_start_offset), partition_log.end_offset)
        partition_log.advance_high_watermark(watermark)

    def delete_partition(self, topic: str, index: int) -> None:
        """The partition is gone: answer who waits for it and take its log away."""
        partition = self._partitions.pop((topic, index), None)
        if partition is None:
            return
        if not any(other.topic == topic for other in self._partitions.values()):
            self._topic_ids.pop(partition.topic_id, None)
        partition.leader_id = -1
        self._on_moved(partition, True)
        self._logs.delete(topic, index)

    def update_config(self, topic: str, config: TopicConfig) -> None:
        """New settings for a topic."""
        self._logs.reconfigure(topic, config)

    # --- finding ---------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition:
        """The partition, or LogError UNKNOWN_TOPIC_OR_PARTITION."""
        partition = self._partitions.get((topic, index))
        if partition is None:
            raise LogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def get_by_id(self, topic_id: bytes, index: int) -> Partition:
        """The partition, or LogError UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION."""
        topic = self._topic_ids.get(topic_id)
        if topic is None:
            raise LogError(ErrorCode.UNKNOWN_TOPIC_ID)
        return self.get(topic, index)

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is here."""
        return self._partitions.get((topic, index))

    def partitions(self) -> list[Partition]:
        """All partitions here."""
        return list(self._partitions.values())

    # --- waking ----------------------------------------------------------------------------------

    def _on_moved(self, partition: Partition, watermark_rose: bool) -> None:
        """Something was appended (visible at least to followers) or became visible to all."""
        key = partition.key
        if self.fetch_purgatory.has(key):
            self.fetch_purgatory.wake(key)
        if watermark_rose or not partition.is_leader:
            if self.produce_purgatory.has(key):
                self.produce_purgatory.wake(key)
            if self.delete_records_purgatory.has(key):
                self.delete_records_purgatory.wake(key)

    # --- checkpoints -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write the high watermarks down regularly."""
        self._task = self._clock.spawn(self._checkpoint_loop(), name="highwatermark-checkpoint")

    async def stop(self) -> None:
        """Stop and write them a last time."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(CancelledError):
                await task
        self.checkpoint_high_watermarks()

    async def _checkpoint_loop(self) -> None:
        every_s = self._logs.config["replica.high.watermark.checkpoint.interval.ms"] / 1000
        while True:
            await self._clock.sleep(every_s)
            self.checkpoint_high_watermarks()

    def checkpoint_high_watermarks(self) -> None:
        """Write the watermarks of all partitions, if any has changed."""
        current = {key: p.high_watermark for key, p in self._partitions.items()}
        if current == self._written:
            return
        for directory in self._logs.directories:
            here = {
                key: offset
                for key, offset in current.items()
                if parent_of(self._partitions[key].log) == directory
            }
            try:
                write_offsets(self._disk, f"{directory}/{HIGH_WATERMARKS}", here)
            except DiskError as error:
                log.error("%s/%s was not written: %s", directory, HIGH_WATERMARKS, error)
                return
        self._written = current

    # --- metrics ---------------------------------------------------------------------------------

    def _measure(self, metrics: Metrics) -> None:
        def count(test: Callable[[Partition], bool]) -> int:
            return sum(map(test, self._partitions.values()))

        metrics.gauge("ReplicaManager", "PartitionCount", lambda: len(self._partitions))
        metrics.gauge("ReplicaManager", "LeaderCount", lambda: count(lambda p: p.is_leader))
        metrics.gauge(
            "ReplicaManager",
            "UnderReplicatedPartitions",
            lambda: count(lambda p: p.is_leader and len(p.isr) < len(p.replicas)),
        )
        metrics.gauge(
            "ReplicaManager",
            "UnderMinIsrPartitionCount",
            lambda: count(lambda p: p.is_leader and len(p.isr) < p.log.config.min_insync_replicas),
        )
        for purgatory in (self.produce_purgatory, self.fetch_purgatory):
            metrics.gauge(
                "DelayedOperationPurgatory",
                "PurgatorySize",
                purgatory.__len__,
                delayedOperation=purgatory.name,
            )
        metrics.gauge("Log", "Size", lambda: sum(p.log.size_bytes for p in self.partitions()))
        self._bytes_in = metrics.meter("BrokerTopicMetrics", "BytesInPerSec")
        self._messages_in = metrics.meter("BrokerTopicMetrics", "MessagesInPerSec")

    def count_produced(self, info: AppendInfo) -> None:
        """Take an append of a client into the broker's totals."""
        self._bytes_in.mark(info.size_bytes)
        self._messages_in.mark(info.records)
