"""How long ago records were captured, by kind, as the pages of several processes show it.

In: milliseconds since the capture, and how many records. Out: a histogram for Prometheus. Never: a
kind that is not ours, which would be a series for each word that a stranger writes. A capture in
the future, by a clock that is ahead, counts as 0 s: a sum that falls looks like a restart.
"""

from __future__ import annotations

from bisect import bisect_left

from prometheus_client import CollectorRegistry, Histogram

from bus.domain.kinds import KIND_AS_STORED

BUCKETS_S = (
    0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 3600,
)  # fmt: skip
OTHER = "other"


def known_kind(kind: str) -> str:
    """A kind as the label of a series."""
    return kind if kind in KIND_AS_STORED else OTHER


class CaptureHistogram:
    """One series for each kind."""

    def __init__(self, name: str, text: str, registry: CollectorRegistry) -> None:
        self._histogram = Histogram(name, text, ["kind"], registry=registry, buckets=BUCKETS_S)

    def count(self, kind: str, elapsed_ms: int, records: int = 1) -> None:
        """So many records of a kind; many cost as much as one, for a catch-up has fifty thousand in
        a batch, which is why `Histogram.observe` is not called."""
        histogram = self._histogram.labels(known_kind(kind))
        elapsed_s = max(0, elapsed_ms) / 1000
        histogram._sum.inc(elapsed_s * records)
        histogram._buckets[bisect_left(BUCKETS_S, elapsed_s)].inc(records)
