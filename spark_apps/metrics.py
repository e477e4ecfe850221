"""The metrics of a driver: what Spark tells of each batch, and how long our commits take.

In: `BatchProgress`, seconds. Out: a registry that `bus.metrics_server` shows. Never: a label whose
values grow with devices or batches.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from spark_apps.progress import BatchProgress

_COMMIT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120)


class StreamsMetrics:
    """One driver. `query` is Spark's name of a query, `part` Spark's name of a step of a batch."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rows = Counter(
            "databus_streams_rows", "Records that a query has taken.", ["query"],
            registry=self.registry,
        )  # fmt: skip
        self._batches = Counter(
            "databus_streams_batches", "Batches of a query.", ["query"], registry=self.registry
        )
        self._input = self._gauge("input_rows_per_second", "Records a second that came.", "query")
        self._processed = self._gauge(
            "processed_rows_per_second", "Records a second while a batch was worked on.", "query"
        )
        self._seconds = self._gauge(
            "batch_seconds", "The newest batch, by the steps of Spark.", "query", "part"
        )
        self._batch_rows = self._gauge("batch_rows", "Records of the newest batch.", "query")
        self._backlog = self._gauge(
            "backlog_records", "Records behind the end, when the newest batch was planned.",
            "query", "topic",
        )  # fmt: skip
        self._last = self._gauge(
            "last_batch_timestamp_seconds", "When the newest batch ended.", "query"
        )
        self._bound = self._gauge("batch_bound_records", "Records that a batch has at most.")
        self._bound_bytes = self._gauge(
            "batch_bound_bytes", "Bytes of values that a batch, or a slice of one, has at most."
        )
        self.commit_seconds = Histogram(
            "databus_streams_commit_seconds",
            "From the begin of writing a batch to the return of its commit.",
            ["application"], buckets=_COMMIT_S, registry=self.registry,
        )  # fmt: skip

    def bound(self, records: int, value_bytes: int) -> None:
        """As the settings say."""
        self._bound.set(records)
        self._bound_bytes.set(value_bytes)

    def observe(self, batch: BatchProgress) -> None:
        """One batch that has ended."""
        query = batch.name
        self._rows.labels(query).inc(batch.records)
        self._batches.labels(query).inc()
        self._input.labels(query).set(batch.input_rows_per_second)
        self._processed.labels(query).set(batch.processed_rows_per_second)
        self._batch_rows.labels(query).set(batch.records)
        self._last.labels(query).set(time.time())
        for part, duration_ms in batch.duration_ms.items():
            self._seconds.labels(query, part).set(duration_ms / 1000)
        for topic, records in batch.backlog.items():
            self._backlog.labels(query, topic).set(records)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"databus_streams_{name}", text, labels, registry=self.registry)
