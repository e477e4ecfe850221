"""Counting, and the text Prometheus reads."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.metrics.names import base_name
from broker.metrics.registry import RESERVOIR, Metrics


def values(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a Prometheus server would take from the text."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.text())
        for sample in family.samples
    }


def test_names_are_those_dashboards_for_kafka_ask_for() -> None:
    assert base_name("BrokerTopicMetrics", "MessagesInPerSec") == (
        "kafka_server_brokertopicmetrics_messagesin"
    )
    assert base_name("ReplicaManager", "UnderReplicatedPartitions") == (
        "kafka_server_replicamanager_underreplicatedpartitions"
    )
    assert base_name("RequestMetrics", "TotalTimeMs") == "kafka_network_requestmetrics_totaltimems"
    assert base_name("KafkaController", "ActiveControllerCount") == (
        "kafka_controller_kafkacontroller_activecontrollercount"
    )
    with pytest.raises(KeyError):
        base_name("NoSuchType", "X")


def test_meters_with_the_same_labels_are_one_and_show_as_counters() -> None:
    metrics = Metrics()
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic="a").mark(10)
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic="a").mark(5)
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic="b").mark()
    name = "kafka_server_brokertopicmetrics_bytesin_total"
    assert values(metrics) == {(name, (("topic", "a"),)): 15, (name, (("topic", "b"),)): 1}
    assert "# TYPE kafka_server_brokertopicmetrics_bytesin_total counter" in metrics.text()


def test_gauges_are_read_when_somebody_asks() -> None:
    metrics, held = Metrics(), [1.0]
    metrics.gauge("ReplicaManager", "PartitionCount", lambda: held[0])
    held[0] = 7
    assert values(metrics) == {("kafka_server_replicamanager_partitioncount", ()): 7}


def test_histograms_show_count_sum_and_quantiles_of_the_newest_values() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("RequestMetrics", "TotalTimeMs", request="Produce")
    for value in range(RESERVOIR * 2):
        histogram.update(value)
    name, labels = "kafka_network_requestmetrics_totaltimems", (("request", "Produce"),)
    found = values(metrics)
    assert found[f"{name}_count", labels] == RESERVOIR * 2
    assert found[f"{name}_sum", labels] == sum(range(RESERVOIR * 2))
    median = found[name, (("quantile", "0.5"), *labels)]
    assert RESERVOIR * 1.4 < median < RESERVOIR * 1.6


def test_a_deleted_topics_metrics_are_forgotten() -> None:
    metrics = Metrics()
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic="a").mark()
    metrics.gauge("Log", "Size", lambda: 1, topic="a", partition="0")
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec").mark()
    metrics.forget(topic="a")
    assert [labels for _, labels in values(metrics)] == [()]


def test_label_values_are_escaped() -> None:
    metrics = Metrics()
    metrics.meter("BrokerTopicMetrics", "BytesInPerSec", topic='a"\n\\b').mark()
    assert next(iter(values(metrics)))[1] == (("topic", 'a"\n\\b'),)
