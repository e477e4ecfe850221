"""Minutes to what a chart draws (pure): latency per class, sent against valid per slot, gaps per
device.

In: rows of the store. Out: plain dicts of a bounded number of points. Never: raw records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from bus.contracts.meters import LatencyCell, QualityCell
from bus.contracts.register import Register
from ingest.store.port import LatencySummary
from monitor.api.views import place
from monitor.latency.histogram import Buckets, merge, percentiles

MINUTE_MS = 60_000
MAX_POINTS = 1500  # of one curve: a day by minute, and about what a screen has pixels


def latency_curves(summaries: Iterable[LatencySummary]) -> dict[str, list[list[int]]]:
    """Per kind: [minute, p50, p95, p99, count], ascending."""
    curves: dict[str, list[list[int]]] = defaultdict(list)
    for s in sorted(summaries, key=lambda s: s.minute_ms):
        curves[s.kind].append([s.minute_ms, s.p50_ms, s.p95_ms, s.p99_ms, s.count])
    return dict(curves)


def latency_histograms(
    cells: Iterable[LatencyCell], scope: str = "all", scope_id: str = ""
) -> dict[str, Buckets]:
    """Per kind the histogram of the scope's cells together."""
    parts: dict[str, list[Buckets]] = defaultdict(list)
    for cell in cells:
        place = {"all": scope_id, "district": cell.district_id, "device": cell.camera_ip}[scope]
        if place == scope_id:
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


def quality_totals(cells: Sequence[QualityCell]) -> dict[str, Any]:
    """Sums over all cells, and the share of what was sent that became valid."""
    sent, valid = sum(c.sent for c in cells), sum(c.valid for c in cells)
    return {
        "sent": sent,
        "arrived": sum(c.arrived for c in cells),
        "valid": valid,
        "partly_read": sum(c.partly_read for c in cells),
        "rejected": _reasons(cells),
        "valid_percent": valid_percent(sent, valid),
    }


def valid_percent(sent: int, valid: int) -> float | None:
    """None while nobody has said what was sent. More valid than sent (a counter under way) is
    100.
    """
    return round(min(100.0, 100 * valid / sent), 2) if sent else None


def quality_devices(cells: Iterable[QualityCell], register: Register) -> list[dict[str, Any]]:
    """Per kind, device and server, the widest gap first, with its real place (Q-3)."""
    groups: dict[tuple[str, str, str], list[QualityCell]] = defaultdict(list)
    for cell in cells:
        groups[cell.kind, cell.camera_ip, cell.recognizer_ip].append(cell)
    rows = [_device(key, group, register) for key, group in groups.items()]
    return sorted(rows, key=lambda r: (-r["gap"], r["camera_ip"], r["kind"]))


def _device(
    key: tuple[str, str, str], cells: list[QualityCell], register: Register
) -> dict[str, Any]:
    kind, camera_ip, recognizer_ip = key
    device = register.device_by_ip.get(camera_ip)
    totals = quality_totals(cells)
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
