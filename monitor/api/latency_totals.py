"""Latency of a span, of everything, a district or a device, from the sums of the store.

Percentiles of the whole are exact, not derived from percentiles of minutes. Sums lie by minute of
storing, so an hour that is over does not change any more: its curve by minute is made once.
What a wrong clock made is told apart (`monitor.models.clock_faults`).
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from bus.contracts.meters import LatencyCell
from bus.contracts.register import Register
from bus.domain.times import HOUR_MS, MINUTE_MS
from ingest.store.port import RecordReader
from ingest.store.rollups import ALL, DISTRICT, ODD
from monitor.api.series import (
    Curve,
    latency_curves,
    latency_histograms,
    percentiles_of,
    slot_ms,
)
from monitor.models.clock_faults import Device, judged_odd, late_cells, sound_cells
from monitor.models.histogram import Buckets, merge

SETTLE_MS = 600_000  # a writer that was held up may still commit into the hour before
MAX_HOURS = 2000  # some KiB each: a week of everything and of a few districts and devices

_Key = tuple[int, str, str]
_Late = Set[tuple[Device, int]]


class LatencyScope(NamedTuple):
    """Whose latency: `all`, `district` or `device` and its name; of a device, the districts in
    which it may have been."""

    scope: str = "all"
    scope_id: str = ""
    districts: Sequence[str] = ()

    @property
    def district_id(self) -> str:
        """Empty for all of them."""
        return self.scope_id if self.scope == "district" else ""


def latency_scope(scope: str, scope_id: str, register: Register) -> LatencyScope:
    """With the district of a device by the register, and the one of records of nobody's place."""
    device = register.device_by_ip.get(scope_id) if scope == "device" else None
    district = register.district_of(device.checkpoint_id) if device else ""
    return LatencyScope(scope, scope_id, (district, "") if district else ("",))


@dataclass(frozen=True)
class LatencyOfSpan:
    """Per kind; what a wrong clock made is in `clock_off` alone."""

    step_ms: int
    curves: dict[str, Curve]
    totals: dict[str, dict[str, int]]
    clock_off: dict[Device, Buckets]


@dataclass(frozen=True)
class _Stretch:
    """A stretch of the span."""

    curves: dict[str, Curve]
    histograms: dict[str, Buckets]


class LatencyTotals:
    """Shared by all threads that hold a reader."""

    def __init__(self) -> None:
        self._hours: OrderedDict[_Key, _Stretch] = OrderedDict()
        self._lock = threading.Lock()

    def query(
        self, reader: RecordReader, *, from_ms: int, until_ms: int, whose: LatencyScope, now_ms: int
    ) -> LatencyOfSpan:
        """Blocks; belongs into a `ReaderPool`."""
        until_ms = max(from_ms, min(until_ms, now_ms + HOUR_MS))
        step_ms = slot_ms(from_ms, until_ms)
        if whose.scope == "device":
            return _of_device(reader, from_ms, until_ms, whose, step_ms)
        first_ms = from_ms - from_ms % HOUR_MS
        odd = reader.latency_sums(
            step_ms=HOUR_MS, from_ms=first_ms, until_ms=until_ms, scope=ODD,
            district_id=whose.district_id,
        )  # fmt: skip
        clock_off, late = judged_odd(odd)
        if step_ms != MINUTE_MS:
            span = (from_ms - from_ms % step_ms, until_ms)
            return _joined([_part(reader, step_ms, *span, whose, late)], step_ms, clock_off)
        parts = []
        for start_ms in range(first_ms, until_ms, HOUR_MS):
            span = (max(from_ms, start_ms), min(until_ms, start_ms + HOUR_MS))
            parts.append(self._hour(reader, *span, whose, late, now_ms))
        return _joined(parts, step_ms, clock_off)

    def _hour(
        self, reader: RecordReader, start_ms: int, end_ms: int, whose: LatencyScope, late: _Late,
        now_ms: int,
    ) -> _Stretch:  # fmt: skip
        whole = start_ms % HOUR_MS == 0 and end_ms - start_ms == HOUR_MS
        key = (start_ms, whose.scope, whose.scope_id)
        with self._lock:
            known = self._hours.get(key)
        if whole and known is not None:
            return known
        made = _part(reader, MINUTE_MS, start_ms, end_ms, whose, late)
        if whole and end_ms + SETTLE_MS < now_ms:
            self._keep(key, made)
        return made

    def _keep(self, key: _Key, made: _Stretch) -> None:
        with self._lock:
            self._hours[key] = made
            while len(self._hours) > MAX_HOURS:
                self._hours.popitem(last=False)


def _part(
    reader: RecordReader, step_ms: int, start_ms: int, end_ms: int, whose: LatencyScope, late: _Late
) -> _Stretch:
    def sums(scope: str) -> list[LatencyCell]:
        return reader.latency_sums(
            step_ms=step_ms, from_ms=start_ms, until_ms=end_ms, scope=scope,
            district_id=whose.district_id,
        )  # fmt: skip

    hour_ms = start_ms - start_ms % HOUR_MS
    cells = sums(DISTRICT if whose.district_id else ALL)
    if any(hour_ms <= of_ms < end_ms for _, of_ms in late):
        cells += late_cells(sums(ODD), late)
    return _Stretch(latency_curves(cells), latency_histograms(cells))


def _of_device(
    reader: RecordReader, from_ms: int, until_ms: int, whose: LatencyScope, step_ms: int
) -> LatencyOfSpan:
    cells = reader.device_latency(
        from_ms=from_ms, until_ms=until_ms, camera_ip=whose.scope_id, districts=whose.districts
    )
    hours: dict[int, list[LatencyCell]] = defaultdict(list)
    for cell in cells:
        hours[cell.minute_ms // HOUR_MS].append(cell)
    judged = [sound_cells(own) for _, own in sorted(hours.items())]
    sound = [
        replace(cell, minute_ms=cell.minute_ms - cell.minute_ms % step_ms)
        for own, _ in judged
        for cell in own
    ]
    off: dict[Device, Buckets] = {}
    for _, wrong in judged:
        for device, buckets in wrong.items():
            off[device] = merge([off.get(device, {}), buckets])
    return _joined([_Stretch(latency_curves(sound), latency_histograms(sound))], step_ms, off)


def _joined(
    parts: Sequence[_Stretch], step_ms: int, clock_off: dict[Device, Buckets]
) -> LatencyOfSpan:
    kinds = sorted({kind for part in parts for kind in part.histograms})
    return LatencyOfSpan(
        step_ms=step_ms,
        curves={k: [p for part in parts for p in part.curves.get(k, [])] for k in kinds},
        totals={
            k: percentiles_of(merge(part.histograms.get(k, {}) for part in parts)) for k in kinds
        },
        clock_off=clock_off,
    )
