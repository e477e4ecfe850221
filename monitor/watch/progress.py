"""How far each stage of the pipeline is, in records and seconds, and whether it moves. Pure.

In: positions, end and start offsets at a moment. Out: `Condition`s: standing still, backlog; what
is lost to retention. Never: a client; a guess where positions or ends are unknown.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bus.client.model import TopicAndPartition
from monitor.watch.conditions import START_MS, Condition
from monitor.watch.losses import StageLoss

MAX_SAMPLES = 720  # an hour at one in five seconds: what is further behind is "over an hour"

MAX_STARTS = 3  # of a process that reads nothing in between: then it does not start, it stands

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
    positions: Offsets | None
    ends: Offsets
    starts: Offsets


@dataclass(slots=True)
class _PartitionCourse:
    """One partition. Invariant: `_times` and `_ends` are parallel, and both rise."""

    records: int = 0  # that wait
    behind_ms: int = 0
    stuck_ms: int = 0  # records have waited for so long and the position has not moved
    has_moved: bool = False  # or has been seen with nothing to do
    has_read: bool = False  # since its process was started, or had nothing to read
    _position: int = -1  # not known yet
    _stuck_since_ms: int = 0
    _times: array[int] = field(default_factory=lambda: array("q"))
    _ends: array[int] = field(default_factory=lambda: array("q"))

    def observe(self, position: int, end: int, now_ms: int) -> None:
        """Where it is now."""
        self.records = max(0, end - position)
        has_fallen = position < self._position  # the topic was made anew, and nothing of it is read
        if not self.records or (position != self._position and not has_fallen):
            self._stuck_since_ms = now_ms
            self.has_moved = self.has_moved or not self.records or self._position >= 0
        is_well = not self.records or self._position < position
        self.has_read = self.has_read or (self._position >= 0 and is_well)
        self._position = position
        self.stuck_ms = now_ms - self._stuck_since_ms
        self.behind_ms = self._behind_ms(end, now_ms)

    def begin_again(self) -> None:
        """What its process has committed before it died is no sign of the next one."""
        self.has_read = False
        self._position = -1

    def _behind_ms(self, end: int, now_ms: int) -> int:
        """How long ago the end stood where the position is; at least since the samples began."""
        if self._ends and end < self._ends[-1]:
            del self._times[:], self._ends[:]  # made again: what was before says nothing
        self._times.append(now_ms)
        self._ends.append(end)
        del self._times[:-MAX_SAMPLES], self._ends[:-MAX_SAMPLES]
        if not self.records:
            return 0
        newest = bisect_right(self._ends, self._position) - 1
        return now_ms - self._times[max(0, newest)]


@dataclass(slots=True)
class StageProgress:
    """One stage. It stands as soon as one of its partitions does: the worst of them is told.

    Invariant: `_courses` has the partitions of the newest answer.
    """

    bounds: ProgressBounds
    _courses: dict[TopicAndPartition, _PartitionCourse] = field(default_factory=dict)
    _has_moved: bool = False
    _starts_until_ms: int = 0
    _starts: int = 0  # of its process since it has read
    loss: StageLoss = field(default_factory=lambda: StageLoss(None))
    """What is gone before the position."""

    def process_started(self, now_ms: int) -> None:
        """Its process is another one, which may need as long as the first to read. One that is
        started again and again without reading anything has no more time for it."""
        has_read = any(one.has_read for one in self._courses.values())
        self._starts = 1 if has_read else self._starts + 1
        if self._starts <= MAX_STARTS:
            self._starts_until_ms = now_ms + START_MS
        for course in self._courses.values():
            course.begin_again()

    def observe(
        self, found: StageOffsets, now_ms: int, *, is_process_away: bool
    ) -> list[Condition]:
        """The conditions of this stage now; `loss` says what it has lost."""
        self.loss = StageLoss(None)
        if found.positions is None or not found.ends:
            return self._conditions(found.stage, None, None, {})
        self._courses = {
            tp: self._courses.get(tp) or _PartitionCourse(_stuck_since_ms=now_ms)
            for tp in found.ends
        }
        for tp, end in found.ends.items():
            position = found.positions.get(tp, found.starts.get(tp, 0))
            self._courses[tp].observe(position, end, now_ms)
        stuck = {tp: one for tp, one in self._courses.items() if one.stuck_ms}
        moving = [one for tp, one in self._courses.items() if tp not in stuck]
        self._has_moved = self._has_moved or any(one.has_moved for one in moving)
        lost = {
            tp: start - found.positions[tp]
            for tp, start in found.starts.items()
            if tp in found.positions and found.positions[tp] < start
        }
        standing = self._standing(stuck)
        has_read = any(one.has_read for one in self._courses.values())
        if standing and not has_read and now_ms < self._starts_until_ms:
            standing = None
        backlog = self._is_behind(moving) or (None if self._is_behind(stuck.values()) else False)
        # One fault, one incident: a dead process stands still, and what stands still falls behind.
        if is_process_away and stuck:
            standing = None
        # What a stage meets that reads, it tells by itself: `spark_apps.source.lost_records`.
        is_lost = (True if is_process_away or lost.keys() & stuck else None) if lost else False
        self.loss = StageLoss(is_lost, lost)
        return self._conditions(found.stage, standing, backlog, self._detail(found))

    def _standing(self, stuck: Mapping[TopicAndPartition, _PartitionCourse]) -> bool | None:
        """None: it has not been seen to move, and may be about to."""
        if any(one.stuck_ms >= self.bounds.standing_ms for one in stuck.values()):
            return True
        return False if self._has_moved else None

    def _is_behind(self, courses: Iterable[_PartitionCourse]) -> bool:
        known = list(courses)
        return (
            max((one.behind_ms for one in known), default=0) >= self.bounds.backlog_ms
            or sum(one.records for one in known) >= self.bounds.backlog_records
        )

    def _detail(self, found: StageOffsets) -> dict[str, str]:
        """All that waits, and the partition that has waited longest."""
        worst, course = max(
            self._courses.items(), key=lambda one: (one[1].stuck_ms, one[1].behind_ms)
        )
        records = sum(one.records for one in self._courses.values())
        behind_ms = max(one.behind_ms for one in self._courses.values())
        detail = {"stage": found.stage, "records": str(records), "behind_ms": str(behind_ms)}
        if records != course.records:
            detail["partition"] = f"{worst[0]}-{worst[1]} ({course.records})"
        return detail

    def _conditions(
        self,
        stage: str,
        standing: bool | None,
        backlog: bool | None,
        detail: Mapping[str, str],
    ) -> list[Condition]:
        bound_ms = self.bounds.standing_ms
        return [
            # The bound is each partition's own: here it has passed.
            Condition("standing", stage, standing, 0, {**detail, "bound_ms": str(bound_ms)},
                      start_ms=START_MS - bound_ms),
            Condition("backlog", stage, backlog, 0, detail, "warning"),
        ]  # fmt: skip
