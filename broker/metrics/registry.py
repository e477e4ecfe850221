"""What the broker counts: meters, gauges, histograms, and their text for Prometheus.

It needs no lock, no clock and no rates; Prometheus computes rates. Marking a meter adds to an
integer and nothing else, so that it can be done for every request.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from broker.metrics.catalogue import HELP
from broker.metrics.names import base_name
from bus.metrics.text import metrics_text

Labels = tuple[tuple[str, str], ...]
Key = tuple[str, str, Labels]
Kind = TypeVar("Kind")

QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
RESERVOIR = 1024
"""Newest values a histogram keeps for its quantiles, as many as Kafka's."""


class Meter:
    """A count that only grows."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, n: int = 1) -> None:
        """``n`` more have happened."""
        self.count += n


class Histogram:
    """Values with count, sum and quantiles over the newest ``RESERVOIR`` of them."""

    __slots__ = ("_values", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._values: list[float] = [0.0] * RESERVOIR

    def update(self, value: float) -> None:
        """One more value."""
        self._values[self.count % RESERVOIR] = value
        self.count += 1
        self.total += value

    def quantiles(self) -> list[tuple[float, float]]:
        """(quantile, value) over what is kept; zeros before the first value."""
        values = sorted(self._values[: min(self.count, RESERVOIR)]) or [0.0]
        return [(q, values[min(int(q * len(values)), len(values) - 1)]) for q in QUANTILES]


class _Family(Generic[Kind]):
    """All of one kind, by name and labels."""

    def __init__(self) -> None:
        self.by_key: dict[Key, Kind] = {}

    def forget(self, labels: set[tuple[str, str]]) -> None:
        """Drop all that carry these labels."""
        remaining = {key: one for key, one in self.by_key.items() if not labels <= set(key[2])}
        self.by_key = remaining

    def by_name(self) -> Iterator[tuple[str, list[tuple[Labels, Kind]]]]:
        """(translated name, [(labels, metric)]), both sorted."""
        grouped: dict[str, list[tuple[Labels, Kind]]] = {}
        for (kind, name, labels), metric in self.by_key.items():
            insort(
                grouped.setdefault(base_name(kind, name), []), (labels, metric), key=lambda p: p[0]
            )
        yield from sorted(grouped.items())


class Metrics(Collector):
    """The metrics of one broker."""

    def __init__(self) -> None:
        self._meters: _Family[Meter] = _Family()
        self._gauges: _Family[Callable[[], float]] = _Family()
        self._histograms: _Family[Histogram] = _Family()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def meter(self, type_: str, name: str, /, **labels: str) -> Meter:
        """The meter of that name and labels; created at the first call, to be kept by the
        caller."""
        return self._meters.by_key.setdefault(_key(type_, name, labels), Meter())

    def gauge(self, type_: str, name: str, read: Callable[[], float], /, **labels: str) -> None:
        """A value that is read when scraped; a second gauge of the name replaces the first."""
        self._gauges.by_key[_key(type_, name, labels)] = read

    def histogram(self, type_: str, name: str, /, **labels: str) -> Histogram:
        """The histogram of that name and labels; created at the first call."""
        return self._histograms.by_key.setdefault(_key(type_, name, labels), Histogram())

    def forget(self, **labels: str) -> None:
        """Drop every metric with all of these labels (a deleted topic's)."""
        wanted = set(labels.items())
        for family in (self._meters, self._gauges, self._histograms):
            family.forget(wanted)

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        return metrics_text(self._registry).decode()

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus_client."""
        for name, meters in self._meters.by_name():
            counter = Metric(name, HELP.get(name, name), "counter")
            for labels, meter in meters:
                counter.add_sample(f"{name}_total", dict(labels), meter.count)
            yield counter
        for name, gauges in self._gauges.by_name():
            gauge = Metric(name, HELP.get(name, name), "gauge")
            for labels, read in gauges:
                gauge.add_sample(name, dict(labels), read())
            yield gauge
        for name, histograms in self._histograms.by_name():
            summary = Metric(name, HELP.get(name, name), "summary")
            for labels, histogram in histograms:
                _add_summary(summary, name, dict(labels), histogram)
            yield summary


def _key(type_: str, name: str, labels: dict[str, str]) -> Key:
    base_name(type_, name)  # an unknown type is a programmer's error, raised at once
    return type_, name, tuple(sorted(labels.items()))


def _add_summary(
    summary: Metric, name: str, labels: dict[str, str], histogram: Histogram
) -> None:
    for quantile, value in histogram.quantiles():
        summary.add_sample(name, {**labels, "quantile": str(quantile)}, value)
    summary.add_sample(f"{name}_count", labels, histogram.count)
    summary.add_sample(f"{name}_sum", labels, histogram.total)
