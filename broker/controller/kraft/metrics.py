"""Kafka's raft-metrics. Each gauge reads a field and computes nothing."""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.kraft.context import QuorumContext
from broker.metrics.registry import Metrics

GROUP = "raft-metrics"


def register(context: QuorumContext, load_errors: Callable[[], int], metrics: Metrics) -> None:
    """Registers the gauges."""
    metrics.gauge(GROUP, "current-leader", lambda: context.leader_id)
    metrics.gauge(GROUP, "current-epoch", lambda: context.epoch)
    metrics.gauge(GROUP, "high-watermark", lambda: context.raft.high_watermark)
    metrics.gauge(GROUP, "log-end-offset", lambda: context.end_offset)
    metrics.gauge("broker-metadata-metrics", "metadata-load-error-count", load_errors)
