"""From latency cells to percentiles per minute and to latency incidents.

In: `LatencyCell`s (whole cells, the highest attempt wins), a moment. Out: `LatencySummary`s,
`Incident`s.
Never: a clock, I/O, a store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from bus.contracts.alarms import Incident
from bus.contracts.meters import LatencyCell
from bus.domain.times import MINUTE_MS, minute_of
from monitor.models.cell_window import KEEP_MINUTES, CellWindow
from monitor.models.histogram import Buckets, merge, percentiles
from monitor.models.hysteresis import Hysteresis, HysteresisTracker, IncidentChange

Scope = Literal["all", "district", "device"]


class LatencySummary(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of one minute for one scope: everything, one district or one device.
    Milliseconds."""

    kind: str
    scope: Scope
    scope_id: str
    minute_ms: int
    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    max_ms: int


QUANTILES = (0.5, 0.95, 0.99, 1.0)


def latency_window(keep_minutes: int = KEEP_MINUTES) -> CellWindow[LatencyCell]:
    """The cells of the last minutes, by kind, district and camera."""
    return CellWindow(lambda cell: (cell.kind, cell.district_id, cell.camera_ip), keep_minutes)


def summaries(cells: Iterable[LatencyCell]) -> list[LatencySummary]:
    """Percentiles of every minute for all, each district and each device."""
    groups: dict[tuple[int, str, Scope, str], list[Buckets]] = defaultdict(list)
    for cell in cells:
        groups[cell.minute_ms, cell.kind, "all", ""].append(cell.buckets)
        groups[cell.minute_ms, cell.kind, "district", cell.district_id].append(cell.buckets)
        groups[cell.minute_ms, cell.kind, "device", cell.camera_ip].append(cell.buckets)
    return [summary(*group, merge(parts)) for group, parts in groups.items()]


def summary(
    minute_ms: int, kind: str, scope: Scope, scope_id: str, buckets: Buckets
) -> LatencySummary:
    """The percentiles of one histogram."""
    p50_ms, p95_ms, p99_ms, max_ms = percentiles(buckets, QUANTILES)
    return LatencySummary(
        kind=kind,
        scope=scope,
        scope_id=scope_id,
        minute_ms=minute_ms,
        count=_count(buckets),
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        max_ms=max_ms,
    )


def _count(buckets: Buckets) -> int:
    return sum(buckets.values())


Subject = tuple[str, str, str]  # kind, scope, scope_id


@dataclass(slots=True)
class LatencyIncidents:
    """Reports once when a class or district is late, and once when it is well again (L-3).

    Only whole minutes are judged. A minute without records is good: nothing was late in it.
    """

    rule: Hysteresis
    min_count: int = 20  # a minute of fewer records says nothing about a district
    tracker: HysteresisTracker[Subject] = field(init=False)
    judged_until_ms: int = 0

    def __post_init__(self) -> None:
        self.tracker = HysteresisTracker(self.rule)

    def resume(self, incident: Incident) -> None:
        """Go on with an open incident of an earlier process."""
        detail = incident.detail
        subject = (detail.get("class", ""), detail.get("scope", ""), incident.district_id)
        self.tracker.resume(subject, incident.opened_at_ms)

    def judge(self, summaries: Sequence[LatencySummary], until_ms: int) -> list[Incident]:
        """Judge every whole minute up to there (exclusive) not judged yet, given the summaries of
        (at least) these minutes.
        """
        whole_ms = minute_of(until_ms)
        by_minute: dict[int, dict[Subject, LatencySummary]] = defaultdict(dict)
        for one in summaries:
            if one.scope != "device" and self.judged_until_ms <= one.minute_ms < whole_ms:
                by_minute[one.minute_ms][one.kind, one.scope, one.scope_id] = one
        changes: list[Incident] = []
        for minute_ms in sorted(self._minutes(by_minute, whole_ms)):
            changes += self._judge_minute(minute_ms, by_minute.get(minute_ms, {}))
        self.judged_until_ms = max(self.judged_until_ms, whole_ms)
        return changes

    def _minutes(
        self, by_minute: dict[int, dict[Subject, LatencySummary]], whole_ms: int
    ) -> set[int]:
        last_ms = whole_ms - MINUTE_MS
        return set(by_minute) | ({last_ms} if self.judged_until_ms <= last_ms else set())

    def _judge_minute(self, minute_ms: int, found: dict[Subject, LatencySummary]) -> list[Incident]:
        subjects = set(found) | set(self.tracker.open_subjects())
        changes = []
        for subject in sorted(subjects):
            one = found.get(subject)
            level = one.p95_ms if one and one.count >= self.min_count else 0
            change = self.tracker.observe(subject, minute_ms, level)
            if change:
                changes.append(_incident(change))
        return changes


def _incident(change: IncidentChange[Subject]) -> Incident:
    kind, scope, scope_id = change.subject
    return Incident(
        incident_id=f"latency:{kind}:{scope}:{scope_id}:{change.opened_at_ms}",
        kind="latency",
        state="open" if change.opened else "closed",
        opened_at_ms=change.opened_at_ms,
        closed_at_ms=0 if change.opened else change.at_ms + MINUTE_MS,
        district_id=scope_id if scope == "district" else "",
        detail={"class": kind, "scope": scope, "p95_ms": str(int(change.level))},
    )
