"""How far each stage of the pipeline is, in records and seconds, and whether it moves. Pure.

In: positions, end and start offsets at a moment. Out: `Condition`s: standing still, backlog,
records lost to retention. Never: a client; a guess where positions or ends are unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from bus.client.model import TopicAndPartition
from monitor.watch.conditions import START_MS, Condition

MAX_SAMPLES = 720  # an hour at one in five seconds: what is further behind is "over an hour"

Offsets = Mapping[TopicAndPartition, int]


@dataclass(frozen=True, slots=True)
class ProgressBounds:
    """When a stage stands still, and from what backlog on it is told."""

    standing_ms: int = 30_000
    backlog_ms: int = 60_000
    backlog_records: int = 100_000


@dataclass(frozen=True, slots=True)
class StageOffsets:
    """Where one stage is. `positions` None: they could not be read."""

    stage: str
    role: str  # the process that does its work
    positions: Offsets | None
    ends: Offsets
    starts: Offsets


@dataclass(slots=True)
class StageProgress:
    """One stage. Invariant: `_times` and `_ends` are parallel, and both rise."""

    bounds: ProgressBounds
    _times: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _position: int | None = None

    def observe(
        self, found: StageOffsets, now_ms: int, *, is_process_away: bool
    ) -> list[Condition]:
        """The conditions of this stage now."""
        if found.positions is None or not found.ends:
            return self._conditions(found.stage, None, None, None, {})
        read = {tp: found.positions.get(tp, found.starts.get(tp, 0)) for tp in found.ends}
        lost = {
            tp: start - found.positions[tp]
            for tp, start in found.starts.items()
            if tp in found.positions and found.positions[tp] < start
        }
        records = sum(max(0, end - read[tp]) for tp, end in found.ends.items())
        position = sum(read.values())
        behind_ms = self._behind_ms(position, sum(found.ends.values()), records, now_ms)
        has_moved = self._position is None or position != self._position
        self._position = position
        detail = {"stage": found.stage, "records": str(records), "behind_ms": str(behind_ms)}
        is_standing = records > 0 and not has_moved
        is_behind = behind_ms >= self.bounds.backlog_ms or records >= self.bounds.backlog_records
        # One fault, one incident: a dead process stands still, and what stands still falls behind.
        standing = None if is_process_away and is_standing else is_standing
        backlog = None if is_standing and is_behind else is_behind
        return self._conditions(found.stage, standing, backlog, lost, detail)

    def _conditions(
        self,
        stage: str,
        standing: bool | None,
        backlog: bool | None,
        lost: Offsets | None,
        detail: Mapping[str, str],
    ) -> list[Condition]:
        is_lost = None if lost is None else bool(lost)
        count = sum((lost or {}).values())
        topics = " ".join(sorted({topic for topic, _ in lost or {}}))
        told = {"stage": stage, "lost": str(count), "topics": topics}
        return [
            Condition("standing", stage, standing, self.bounds.standing_ms, detail,
                      start_ms=START_MS),
            Condition("backlog", stage, backlog, 0, detail, "warning"),
            Condition("lost", stage, is_lost, 0, told),
        ]  # fmt: skip

    def _behind_ms(self, position: int, end: int, records: int, now_ms: int) -> int:
        """How long ago the end stood where the position is; at least since the samples began."""
        if self._ends and end < self._ends[-1]:
            self._times.clear()  # topics made again: what was before says nothing
            self._ends.clear()
        self._times.append(now_ms)
        self._ends.append(end)
        del self._times[:-MAX_SAMPLES], self._ends[:-MAX_SAMPLES]
        if not records:
            return 0
        newest = bisect_right(self._ends, position) - 1
        return now_ms - self._times[max(0, newest)]
