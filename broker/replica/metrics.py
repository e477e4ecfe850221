"""Gauges and meters of a broker's replicas, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.log.validation import AppendInfo
from broker.metrics.registry import Meter, Metrics
from broker.purgatory.purgatory import Purgatory
from broker.replica.fetch.session_cache import FetchSessionCache
from broker.replica.partition import Partition


class MeasuredReplicas(Protocol):
    """What the gauges read of the replica manager."""

    fetch_sessions: FetchSessionCache
    produce_purgatory: Purgatory
    fetch_purgatory: Purgatory

    @property
    def offline_count(self) -> int: ...
    def partitions(self) -> list[Partition]: ...
    def max_lag(self) -> int: ...
    def failed_partition_count(self) -> int: ...


@dataclass(slots=True)
class TopicMeters:
    """Meters of one topic; created at its first traffic, so idle topics cost nothing."""

    bytes_in: Meter
    bytes_out: Meter
    messages_in: Meter


class ReplicaMetrics:
    """The meters of the replicas; the gauges read `replicas` when scraped."""

    def __init__(self, metrics: Metrics, replicas: MeasuredReplicas) -> None:
        self._metrics = metrics
        self._topics: dict[str, TopicMeters] = {}
        self._bytes_in = metrics.meter("BrokerTopicMetrics", "BytesInPerSec")
        self._bytes_out = metrics.meter("BrokerTopicMetrics", "BytesOutPerSec")
        self._messages_in = metrics.meter("BrokerTopicMetrics", "MessagesInPerSec")
        self.replicated_in = metrics.meter("BrokerTopicMetrics", "ReplicationBytesInPerSec")
        self.replicated_out = metrics.meter("BrokerTopicMetrics", "ReplicationBytesOutPerSec")
        self.reassigned_in = metrics.meter("BrokerTopicMetrics", "ReassignmentBytesInPerSec")
        self.reassigned_out = metrics.meter("BrokerTopicMetrics", "ReassignmentBytesOutPerSec")
        self.isr_expands = metrics.meter("ReplicaManager", "IsrExpandsPerSec")
        self.isr_shrinks = metrics.meter("ReplicaManager", "IsrShrinksPerSec")
        self.failed_isr_updates = metrics.meter("ReplicaManager", "FailedIsrUpdatesPerSec")
        self._gauges(metrics, replicas)

    def appended(self, topic: str, info: AppendInfo) -> None:
        """A client's, a coordinator's or a mirror's batches were appended by their leader."""
        size_bytes, records = info.size_bytes, info.records
        self._bytes_in.count += size_bytes
        self._messages_in.count += records
        meters = self._topics.get(topic) or self._topic(topic)
        meters.bytes_in.count += size_bytes
        meters.messages_in.count += records

    def fetched(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """Count bytes sent to a consumer (-1) or a follower."""
        if replica_id < 0:
            self._bytes_out.mark(size_bytes)
            topic = partition.topic
            (self._topics.get(topic) or self._topic(topic)).bytes_out.mark(size_bytes)
            return
        self.replicated_out.mark(size_bytes)
        if replica_id in partition.adding:
            self.reassigned_out.mark(size_bytes)

    def on_corrupt_fetch(self, leader_id: int) -> None:
        """A leader sent a damaged batch."""
        self._metrics.meter("ReplicaManager", "DamagedFetchesPerSec", leader=str(leader_id)).mark()

    def forget(self, topic: str) -> None:
        """No partition of the topic is here any more."""
        if self._topics.pop(topic, None) is not None:
            self._metrics.forget(topic=topic)

    def _topic(self, topic: str) -> TopicMeters:
        made = self._topics[topic] = TopicMeters(
            self._metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic=topic),
            self._metrics.meter("BrokerTopicMetrics", "BytesOutPerSec", topic=topic),
            self._metrics.meter("BrokerTopicMetrics", "MessagesInPerSec", topic=topic),
        )
        return made

    def _gauges(self, metrics: Metrics, replicas: MeasuredReplicas) -> None:
        def count(test: Callable[[Partition], bool]) -> Callable[[], int]:
            return lambda: sum(map(test, replicas.partitions()))

        def led(test: Callable[[Partition], bool]) -> Callable[[], int]:
            return count(lambda p: p.is_leader and test(p))

        metrics.gauge("ReplicaManager", "PartitionCount", lambda: len(replicas.partitions()))
        metrics.gauge("ReplicaManager", "LeaderCount", count(lambda p: p.is_leader))
        metrics.gauge("ReplicaManager", "OfflineReplicaCount", lambda: replicas.offline_count)
        metrics.gauge("ReplicaManager", "UnderReplicatedPartitions", led(_is_under_replicated))
        metrics.gauge(
            "ReplicaManager", "UnderMinIsrPartitionCount",
            led(lambda p: p.is_under_min_isr),
        )  # fmt: skip
        metrics.gauge(
            "ReplicaManager", "AtMinIsrPartitionCount",
            led(
                lambda p: len(p.isr) == min(p.log.config.min_insync_replicas, len(p.replicas))
            ),
        )  # fmt: skip
        metrics.gauge(
            "ReplicaManager", "ReassigningPartitions", led(lambda p: bool(p.adding or p.removing))
        )
        metrics.gauge("ReplicaFetcherManager", "MaxLag", replicas.max_lag, clientId="Replica")
        metrics.gauge(
            "ReplicaFetcherManager",
            "FailedPartitionsCount",
            replicas.failed_partition_count,
            clientId="Replica",
        )
        sessions = replicas.fetch_sessions
        metrics.gauge("FetchSessionCache", "NumIncrementalFetchSessions", sessions.__len__)
        metrics.gauge(
            "FetchSessionCache",
            "NumIncrementalFetchPartitionsCached",
            lambda: sessions.partition_count,
        )
        for purgatory in (replicas.produce_purgatory, replicas.fetch_purgatory):
            metrics.gauge(
                "DelayedOperationPurgatory",
                "PurgatorySize",
                purgatory.__len__,
                delayedOperation=purgatory.name,
            )
        metrics.gauge("Log", "Size", lambda: sum(p.log.size_bytes for p in replicas.partitions()))


def _is_under_replicated(partition: Partition) -> bool:
    """Replicas that a reassignment is still adding are not missed, as in Kafka."""
    settled = len([r for r in partition.replicas if r not in partition.adding])
    in_sync = len([r for r in partition.isr if r not in partition.adding])
    return in_sync < settled
