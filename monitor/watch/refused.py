"""Requests that edges refuse, as their status tells: one condition for each reason and maker. Pure.

In: the groups of each edge, the time. Out: `Condition`s. Never: two for one reason and maker
because two edges refuse the same.

    a refusal comes --(BOUND_MS)--> open --(OPEN_MS after the last one)--> closed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bus.contracts.sender_faults import FIRST_PEERS, RefusedGroup
from monitor.watch.conditions import Condition

BOUND_MS = 30_000  # a street that is switched on is one incident that names more than its first
OPEN_MS = 600_000  # devices try again within minutes
MAX_GROUPS = 200
UNKNOWN_MAKER = "-"

_Key = tuple[str, str]


@dataclass(slots=True)
class _GroupCourse:
    """What edges have said of one group: edge -> its newest answer."""

    last_ms: int
    of_edges: dict[str, RefusedGroup] = field(default_factory=dict)


@dataclass(slots=True)
class RefusedJudge:
    """Invariant: `_courses` has `MAX_GROUPS` at most, the one that was refused last at its end.
    An edge that has started again has forgotten; what it said before counts until `OPEN_MS`."""

    _courses: dict[_Key, _GroupCourse] = field(default_factory=dict)

    def observe(self, edge: str, groups: Sequence[RefusedGroup], now_ms: int) -> list[Condition]:
        """A condition for each group that is known."""
        for group in sorted(groups, key=lambda one: -one.idle_s):
            last_ms = now_ms - round(1000 * group.idle_s)
            key = group.reason, group.maker
            course = self._courses.pop(key, None) or _GroupCourse(last_ms)
            course.last_ms = max(course.last_ms, last_ms)
            course.of_edges[edge] = group
            self._courses[key] = course
        for key in list(self._courses)[:-MAX_GROUPS]:
            del self._courses[key]
        return [self._condition(key, course, now_ms) for key, course in self._courses.items()]

    def _condition(self, key: _Key, course: _GroupCourse, now_ms: int) -> Condition:
        reason, maker = key
        subject = f"{reason} {maker or UNKNOWN_MAKER}"
        is_bad = now_ms - course.last_ms < OPEN_MS
        if not is_bad:
            course.of_edges.clear()
        detail = _detail(key, course) if is_bad else {}
        return Condition("refused", subject, is_bad, BOUND_MS, detail, "warning")


def _detail(key: _Key, course: _GroupCourse) -> dict[str, str]:
    reason, maker = key
    groups = course.of_edges
    peers = sum(group.peers for group in groups.values())
    named = list(dict.fromkeys(one for group in groups.values() for one in group.first_peers))
    detail = {
        "why": reason, "maker": maker or UNKNOWN_MAKER, "edges": ", ".join(sorted(groups)),
        "requests": str(sum(group.requests for group in groups.values())), "peers": str(peers),
    }  # fmt: skip
    if named:
        first = named[:FIRST_PEERS]
        more = [f"+{peers - len(first)}"] if peers > len(first) else []
        detail["first"] = ", ".join([*first, *more])
    return detail
