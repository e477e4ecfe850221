"""What operators see of the quorum: Kafka's raft-metrics.

In: the node. Out: gauges in the registry. Never: a look at anything that costs more than a field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.metrics.registry import Metrics

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

GROUP = "raft-metrics"


def measure(node: RaftNode, metrics: Metrics) -> None:
    """Register the gauges."""
    metrics.gauge(GROUP, "current-leader", lambda: node.leader_id)
    metrics.gauge(GROUP, "current-epoch", lambda: node.epoch)
    metrics.gauge(GROUP, "high-watermark", lambda: node.machine.high_watermark)
    metrics.gauge(GROUP, "log-end-offset", lambda: node.end_offset)
    metrics.gauge("broker-metadata-metrics", "metadata-load-error-count", lambda: node.load_errors)
