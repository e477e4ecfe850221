"""The metrics of a driver: what Spark tells of each batch, and how long our commits take.

In: `BatchProgress`, `CommittedBatch`, seconds. Out: a registry that `bus.metrics.server` shows.
Never: a label whose values grow with devices or batches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary

from bus.contracts.topics import DATA_TOPICS, QUARANTINE_RECORDS
from bus.metrics.capture_histogram import CaptureHistogram, known_kind
from spark_apps.batches.committed_batch import CommittedBatch
from spark_apps.batches.message import OffsetRanges
from spark_apps.progress.batch_progress import BatchProgress
from spark_apps.session.java_references import java_references

log = logging.getLogger(__name__)

_COMMIT_S = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120)
TOPICS_OF_RECORDS = frozenset((*DATA_TOPICS, QUARANTINE_RECORDS))


class StreamsMetrics:
    """One driver. `query` is Spark's name of a query, `part` Spark's name of a step of a batch."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._query_series()
        self._commit_series()
        self._record_series()

    def _query_series(self) -> None:
        self._rows = self._counter("rows", "Records that a query has taken.", "query")
        self._batches = self._counter("batches", "Batches of a query.", "query")
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
        self._gauge(
            "java_references", "Objects that Java keeps because the driver's Python refers to them."
        ).set_function(java_references)

    def _commit_series(self) -> None:
        self.commit_seconds = Histogram(
            "databus_streams_commit_seconds",
            "From the begin of writing a batch to the return of its commit; failed writes are not"
            " counted.",
            ["application"], buckets=_COMMIT_S, registry=self.registry,
        )  # fmt: skip
        self._steps = Summary(
            "databus_streams_step_seconds",
            "What a batch waits for in the driver, by application and step; failed steps are not"
            " counted.",
            ["application", "step"], registry=self.registry,
        )  # fmt: skip
        self._capture = CaptureHistogram(
            "databus_streams_capture_seconds",
            "From the capture to the store, of committed records; not of those sent from files.",
            self.registry,
        )
        self.clocks = self._gauge(
            "corrected_clocks", "Devices whose clock is off and whose records ingest corrects."
        )

    def _record_series(self) -> None:
        self._records = self._counter(
            "records",
            "Records that ingest has committed: stored, duplicates, rejected, rejected duplicates.",
            "outcome", "kind", "reason",
        )  # fmt: skip
        self._arrived = self._counter(
            "arrived", "Records that edges say they took, as far as ingest has heard.", "kind"
        )
        self._valid = self._counter(
            "valid",
            "Records found on the bus that could be read, new or not, of committed batches.",
            "kind",
        )
        self._offsets = self._counter(
            "offsets",
            "Offsets of data topics and quarantine that ingest has passed with committed batches:"
            " what arrived by the topics' ends, whoever sent it. What"
            " `databus_streams_records_total` lacks of it was not read (lost to retention, cut off,"
            " or markers of transactions).",
            "topic", "partition",
        )  # fmt: skip
        self._uncompared = self._counter(
            "uncompared_faces",
            "Faces whose feature no gallery that rules ask for could be compared with: of another"
            " model, or no feature of it; of batches that were matched.",
            "reason",
        )  # fmt: skip
        self._unarrived = self._counter(
            "untrue_arrivals",
            "Records whose producer gave them a time that is no arrival: further before their"
            " capture than the topic keeps. Ordered by their capture, in no latency.",
            "kind",
        )

    def bound(self, records: int, value_bytes: int) -> None:
        """As the settings say."""
        self._bound.set(records)
        self._bound_bytes.set(value_bytes)

    @contextmanager
    def step(self, application: str, step: str) -> Iterator[None]:
        """A step of a batch; counted when it has succeeded."""
        began_s = time.monotonic()
        yield
        self._steps.labels(application, step).observe(time.monotonic() - began_s)

    def committed(self, batch: CommittedBatch) -> None:
        """What the store has committed; reasons and kinds of its totals are ours, not a
        sender's."""
        for outcome, kind, reason, count in batch.totals:
            self._records.labels(outcome, kind, reason).inc(count)
        for counter, numbers in ((self._arrived, batch.arrived), (self._valid, batch.valid)):
            for kind, count in numbers.items():
                counter.labels(known_kind(kind)).inc(count)
        for kind, count in batch.unarrived.items():
            self._unarrived.labels(kind).inc(count)
            log.warning(
                "%d records of %s came with a time of their producer that is no arrival (%s): set"
                " its clock, or leave the time out; ordered by their capture", count, kind,
                "further before the capture than the topic keeps",
            )  # fmt: skip
        for kind, elapsed_ms, records in batch.elapsed():
            self._capture.count(kind, elapsed_ms, records)

    def uncompared(self, faces: Mapping[str, int]) -> None:
        """Of a batch, by reason."""
        for reason, count in faces.items():
            self._uncompared.labels(reason).inc(count)

    def passed(self, offsets: OffsetRanges) -> None:
        """A committed batch covers them."""
        for (topic, partition), (first, end) in offsets.items():
            if topic in TOPICS_OF_RECORDS:
                self._offsets.labels(topic, str(partition)).inc(end - first)

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

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"databus_streams_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"databus_streams_{name}", text, labels, registry=self.registry)
