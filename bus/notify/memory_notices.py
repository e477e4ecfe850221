"""Notices of incidents that their file will not take just now, so that people hear of it meanwhile.

In: incidents, what has become of each attempt. Out: what is due; for the file, as soon as it takes
them, what was done meanwhile. Never: I/O; what a kill loses here comes again, since whoever queued
it here has it still, and receivers take a subject once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bus.contracts.alarms import Incident
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import CLOSED, OPEN, SENT, Notice, NoticeResult

MAX_NOTICES = 10_000  # the oldest are dropped; the file has them when it takes the incidents


@dataclass(slots=True)
class MemoryNotices:
    """Invariant: `_results` has the newest state of each notice that the file does not know."""

    plan: NoticePlan
    _results: dict[tuple[str, str], NoticeResult] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._results)

    def add(self, incident: Incident, body: bytes, now_ms: int) -> None:
        """The notices of an opening or an end; again changes nothing."""
        opening = incident.incident_id + OPEN
        if incident.state == "open":
            due = self.plan.first_attempts(incident.severity, now_ms, incident)
            self._put(opening, body, due)
            return
        for name in self.plan.escalations:
            found = self._results.get((opening, name))
            if found is not None and not found.outcome:
                del self._results[opening, name]  # it escalates no more
        reached = {
            name for (subject, name), one in self._results.items()
            if subject == opening and one.outcome == SENT
        }  # fmt: skip
        due = self.plan.of_end(incident, now_ms, reached)
        self._put(incident.incident_id + CLOSED, body, due)

    def due(self, notifier: str, now_ms: int, limit: int) -> list[Notice]:
        """Notices of one notifier that are due, oldest first."""
        found = [
            one.notice for one in self._results.values()
            if one.notice.notifier == notifier and not one.outcome and one.next_at_ms <= now_ms
        ]  # fmt: skip
        return found[:limit]

    def subjects(self, notifier: str) -> set[str]:
        """Everything of one notifier that is kept here."""
        return {subject for subject, name in self._results if name == notifier}

    def settle(self, result: NoticeResult) -> bool:
        """What has become of an attempt; False if the notice is not kept here (any more)."""
        key = result.notice.subject, result.notice.notifier
        if key not in self._results:
            return False
        self._results[key] = result
        return True

    def results(self) -> list[NoticeResult]:
        """For the file."""
        return list(self._results.values())

    def forget(self, written: Iterable[NoticeResult]) -> None:
        """The file has these; what has changed meanwhile stays."""
        for one in written:
            key = one.notice.subject, one.notice.notifier
            if self._results.get(key) == one:
                del self._results[key]

    def _put(self, subject: str, body: bytes, due: dict[str, int]) -> None:
        for name, at_ms in due.items():
            notice = Notice(name, subject, body, at_ms, 0)
            self._results.setdefault((subject, name), NoticeResult(notice, at_ms))
        while len(self._results) > MAX_NOTICES:
            del self._results[next(iter(self._results))]
