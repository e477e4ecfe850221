"""Which alarms are notified: nobody is to be told of them at once any more.

In: the table of notices. Out: what `event.notified` is to say, until it does. Never: an alarm
called notified whose notice waits for a mail server, for the end of quiet hours, or for its turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from bus.contracts.alarms import Notified

UNNOTIFIED_ALARMS = """
CREATE TABLE unnotified_alarms (id INTEGER PRIMARY KEY, alarm_id TEXT NOT NULL UNIQUE);
"""
SCANNED_ROWS = 1_000
"""Alarms in one look: with a mail server away for hours there may be many that wait."""


class NewlyNotified:
    """Which alarms have been notified since. Invariant: all alarms up to `_seen_id` were looked at
    since the look that began at the first one."""

    def __init__(self, escalations: Sequence[str]) -> None:
        """Whoever is told only without an acknowledgement is not waited for."""
        self._escalations = tuple(escalations)
        self._seen_id = 0

    def find(self, db: sqlite3.Connection, now_ms: int) -> list[Notified]:
        """Of the next `SCANNED_ROWS` alarms those that are notified, or were given up."""
        rows = db.execute(
            "SELECT id, alarm_id FROM unnotified_alarms WHERE id > ? ORDER BY id LIMIT ?",
            (self._seen_id, SCANNED_ROWS),
        ).fetchall()
        self._seen_id = rows[-1][0] if len(rows) == SCANNED_ROWS else 0
        found = []
        for _, alarm_id in rows:
            outcomes = self._outcomes(db, alarm_id)
            if all(outcomes.values()):
                found.append(Notified(alarm_id=alarm_id, at_ms=now_ms, outcomes=outcomes))
        return found

    def _outcomes(self, db: sqlite3.Connection, alarm_id: str) -> dict[str, str]:
        found = db.execute("SELECT notifier, outcome FROM notices WHERE subject = ?", (alarm_id,))
        return {
            notifier: outcome[:200]
            for notifier, outcome in found
            if outcome or notifier not in self._escalations
        }


def add_unnotified(db: sqlite3.Connection, alarm_id: str) -> None:
    """It is to be notified from here, within a transaction."""
    db.execute("INSERT OR IGNORE INTO unnotified_alarms (alarm_id) VALUES (?)", (alarm_id,))


def remove_unnotified(db: sqlite3.Connection, notified: Iterable[Notified]) -> None:
    """The bus knows of these, within a transaction."""
    ids = [(one.alarm_id,) for one in notified]
    db.executemany("DELETE FROM unnotified_alarms WHERE alarm_id = ?", ids)
