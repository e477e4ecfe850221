"""Metrics of the cluster and of this node, computed when Prometheus scrapes them.

Nothing is counted while requests are served; one scrape walks the image once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from broker.controller.port import Controller
from broker.metadata.image import MetadataImage
from broker.metrics.registry import Metrics


class BrokerState(IntEnum):
    """Kafka's numbers (KafkaServer BrokerDescription)."""

    STARTING = 1
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """One walk over an image."""

    partitions: int
    offline: int
    not_preferred: int


def totals(image: MetadataImage) -> ClusterTotals:
    """Partitions of the cluster, those without a leader, those not led by their first replica."""
    partitions = offline = not_preferred = 0
    for topic in image.topics.values():
        for partition in topic.partitions:
            partitions += 1
            offline += partition.leader < 0
            not_preferred += partition.replicas[:1] != (partition.leader,)
    return ClusterTotals(partitions, offline, not_preferred)


class ClusterMetrics:
    """Registers itself. Invariant: `_totals` are those of the image at `_offset`."""

    def __init__(
        self,
        metrics: Metrics,
        controller: Controller,
        image: Callable[[], MetadataImage],
        state: Callable[[], BrokerState],
        groups: Callable[[], int],
    ) -> None:
        self._image = image
        self._walked: MetadataImage | None = None
        self._totals = ClusterTotals(0, 0, 0)
        metrics.gauge("KafkaServer", "BrokerState", lambda: state())
        metrics.gauge("GroupMetadataManager", "NumGroups", lambda: groups())
        metrics.gauge("broker-metadata-metrics", "last-applied-record-offset",
                      lambda: image().offset)  # fmt: skip
        metrics.gauge("KafkaController", "ActiveControllerCount", lambda: int(controller.is_active))
        metrics.gauge("KafkaController", "ActiveBrokerCount", lambda: self._brokers(fenced=False))
        metrics.gauge("KafkaController", "FencedBrokerCount", lambda: self._brokers(fenced=True))
        metrics.gauge("KafkaController", "GlobalTopicCount", lambda: len(image().topics))
        metrics.gauge("KafkaController", "GlobalPartitionCount", lambda: self._walk().partitions)
        metrics.gauge("KafkaController", "OfflinePartitionsCount", lambda: self._walk().offline)
        metrics.gauge("KafkaController", "PreferredReplicaImbalanceCount",
                      lambda: self._walk().not_preferred)  # fmt: skip

    def _brokers(self, *, fenced: bool) -> int:
        return sum(1 for broker in self._image().brokers.values() if broker.fenced is fenced)

    def _walk(self) -> ClusterTotals:
        image = self._image()
        if image is not self._walked:
            self._totals, self._walked = totals(image), image
        return self._totals
