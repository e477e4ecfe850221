"""Latency of a long span from the devices' histograms, without reading a day of them each time.

Percentiles of the whole are exact, not derived from percentiles of minutes. Cells lie by minute of
storing, so an hour that is over does not change any more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from ingest.store.port import RecordReader
from monitor.api.series import (
    Curve,
    latency_curves,
    latency_histograms,
    of_scope,
    percentiles_of,
)
from monitor.models.clock_faults import Device, sound_cells
from monitor.models.histogram import Buckets, merge

HOUR_MS = 3_600_000
SETTLE_MS = 600_000  # a writer that was held up may still commit into the hour before
MAX_HOURS = 2000  # some KiB each: a week of everything and of a few districts and devices

_Key = tuple[int, str, str]


@dataclass(frozen=True)
class LatencyOfSpan:
    """Per kind; what a wrong clock made is in `clock_off` alone."""

    curves: dict[str, Curve]
    totals: dict[str, dict[str, int]]
    clock_off: dict[Device, Buckets]


@dataclass(frozen=True)
class _Hour:
    """An hour or a part of one."""

    curves: dict[str, Curve]
    histograms: dict[str, Buckets]
    clock_off: dict[Device, Buckets]


class LatencyTotals:
    """Shared by all threads that hold a reader."""

    def __init__(self) -> None:
        self._hours: OrderedDict[_Key, _Hour] = OrderedDict()
        self._lock = threading.Lock()

    def query(
        self, reader: RecordReader, *, from_ms: int, until_ms: int, scope: str, scope_id: str,
        now_ms: int,
    ) -> LatencyOfSpan:  # fmt: skip
        """Blocks; belongs into a `ReaderPool`."""
        parts: list[_Hour] = []
        start = from_ms
        while start < min(until_ms, now_ms + HOUR_MS):
            end = min(until_ms, start - start % HOUR_MS + HOUR_MS)
            parts.append(self._part(reader, start, end, scope, scope_id, now_ms))
            start = end
        kinds = sorted({kind for part in parts for kind in part.histograms})
        devices = {device for part in parts for device in part.clock_off}
        return LatencyOfSpan(
            curves={k: [p for part in parts for p in part.curves.get(k, [])] for k in kinds},
            totals={
                k: percentiles_of(merge(part.histograms.get(k, {}) for part in parts))
                for k in kinds
            },
            clock_off={d: merge(part.clock_off.get(d, {}) for part in parts) for d in devices},
        )

    def _part(
        self, reader: RecordReader, start: int, end: int, scope: str, scope_id: str, now_ms: int
    ) -> _Hour:
        whole = start % HOUR_MS == 0 and end - start == HOUR_MS
        key = (start, scope, scope_id)
        with self._lock:
            known = self._hours.get(key)
        if whole and known is not None:
            return known
        cells = of_scope(reader.latency_cells(from_ms=start, until_ms=end), scope, scope_id)
        sound, clock_off = sound_cells(cells)
        made = _Hour(latency_curves(sound), latency_histograms(sound), clock_off)
        if whole and end + SETTLE_MS < now_ms:
            self._keep(key, made)
        return made

    def _keep(self, key: _Key, made: _Hour) -> None:
        with self._lock:
            self._hours[key] = made
            while len(self._hours) > MAX_HOURS:
                self._hours.popitem(last=False)
