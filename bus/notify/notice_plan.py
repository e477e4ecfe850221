"""Which notifier is told what, and when. Pure.

In: a severity, whether it is an end, the moment. Out: names with the time of the first attempt.
Quiet hours put a notice off to their end; what is told only without an acknowledgement is a notice
that waits for its time, and is withdrawn before. Never: a clock, I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo

from bus.contracts.alarms import Alarm, Incident
from bus.notify.notice_route import NoticeRoute

ALARMS_A_MINUTE = 60
_EVERYBODYS = NoticeRoute()
LOG = "log"  # a file disturbs nobody: no quiet hours


@dataclass(frozen=True, slots=True)
class NoticePlan:
    """Who is configured, and how they want to be told."""

    notifiers: tuple[str, ...] = ()
    quiet_hours: dict[str, str] = field(default_factory=dict)
    escalate_to: frozenset[str] = frozenset()
    escalate_after_ms: int = 0
    zone: tzinfo = UTC
    alarms_a_minute: int = ALARMS_A_MINUTE
    """Of one rule that are a notice each; those beyond are one together."""
    routes: Mapping[str, NoticeRoute] = field(default_factory=dict)
    """Of notifiers that are told of some alarms only, and of incidents where they ask for them."""

    def first_attempts(
        self, severity: str, now_ms: int, event: Alarm | Incident
    ) -> dict[str, int]:
        """What has begun: an alarm, or an incident's opening. `severity`: of the notice."""
        later_ms = now_ms + self.escalate_after_ms
        return {
            name: self.at(name, severity, later_ms if name in self.escalate_to else now_ms)
            for name in self.notifiers if self.notifies(name, event)
        }  # fmt: skip

    def notifies(self, name: str, event: Alarm | Incident) -> bool:
        """Whether a notifier is told of it; of an incident those are that have no route, or one
        that takes it."""
        if isinstance(event, Incident):
            return name not in self.routes or self.routes[name].takes_incident(event)
        return name == LOG or self.routes.get(name, _EVERYBODYS).takes(event)

    def of_end(
        self, incident: Incident, now_ms: int, reached: Collection[str]
    ) -> dict[str, int]:
        """The end of an incident: escalation only where it has `reached` somebody."""
        return {
            name: self.at(name, incident.severity, now_ms)
            for name in self.notifiers
            if self.notifies(name, incident) and (name not in self.escalate_to or name in reached)
        }

    @property
    def escalations(self) -> tuple[str, ...]:
        """Those that are told only what nobody has acknowledged."""
        return tuple(name for name in self.notifiers if name in self.escalate_to)

    def at(self, name: str, severity: str, at_ms: int) -> int:
        """Then, or when its quiet hours have ended."""
        span = self.quiet_hours.get(severity)
        if span is None or name == LOG:
            return at_ms
        begin, end = (time.fromisoformat(text) for text in span.split("-"))
        at = datetime.fromtimestamp(at_ms / 1000, self.zone)
        if not _is_within(at.time(), begin, end):
            return at_ms
        day = at.date() + timedelta(days=at.time() >= end)
        return int(datetime.combine(day, end, self.zone).timestamp() * 1000)


def _is_within(at: time, begin: time, end: time) -> bool:
    if begin <= end:
        return begin <= at < end
    return at >= begin or at < end
