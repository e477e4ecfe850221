"""Lists of plates that were not imported again in their interval: one condition for each. Pure.

In: the lists in force, the time. Out: `Condition`s. Never: an incident that goes on for a list that
was ended, or has no interval any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from bus.contracts.plate_lists import ListRecord
from bus.domain.list_in_force import due_ms, is_overdue
from monitor.watch.conditions import Condition

MAX_ENDED = 200
"""As many lists as may have been ended while they were overdue; the incidents of others end when
the watch starts again."""


@dataclass(slots=True)
class OverdueJudge:
    """Invariant: `_overdue` has each list that was overdue when it was seen last."""

    zone: tzinfo
    _overdue: dict[str, None] = field(default_factory=dict)

    def observe(self, lists: Iterable[ListRecord], now_ms: int) -> list[Condition]:
        """A condition for each list in force, and for those that are no more."""
        found = [self._condition(one, now_ms) for one in lists]
        in_force = {one.subject for one in found}
        ended = [list_id for list_id in self._overdue if list_id not in in_force]
        for one in found:
            self._overdue.pop(one.subject, None)
            if one.is_bad:
                self._overdue[one.subject] = None
        for list_id in ended[:-MAX_ENDED]:
            del self._overdue[list_id]
        return found + [Condition("overdue", one, False, 0) for one in ended[-MAX_ENDED:]]

    def _condition(self, record: ListRecord, now_ms: int) -> Condition:
        is_bad = is_overdue(record, now_ms)
        detail = self._detail(record) if is_bad else {}
        return Condition("overdue", record.list_id, is_bad, 0, detail, "warning")

    def _detail(self, record: ListRecord) -> dict[str, str]:
        detail = {
            "name": record.name, "owner": record.owner, "source": record.source,
            "renewed": self._text(record.renewed_at_ms), "due": self._text(due_ms(record)),
        }  # fmt: skip
        return {key: value for key, value in detail.items() if value}

    def _text(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, self.zone).strftime("%Y-%m-%d %H:%M")
