"""Traffic is counted for all topics together and per topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.metrics.registry import Metrics
from broker.replica.metrics import ReplicaMetrics


class CountingMetrics(ReplicaMetrics):
    """Without the gauges, which read all replicas."""

    def _gauges(self, metrics: Metrics, replicas: object) -> None:
        pass


def counts(metrics: Metrics) -> dict[str, str]:
    lines = [line for line in metrics.text().splitlines() if "bytesin" in line or "bytesout" in line]
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_a_topics_traffic_is_in_the_totals_and_goes_with_the_topic():
    metrics = Metrics()
    measures = CountingMetrics(metrics, cast(Any, None))
    measures.appended("plates", cast(Any, SimpleNamespace(size_bytes=100, records=2)))
    measures.appended("faces", cast(Any, SimpleNamespace(size_bytes=10, records=1)))
    partition = cast(Any, SimpleNamespace(topic="plates", adding=()))
    measures.fetched(partition, -1, 70)
    measures.fetched(partition, 2, 50)
    name = "kafka_server_brokertopicmetrics_bytes"
    shown = counts(metrics)
    assert shown[f"{name}in_total"] == "110.0"
    assert shown[f'{name}in_total{{topic="plates"}}'] == "100.0"
    assert shown[f'{name}out_total{{topic="plates"}}'] == "70.0"
    measures.forget("plates")
    left = counts(metrics)
    assert left[f"{name}in_total"] == "110.0"
    assert not [line for line in left if "plates" in line]
