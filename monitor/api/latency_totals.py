"""Exact percentiles of a long span without reading a day of histograms each time.

In: a reader, a span, a scope. Out: per kind p50, p95, p99 and count. Never: a guess from
percentiles of
minutes. Cells lie by minute of storing, so an hour that is over does not change any more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from ingest.store.port import RecordReader
from monitor.api.series import latency_histograms, percentiles_of
from monitor.latency.histogram import Buckets, merge

HOUR_MS = 3_600_000
SETTLE_MS = 600_000  # a writer that was held up may still commit into the hour before
MAX_HOURS = 2000  # some KiB each: a week of everything and of a few districts and devices

Histograms = dict[str, Buckets]  # by kind
_Key = tuple[int, str, str]


class LatencyTotals:
    """Shared by all threads that hold a reader."""

    def __init__(self) -> None:
        self._hours: OrderedDict[_Key, Histograms] = OrderedDict()
        self._lock = threading.Lock()

    def ask(
        self, reader: RecordReader, *, from_ms: int, until_ms: int, scope: str, scope_id: str,
        now_ms: int,
    ) -> dict[str, dict[str, int]]:  # fmt: skip
        """Blocks; belongs into a `ReaderPool`."""
        parts: list[Histograms] = []
        start = from_ms
        while start < min(until_ms, now_ms + HOUR_MS):
            end = min(until_ms, start - start % HOUR_MS + HOUR_MS)
            parts.append(self._part(reader, start, end, scope, scope_id, now_ms))
            start = end
        kinds = sorted({kind for part in parts for kind in part})
        return {kind: percentiles_of(merge(p.get(kind, {}) for p in parts)) for kind in kinds}

    def _part(
        self, reader: RecordReader, start: int, end: int, scope: str, scope_id: str, now_ms: int
    ) -> Histograms:
        whole = start % HOUR_MS == 0 and end - start == HOUR_MS
        key = (start, scope, scope_id)
        with self._lock:
            known = self._hours.get(key)
        if whole and known is not None:
            return known
        cells = reader.latency_cells(from_ms=start, until_ms=end)
        made = latency_histograms(cells, scope, scope_id)
        if whole and end + SETTLE_MS < now_ms:
            self._keep(key, made)
        return made

    def _keep(self, key: _Key, made: Histograms) -> None:
        with self._lock:
            self._hours[key] = made
            while len(self._hours) > MAX_HOURS:
                self._hours.popitem(last=False)
