"""Sums to what a chart draws (pure): latency per class, sent against valid per slot, gaps per
device.

In: rows of the store. Out: plain dicts of a bounded number of points. Never: raw records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.register import Register
from bus.domain.times import DAY_MS, MINUTE_MS
from ingest.store.port import QualityDevices, QualitySum
from ingest.store.rollups import STEPS
from monitor.api.views import place
from monitor.models.clock_faults import Device, clock_off_ms
from monitor.models.histogram import Buckets, merge, percentiles

MAX_POINTS = 1500  # of one curve: a day by minute, and about what a screen has pixels
SETTLED_MS = 2 * MINUTE_MS  # then what has arrived can be expected to be stored
JOINED_MS = 5 * MINUTE_MS  # a shorter stretch without records is no gap in a curve

MAX_DEVICE_STEPS = 61  # of ten thousand devices at most: each is summed up for one answer

Curve = list[list[int]]
DeviceKey = tuple[str, str, str]  # kind, camera, server
CURVE_COLUMNS = (
    "slot_ms", "sent", "arrived", "valid", "accepted", "rejected", "stored", "duplicates",
    "missing", "in_flight",
)  # fmt: skip


def latency_curves(cells: Iterable[LatencyCell]) -> dict[str, Curve]:
    """Per kind: [minute, p50, p95, p99, count], ascending; latencies in milliseconds."""
    minutes: dict[str, dict[int, list[Buckets]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        minutes[cell.kind][cell.minute_ms].append(cell.buckets)
    return {
        kind: [_point(minute_ms, merge(parts)) for minute_ms, parts in sorted(of_kind.items())]
        for kind, of_kind in minutes.items()
    }


def _point(minute_ms: int, buckets: Buckets) -> list[int]:
    return [minute_ms, *percentiles(buckets, (0.5, 0.95, 0.99)), sum(buckets.values())]


def clock_rows(off: Mapping[Device, Buckets], register: Register) -> list[dict[str, Any]]:
    """Devices whose clock is off, the worst first: by how many milliseconds (positive: ahead), in
    how many records, with their place."""
    rows = []
    for (kind, camera_ip), buckets in off.items():
        device = register.device_by_ip.get(camera_ip)
        rows.append(
            {
                "kind": kind,
                "camera_ip": camera_ip,
                **place(device.checkpoint_id if device else "", register),
                "clock_off_ms": clock_off_ms(buckets),
                "count": sum(buckets.values()),
            }
        )
    return sorted(rows, key=lambda row: (-abs(row["clock_off_ms"]), row["camera_ip"], row["kind"]))


def with_gaps(points: Sequence[Sequence[int]], step_ms: int) -> list[list[int | None]]:
    """The points of a curve, ending where a stretch without any begins.

    Each point counts for `step_ms`; up to `JOINED_MS` without one a curve goes on. Before a longer
    stretch, and at the end, the last point is drawn to the end of its step, so that a point alone
    is seen; then the curve is interrupted by a point of None.
    """
    drawn: list[list[int | None]] = []
    for at, point in enumerate(points):
        drawn.append(list(point))
        following_ms = points[at + 1][0] if at + 1 < len(points) else None
        if following_ms is None or following_ms - point[0] > max(step_ms, JOINED_MS):
            end_ms = point[0] + step_ms
            drawn.append([end_ms, *point[1:]])
            if following_ms is not None:
                drawn.append([end_ms, *(None for _ in point[1:])])
    return drawn


def latency_histograms(cells: Iterable[LatencyCell]) -> dict[str, Buckets]:
    """Per kind the histogram of all cells together."""
    parts: dict[str, list[Buckets]] = defaultdict(list)
    for cell in cells:
        parts[cell.kind].append(cell.buckets)
    return {kind: merge(buckets) for kind, buckets in parts.items()}


def percentiles_of(buckets: Buckets) -> dict[str, int]:
    """What is shown of one histogram."""
    p50, p95, p99 = percentiles(buckets, (0.5, 0.95, 0.99))
    return {"p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "count": sum(buckets.values())}


def slot_ms(from_ms: int, until_ms: int) -> int:
    """The step of the sums that keeps a curve within `MAX_POINTS`."""
    fitting = (step_ms for step_ms in STEPS if until_ms - from_ms <= step_ms * MAX_POINTS)
    return next(fitting, DAY_MS)


def device_step_ms(from_ms: int, until_ms: int) -> int:
    """The step of the sums of which a table of all devices is made: each device has a few dozen in
    the span, and the span begins with one of them."""
    fitting = (step for step in STEPS if until_ms - from_ms <= step * MAX_DEVICE_STEPS)
    return next(fitting, DAY_MS)


def quality_curve(
    sums: Iterable[QualitySum], in_flight: Mapping[int, int] | None = None
) -> list[list[int]]:
    """`CURVE_COLUMNS`, ascending (Q-1). `in_flight`: by slot, what of the missing records was taken
    just now."""
    slots: dict[int, list[int]] = {}
    for one in sums:
        into = slots.setdefault(one.start_ms, [0] * (len(CURVE_COLUMNS) - 1))
        numbers = (
            one.sent, one.arrived, one.valid, one.accepted, sum(one.rejected.values()), one.stored,
            one.duplicates, one.missing, 0,
        )  # fmt: skip
        for at, number in enumerate(numbers):
            into[at] += number
    for start_ms, counts in slots.items():
        counts[-1] = min(counts[-2], (in_flight or {}).get(start_ms, 0))
        counts[-2] -= counts[-1]
    return [[start, *counts] for start, counts in sorted(slots.items())]


def quality_totals(sums: Sequence[QualitySum], in_flight: int) -> dict[str, Any]:
    """Sums of sums, and the share of what was sent that became valid.

    `entered` is what edges took, or what came to the bus without one: it is valid, rejected, in
    flight (taken within `SETTLED_MS`) or missing; what is valid is stored or a duplicate. Each
    number is counted by itself: `disagree` says by how much the two sides of these equations
    differ.
    """
    sent, valid = sum(s.sent for s in sums), sum(s.valid for s in sums)
    missing, arrived = sum(s.missing for s in sums), sum(s.arrived for s in sums)
    stored, duplicates = sum(s.stored for s in sums), sum(s.duplicates for s in sums)
    rejected = _reasons(sums)
    in_flight = min(in_flight, missing)
    return {
        "sent": sent,
        "accepted": sum(s.accepted for s in sums),
        "entered": arrived + missing,
        "arrived": arrived,
        "in_flight": in_flight,
        "missing": missing - in_flight,
        "valid": valid,
        "stored": stored,
        "duplicates": duplicates,
        "partly_read": sum(s.partly_read for s in sums),
        "rejected": rejected,
        "valid_percent": valid_percent(sent, valid),
        "disagree": {
            "arrived": arrived - valid - sum(rejected.values()),
            "valid": valid - stored - duplicates,
        },
    }


def in_flight_of_devices(missing: Iterable[QualityCell]) -> dict[DeviceKey, int]:
    """What edges have taken just now and nobody has found yet, by device."""
    found: dict[DeviceKey, int] = defaultdict(int)
    for cell in missing:
        found[cell.kind, cell.camera_ip, cell.recognizer_ip] += cell.missing
    return found


def in_flight_of_slots(missing: Iterable[QualityCell], slot: int) -> dict[int, int]:
    """The same by slot."""
    found: dict[int, int] = defaultdict(int)
    for cell in missing:
        found[cell.minute_ms - cell.minute_ms % slot] += cell.missing
    return found


def valid_percent(sent: int, valid: int) -> float | None:
    """None while it is not known what was sent. More valid than sent (a counter under way) is
    100.
    """
    return round(min(100.0, 100 * valid / sent), 2) if sent else None


def quality_devices(
    found: QualityDevices, in_flight: Mapping[DeviceKey, int], register: Register
) -> list[dict[str, Any]]:
    """Per kind, device and server, the widest gap first, with its real place (Q-3)."""
    return [_device(one, in_flight, register) for one in found.widest]


def _device(
    one: QualitySum, in_flight: Mapping[DeviceKey, int], register: Register
) -> dict[str, Any]:
    device = register.device_by_ip.get(one.camera_ip)
    just_now = in_flight.get((one.kind, one.camera_ip, one.recognizer_ip), 0)
    totals = quality_totals([one], just_now)
    return {
        "kind": one.kind,
        "camera_ip": one.camera_ip,
        "recognizer_ip": one.recognizer_ip,
        **place(device.checkpoint_id if device else "", register),
        **totals,
        "gap": max(0, totals["sent"] - totals["valid"]),
    }


def _reasons(cells: Iterable[QualitySum]) -> dict[str, int]:
    reasons: dict[str, int] = defaultdict(int)
    for cell in cells:
        for reason, count in cell.rejected.items():
            reasons[reason] += count
    return dict(sorted(reasons.items(), key=lambda item: -item[1]))
