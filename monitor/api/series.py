"""Minutes to what a chart draws (pure): latency per class, sent against valid per slot, gaps per
device.

In: rows of the store. Out: plain dicts of a bounded number of points. Never: raw records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.register import Register
from bus.domain.times import MINUTE_MS
from monitor.api.views import place
from monitor.models.clock_faults import Device, clock_off_ms
from monitor.models.histogram import Buckets, merge, percentiles

MAX_POINTS = 1500  # of one curve: a day by minute, and about what a screen has pixels
SETTLED_MS = 2 * MINUTE_MS  # then what has arrived can be expected to be stored
JOINED_MS = 5 * MINUTE_MS  # a shorter stretch without records is no gap in a curve

Curve = list[list[int]]


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


def of_scope(cells: Iterable[LatencyCell], scope: str, scope_id: str) -> list[LatencyCell]:
    """The cells of everything, one district or one device."""
    if scope == "all":
        return list(cells)
    name = "district_id" if scope == "district" else "camera_ip"
    return [cell for cell in cells if getattr(cell, name) == scope_id]


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
    """The shortest slot of whole minutes that keeps a curve within `MAX_POINTS`."""
    minutes = max(1, -(-(until_ms - from_ms) // MINUTE_MS))
    for step in (1, 2, 5, 10, 15, 30, 60, 120, 360, 1440):
        if minutes <= step * MAX_POINTS:
            return step * MINUTE_MS
    return 1440 * MINUTE_MS


def quality_curve(cells: Iterable[QualityCell], slot: int) -> list[list[int]]:
    """[slot, sent, arrived, valid], ascending (Q-1)."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for cell in cells:
        into = sums[cell.minute_ms - cell.minute_ms % slot]
        into[0] += cell.sent
        into[1] += cell.arrived
        into[2] += cell.valid
    return [[start, *counts] for start, counts in sorted(sums.items())]


def quality_totals(cells: Sequence[QualityCell], now_ms: int) -> dict[str, Any]:
    """Sums over all cells, and the share of what was sent that became valid.

    `entered` is what edges took, or what came to the bus without one: it is valid, rejected, in
    flight (of slots younger than `SETTLED_MS`) or missing; what is valid is stored or a duplicate.
    """
    sent, valid = sum(c.sent for c in cells), sum(c.valid for c in cells)
    settled_ms = now_ms - SETTLED_MS
    return {
        "sent": sent,
        "entered": sum(max(c.accepted, c.arrived) for c in cells),
        "arrived": sum(c.arrived for c in cells),
        "in_flight": sum(c.missing for c in cells if c.minute_ms >= settled_ms),
        "missing": sum(c.missing for c in cells if c.minute_ms < settled_ms),
        "valid": valid,
        "stored": sum(c.stored for c in cells),
        "duplicates": sum(c.duplicates for c in cells),
        "partly_read": sum(c.partly_read for c in cells),
        "rejected": _reasons(cells),
        "valid_percent": valid_percent(sent, valid),
    }


def valid_percent(sent: int, valid: int) -> float | None:
    """None while it is not known what was sent. More valid than sent (a counter under way) is
    100.
    """
    return round(min(100.0, 100 * valid / sent), 2) if sent else None


def quality_devices(
    cells: Iterable[QualityCell], register: Register, now_ms: int
) -> list[dict[str, Any]]:
    """Per kind, device and server, the widest gap first, with its real place (Q-3)."""
    groups: dict[tuple[str, str, str], list[QualityCell]] = defaultdict(list)
    for cell in cells:
        groups[cell.kind, cell.camera_ip, cell.recognizer_ip].append(cell)
    rows = [_device(key, group, register, now_ms) for key, group in groups.items()]
    return sorted(rows, key=lambda r: (-r["gap"], r["camera_ip"], r["kind"]))


def _device(
    key: tuple[str, str, str], cells: list[QualityCell], register: Register, now_ms: int
) -> dict[str, Any]:
    kind, camera_ip, recognizer_ip = key
    device = register.device_by_ip.get(camera_ip)
    totals = quality_totals(cells, now_ms)
    return {
        "kind": kind,
        "camera_ip": camera_ip,
        "recognizer_ip": recognizer_ip,
        **place(device.checkpoint_id if device else "", register),
        **totals,
        "gap": max(0, totals["sent"] - totals["valid"]),
    }


def _reasons(cells: Iterable[QualityCell]) -> dict[str, int]:
    reasons: dict[str, int] = defaultdict(int)
    for cell in cells:
        for reason, count in cell.rejected.items():
            reasons[reason] += count
    return dict(sorted(reasons.items(), key=lambda item: -item[1]))
