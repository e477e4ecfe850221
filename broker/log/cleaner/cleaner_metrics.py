"""What the cleaner tells: Kafka's metrics of it, and a few figures of each compacted partition.

In: logs as they were looked at, passes that ended. Out: gauges. Never: a decision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker.clock.port import Clock, monotonic_ms
from broker.log.checkpoint import TopicPartition
from broker.log.cleaner.cleaning_run import CleaningTotals
from broker.log.cleaner.model import CompactedLog, PassResult
from broker.log.cleaner.plan import DirtyLog
from broker.log.cleaner.uncleanable import UncleanableLog, UncleanableLogs
from broker.log.log import Log
from broker.metrics.registry import Metrics

MOST_PARTITIONS = 500
"""Compacted partitions with figures of their own: ten times those of a default
`__consumer_offsets`. Beyond that only the largest values are told, as in Kafka."""

MOST_UNCLEANABLE = 100
"""Partitions of which the page says why, those marked first."""

NEVER_MS = -1


class CleaningReport(NamedTuple):
    """A pass that has ended well."""

    took_s: float
    totals: CleaningTotals
    result: PassResult


class PartitionFigures(NamedTuple):
    """A compacted log as it was looked at last. ``oldest_ms``: the time of its first record that
    was never cleaned, -1 if it has none; ``cleaned_at_ms``: when a pass of this process ended."""

    dirty_percent: float
    overdue_ms: int
    oldest_ms: int
    cleaned_at_ms: int


class CleanerFigures:
    """Invariant: ``_partitions`` has the compacted logs of the last look, no others."""

    def __init__(
        self, logs: Callable[[], list[Log]], uncleanable: UncleanableLogs, clock: Clock
    ) -> None:
        self._logs = logs
        self._uncleanable = uncleanable
        self._clock = clock
        self._partitions: dict[TopicPartition, PartitionFigures] = {}
        self._exported: set[TopicPartition] = set()
        self._explained: dict[TopicPartition, UncleanableLog] = {}
        self._metrics: Metrics | None = None
        self._last: CleaningReport | None = None
        self._checked_at_ms = monotonic_ms(clock)
        self.dead_workers = 0

    # --- what happens ----------------------------------------------------------------------------

    def on_checked(self, dirty: DirtyLog, oldest_ms: int) -> None:
        """A log was looked at."""
        self._checked_at_ms = monotonic_ms(self._clock)
        key = (dirty.log.topic, dirty.log.index)
        before = self._partitions.get(key)
        cleaned_at_ms = NEVER_MS if before is None else before.cleaned_at_ms
        self._partitions[key] = PartitionFigures(
            100 * dirty.ratio, dirty.overdue_ms, oldest_ms, cleaned_at_ms
        )
        self._show(key)

    def on_cleaned(self, found: CompactedLog, report: CleaningReport) -> None:
        """A pass has ended well."""
        self._last = report
        self.dead_workers = 0
        before = self._partitions.get((found.topic, found.index))
        if before is not None:
            self._partitions[found.topic, found.index] = before._replace(
                dirty_percent=0.0, overdue_ms=0, cleaned_at_ms=self._clock.now_ms()
            )

    def keep_only(self, here: set[TopicPartition]) -> None:
        """Forget logs that are gone, or not compacted any more."""
        for key in self._partitions.keys() - here:
            del self._partitions[key]
            if key in self._exported and self._metrics is not None:
                self._exported.discard(key)
                self._metrics.forget(topic=key[0], partition=str(key[1]))

    def explain(self) -> None:
        """Marks have come or gone: say of each since when it stands, and why. A reason is a label:
        few partitions have one at a time."""
        metrics = self._metrics
        if metrics is None:
            return
        wanted = dict(list(self._uncleanable.marked.items())[:MOST_UNCLEANABLE])
        for key, one in self._explained.items():
            if wanted.get(key) != one:
                metrics.forget(**_reason_labels(key, one))
        for key, one in wanted.items():
            if self._explained.get(key) != one:
                metrics.gauge(
                    "LogCleanerManager", "UncleanableForMs",
                    partial(self._age_ms, one.since_ms), **_reason_labels(key, one),
                )  # fmt: skip
        self._explained = wanted

    # --- gauges ----------------------------------------------------------------------------------

    def register_metrics(self, metrics: Metrics, directories: tuple[str, ...]) -> None:
        """Register the gauges."""
        self._metrics = metrics
        metrics.gauge("LogCleaner", "max-buffer-utilization-percent", self._buffer_percent)
        metrics.gauge("LogCleaner", "cleaner-recopy-percent", self._recopy_percent)
        metrics.gauge("LogCleaner", "max-clean-time-secs", self._clean_time_s)
        metrics.gauge("LogCleaner", "max-compaction-delay-secs", self._delay_s)
        metrics.gauge("LogCleaner", "DeadThreadCount", lambda: self.dead_workers)
        metrics.gauge("LogCleanerManager", "max-dirty-percent", self._dirty_percent)
        metrics.gauge("LogCleanerManager", "time-since-last-run-ms", self._since_last_run_ms)
        for one in directories:
            metrics.gauge(
                "LogCleanerManager", "uncleanable-partitions-count",
                partial(self._uncleanable_count, one), log_directory=one,
            )  # fmt: skip
            metrics.gauge(
                "LogCleanerManager", "uncleanable-bytes",
                partial(self._uncleanable_bytes, one), log_directory=one,
            )  # fmt: skip

    def _show(self, key: TopicPartition) -> None:
        metrics = self._metrics
        if metrics is None or key in self._exported or len(self._exported) >= MOST_PARTITIONS:
            return
        self._exported.add(key)
        labels = {"topic": key[0], "partition": str(key[1])}
        metrics.gauge(
            "LogCleanerManager", "DirtyPercent", lambda: self._of(key).dirty_percent, **labels
        )
        metrics.gauge(
            "LogCleanerManager", "OldestDirtyRecordAgeMs",
            lambda: self._age_ms(self._of(key).oldest_ms), **labels,
        )  # fmt: skip
        metrics.gauge(
            "LogCleanerManager", "LastCleanAgeMs",
            lambda: self._age_ms(self._of(key).cleaned_at_ms), **labels,
        )  # fmt: skip
        metrics.gauge(
            "LogCleanerManager", "Uncleanable",
            lambda: int(self._uncleanable.is_marked(key)), **labels,
        )  # fmt: skip

    def _of(self, key: TopicPartition) -> PartitionFigures:
        return self._partitions.get(key, PartitionFigures(0.0, 0, NEVER_MS, NEVER_MS))

    def _age_ms(self, at_ms: int) -> int:
        return max(self._clock.now_ms() - at_ms, 0) if at_ms >= 0 else NEVER_MS

    def _buffer_percent(self) -> float:
        if self._last is None or not self._last.result.max_keys:
            return 0.0
        return 100 * self._last.result.keys / self._last.result.max_keys

    def _recopy_percent(self) -> float:
        totals = CleaningTotals() if self._last is None else self._last.totals
        return 100 * totals.bytes_kept / totals.bytes_read if totals.bytes_read else 0.0

    def _clean_time_s(self) -> float:
        return 0.0 if self._last is None else self._last.took_s

    def _delay_s(self) -> float:
        return max((one.overdue_ms for one in self._partitions.values()), default=0) / 1000

    def _dirty_percent(self) -> float:
        return max((one.dirty_percent for one in self._partitions.values()), default=0.0)

    def _since_last_run_ms(self) -> int:
        return monotonic_ms(self._clock) - self._checked_at_ms

    def _uncleanable_count(self, directory: str) -> int:
        return len(self._uncleanable.of_directory(self._logs(), directory))

    def _uncleanable_bytes(self, directory: str) -> int:
        logs = self._uncleanable.of_directory(self._logs(), directory)
        return sum(partition.size_bytes for partition in logs)


def _reason_labels(key: TopicPartition, one: UncleanableLog) -> dict[str, str]:
    topic, partition = key
    place = {"topic": topic, "partition": str(partition)}
    return place | {"fault": one.fault.value, "reason": one.short_reason}
