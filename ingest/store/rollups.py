"""What the charts read: sums of cells over minutes, hours and days. Pure.

In: what a batch has changed in cells. Out: what that adds to the sums, by their keys.
Never: SQL, HBase, the question which minutes were summed up before.

The number of sums follows time and districts, not devices, but for those of the table of devices:
an hour and a day of each. Ten thousand devices in a week are a hundred million cells, but a curve
of the whole city over that week reads 168 sums of a kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import add
from typing import NamedTuple

from bus.contracts.meters import LatencyCell, QualityCell
from bus.domain.times import DAY_MS, HOUR_MS, MINUTE_MS

STEPS = (MINUTE_MS, HOUR_MS, DAY_MS)
"""Of a sum over all devices, or over a district. Whole multiples of UTC."""
DEVICE_STEPS = (HOUR_MS, DAY_MS)
"""Of a sum of one device and server: its minutes are the cells themselves."""

NUMBERS = ("sent", "accepted", "arrived", "valid", "partly_read", "stored", "duplicates", "missing")
"""Of a sum of quality cells, in the order in which they are kept."""

ALL, DISTRICT, ODD = "all", "district", "odd"
"""Whose latencies a sum holds. Odd ones, which only a wrong clock or a long outage explains, are in
no other sum, but apart for each device: whoever reads them judges which it was."""
EARLY_BUCKET, LATE_BUCKET = -192, 484
"""Latencies of buckets at or below the first (a second before the capture), or at or above the
second (about ten minutes), are odd. Buckets: `monitor.models.histogram`."""


class QualityKey(NamedTuple):
    """Of one device and server (which may both be unknown, and empty) or of all of them; of which
    step, beginning when."""

    is_device: bool
    step_ms: int
    start_ms: int
    kind: str
    camera_ip: str = ""
    recognizer_ip: str = ""


class LatencyKey(NamedTuple):
    """Whose latencies (`ALL`, `DISTRICT`, `ODD`), of which step, beginning when."""

    scope: str
    step_ms: int
    start_ms: int
    kind: str
    district_id: str = ""
    camera_ip: str = ""


class QualityChange(NamedTuple):
    """So much more in a cell: `NUMBERS` and the rejections by reason."""

    cell: QualityCell
    more: tuple[int, ...]
    rejected: Mapping[str, int]


class QualitySums(NamedTuple):
    """What is added to sums."""

    numbers: dict[QualityKey, Sequence[int]]
    rejected: dict[tuple[QualityKey, str], int]


def quality_change(after: QualityCell, more: QualityCell) -> QualityChange:
    """What a cell has grown by; what is missing in it may have become less."""
    before = max(0, after.accepted - more.accepted - (after.arrived - more.arrived))
    numbers = (
        more.sent, more.accepted, more.arrived, more.valid, more.partly_read, more.stored,
        more.duplicates, after.missing - before,
    )  # fmt: skip
    return QualityChange(after, numbers, more.rejected)


def whole_cell(cell: QualityCell) -> QualityChange:
    """All that a cell holds, for one that no sum has taken in."""
    return quality_change(cell, cell)


def quality_sums(changes: Iterable[QualityChange]) -> QualitySums:
    """What changes of cells add to the sums of all devices and of each."""
    sums = QualitySums({}, {})
    # Plain tuples first: a batch changes thousands of cells, and each is looked at once.
    minutes: dict[tuple[int, str], Sequence[int]] = {}
    devices: dict[tuple[int, str, str, str], Sequence[int]] = {}
    for cell, more, rejected in changes:
        start_ms, kind = cell.minute_ms, cell.kind
        minute = (start_ms - start_ms % MINUTE_MS, kind)
        device = (start_ms - start_ms % HOUR_MS, kind, cell.camera_ip, cell.recognizer_ip)
        minutes[minute] = _sum(minutes.get(minute), more)
        devices[device] = _sum(devices.get(device), more)
        for reason, count in rejected.items():
            for key in _keys_of(QualityKey(False, MINUTE_MS, *minute)):
                sums.rejected[key, reason] = sums.rejected.get((key, reason), 0) + count
            for key in _keys_of(QualityKey(True, HOUR_MS, *device)):
                sums.rejected[key, reason] = sums.rejected.get((key, reason), 0) + count
    for minute, numbers in minutes.items():
        for key in _keys_of(QualityKey(False, MINUTE_MS, *minute)):
            sums.numbers[key] = _sum(sums.numbers.get(key), numbers)
    for device, numbers in devices.items():
        for key in _keys_of(QualityKey(True, HOUR_MS, *device)):
            sums.numbers[key] = _sum(sums.numbers.get(key), numbers)
    return sums


def _keys_of(finest: QualityKey) -> list[QualityKey]:
    """Of the sums that the finest one is part of, itself among them."""
    _, _, start_ms, *about = finest
    steps = DEVICE_STEPS if finest.is_device else STEPS
    return [
        QualityKey(finest.is_device, step_ms, start_ms - start_ms % step_ms, *about)
        for step_ms in steps
    ]


def _sum(there: Sequence[int] | None, more: Sequence[int]) -> Sequence[int]:
    return more if there is None else tuple(map(add, there, more))


def latency_sums(more: Iterable[LatencyCell]) -> dict[LatencyKey, dict[int, int]]:
    """What more latencies of devices add to the sums; each latency is in one scope's sums only, or
    in those of all and of its district."""
    districts: dict[tuple[int, str, str], dict[int, int]] = {}
    sums: dict[LatencyKey, dict[int, int]] = {}
    for cell in more:
        minute_ms = cell.minute_ms - cell.minute_ms % MINUTE_MS
        into = districts.setdefault((minute_ms, cell.kind, cell.district_id), {})
        for bucket, count in cell.buckets.items():
            if EARLY_BUCKET < bucket < LATE_BUCKET:
                into[bucket] = into.get(bucket, 0) + count
            else:
                device = (cell.kind, cell.district_id, cell.camera_ip)
                _count(sums, ODD, minute_ms, device, {bucket: count})
    for (minute_ms, kind, district_id), buckets in districts.items():
        if buckets:
            _count(sums, ALL, minute_ms, (kind, "", ""), buckets)
            _count(sums, DISTRICT, minute_ms, (kind, district_id, ""), buckets)
    return sums


def _count(
    sums: dict[LatencyKey, dict[int, int]], scope: str, minute_ms: int,
    whose: tuple[str, str, str], buckets: Mapping[int, int],
) -> None:  # fmt: skip
    for step_ms in STEPS:
        key = LatencyKey(scope, step_ms, minute_ms - minute_ms % step_ms, *whose)
        there = sums.setdefault(key, {})
        for bucket, count in buckets.items():
            there[bucket] = there.get(bucket, 0) + count


def is_odd(bucket: int) -> bool:
    """Whether only a wrong clock or a long outage explains such a latency."""
    return bucket <= EARLY_BUCKET or bucket >= LATE_BUCKET

