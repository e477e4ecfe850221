"""Conditions that are bad for longer than their bound open an incident, and end it. Pure.

In: `Condition`s at every step, the clock. Out: `Incident`s, each once open and once closed.
Never: I/O; a change where an answer is missing.

    well  --bad for bound_ms without a break-->  open
    open  --good for CLOSE_MS without a break-->  well
    open  --bad, and now critical-->  closed, and open as critical: people are told again
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from bus.contracts.alarms import Incident, IncidentKind
from monitor.watch.watch_clock import WatchClock

CLOSE_MS = 10_000  # what comes and goes within seconds is one incident
CRITICAL = "critical"
UNWATCHED_MS = 600_000
"""An incident of an earlier process that nothing has asked about for so long is of a part that is
watched no longer: a broker that was taken out, an edge that was moved."""
START_MS = 120_000
"""For processes, as `Condition.start_ms`: the product starts beside the watch, and Spark needs a
minute on a busy machine."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One answer. `is_bad` None: it cannot be said now, and what was stays as it was."""

    kind: IncidentKind
    subject: str
    is_bad: bool | None
    bound_ms: int
    detail: Mapping[str, str] = field(default_factory=dict)
    severity: str = CRITICAL
    start_ms: int = 0  # the bound of what has not been good since the watch started


@dataclass(slots=True)
class _Course:
    """Invariant: `incident` is the open one; `bad_ms` and `good_ms` are when the run began."""

    bad_ms: int | None = None
    good_ms: int | None = None
    was_good: bool = False
    is_resumed: bool = False  # and no answer has come since
    detail: Mapping[str, str] = field(default_factory=dict)  # of the newest bad answer
    incident: Incident | None = None


class ConditionTracker:
    """All conditions, by kind and subject. Their number is that of parts, stages and disks."""

    def __init__(self, clock: WatchClock) -> None:
        self._clock = clock
        self._courses: dict[tuple[str, str], _Course] = {}

    def resume(self, incident: Incident) -> None:
        """Go on with an open incident of an earlier process."""
        subject = incident.detail.get("subject", "")
        self._courses[incident.kind, subject] = _Course(incident=incident, is_resumed=True)

    def note(self, conditions: Iterable[Condition]) -> None:
        """Answers between two steps: what has been good once has started."""
        for condition in conditions:
            if condition.is_bad is False:
                key = condition.kind, condition.subject
                self._courses.setdefault(key, _Course()).was_good = True

    def is_open(self, kind: str, subject: str) -> bool:
        """Whether this incident is open."""
        course = self._courses.get((kind, subject))
        return course is not None and course.incident is not None

    def open_incidents(self) -> list[Incident]:
        """All that are open."""
        return [c.incident for c in self._courses.values() if c.incident is not None]

    def observe(self, conditions: Iterable[Condition]) -> list[Incident]:
        """Every answer of this step; what has opened and ended by it."""
        return [change for condition in conditions for change in self._observe(condition)]

    def end_unwatched(self) -> list[Incident]:
        """Ends of what an earlier process left open and nothing asks about."""
        if self._clock.seen_ms < UNWATCHED_MS:
            return []
        ended = []
        for course in self._courses.values():
            if course.is_resumed and course.incident is not None:
                detail = course.incident.detail | {"reason": "unwatched"}
                closed_ms = max(self._clock.now_ms, course.incident.opened_at_ms)
                ended.append(
                    msgspec.structs.replace(
                        course.incident, state="closed", closed_at_ms=closed_ms, detail=detail
                    )
                )
                course.incident, course.is_resumed = None, False
        return ended

    def _observe(self, condition: Condition) -> list[Incident]:
        course = self._courses.setdefault((condition.kind, condition.subject), _Course())
        course.is_resumed = False
        if condition.is_bad is None:
            return []
        found = self._bad(course, condition) if condition.is_bad else [self._good(course)]
        return [incident for incident in found if incident is not None]

    def _bad(self, course: _Course, condition: Condition) -> list[Incident | None]:
        course.good_ms, course.detail = None, condition.detail
        if course.incident is None:
            return [self._opened(course, condition)]
        if condition.severity == CRITICAL and course.incident.severity != CRITICAL:
            return self._worse(course, course.incident, condition)
        return []

    def _worse(
        self, course: _Course, before: Incident, condition: Condition
    ) -> list[Incident | None]:
        """The end of what was bearable, and the beginning of what is not, at the same moment."""
        now_ms = max(self._clock.wall_ms(self._clock.seen_ms), before.opened_at_ms + 1)
        closed = msgspec.structs.replace(
            before, state="closed", closed_at_ms=now_ms, detail=before.detail | {"reason": "worse"}
        )
        course.bad_ms = self._clock.seen_ms
        course.incident = _incident(condition, now_ms, condition.bound_ms)
        return [closed, course.incident]

    def _opened(self, course: _Course, condition: Condition) -> Incident | None:
        now_ms = self._clock.seen_ms
        if course.bad_ms is None:
            course.bad_ms = now_ms
        bound_ms = condition.bound_ms
        if not course.was_good:
            bound_ms = max(bound_ms, condition.start_ms)
        if now_ms - course.bad_ms < bound_ms:
            return None
        opened_ms = self._clock.wall_ms(course.bad_ms)
        course.incident = _incident(condition, opened_ms, bound_ms)
        return course.incident

    def _good(self, course: _Course) -> Incident | None:
        now_ms = self._clock.seen_ms
        course.bad_ms, course.was_good = None, True
        if course.incident is None:
            return None
        if course.good_ms is None:
            course.good_ms = now_ms
        if now_ms - course.good_ms < CLOSE_MS:
            return None
        closed_ms = max(self._clock.wall_ms(course.good_ms), course.incident.opened_at_ms)
        closed = msgspec.structs.replace(
            course.incident, state="closed", closed_at_ms=closed_ms,
            detail=course.incident.detail | dict(course.detail),
        )  # fmt: skip
        course.incident, course.good_ms = None, None
        return closed


def _incident(condition: Condition, opened_ms: int, bound_ms: int) -> Incident:
    return Incident(
        incident_id=f"{condition.kind}:{condition.subject}:{opened_ms}",
        kind=condition.kind,
        state="open",
        opened_at_ms=opened_ms,
        severity=condition.severity,
        detail={"subject": condition.subject, "bound_ms": str(bound_ms), **condition.detail},
    )
