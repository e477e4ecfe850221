"""Rules that raise more alarms in a minute than people read: one notice for the rest of it.

In: alarms as they are stored. Out: those of each rule and minute beyond its first ones, once the
minute is over, for a digest. Never: an alarm that is counted twice, or in no notice: what waits
stands in the file, in the transaction that stored it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from bus.contracts.alarms import Alarm
from bus.domain.times import MINUTE_MS

RULE_MINUTES = """
CREATE TABLE rule_minutes (
    rule_id TEXT NOT NULL, minute INTEGER NOT NULL, alarms INTEGER NOT NULL,
    PRIMARY KEY (rule_id, minute)
) WITHOUT ROWID;
CREATE TABLE digested_alarms (
    alarm_id TEXT PRIMARY KEY, rule_id TEXT NOT NULL, minute INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX digested_by_minute ON digested_alarms (minute, rule_id);
"""
"""`rule_minutes`: how many alarms of a minute were stored; `digested_alarms`: those that wait for
their digest."""
KEPT_MINUTES = 60
"""An alarm that was raised earlier does not come any more; if one does, it is counted from one."""


class RuleMinute(NamedTuple):
    """Alarms of one rule and minute beyond the first ones."""

    rule_id: str
    minute: int
    alarms: list[Alarm]


def is_beyond(db: sqlite3.Connection, alarm: Alarm, limit: int) -> bool:
    """Count a new alarm, within the transaction that stores it; whether it waits for a digest."""
    minute = alarm.raised_at_ms // MINUTE_MS
    count: int = db.execute(
        "INSERT INTO rule_minutes VALUES (?, ?, 1) ON CONFLICT (rule_id, minute)"
        " DO UPDATE SET alarms = alarms + 1 RETURNING alarms",
        (alarm.rule_id, minute),
    ).fetchone()[0]
    if count <= limit:
        return False
    db.execute(
        "INSERT OR IGNORE INTO digested_alarms VALUES (?, ?, ?)",
        (alarm.alarm_id, alarm.rule_id, minute),
    )
    return True


def take_past(db: sqlite3.Connection, now_ms: int) -> Iterator[RuleMinute]:
    """Remove those of minutes that are over, and return them, within a transaction."""
    now = now_ms // MINUTE_MS
    found = db.execute(
        "SELECT DISTINCT minute, rule_id FROM digested_alarms WHERE minute < ?", (now,)
    ).fetchall()
    for minute, rule_id in found:
        rows = db.execute(
            "SELECT body FROM digested_alarms JOIN alarms USING (alarm_id)"
            " WHERE minute = ? AND digested_alarms.rule_id = ? ORDER BY id", (minute, rule_id),
        ).fetchall()  # fmt: skip
        db.execute(
            "DELETE FROM digested_alarms WHERE minute = ? AND rule_id = ?", (minute, rule_id)
        )
        if rows:
            yield RuleMinute(
                rule_id, minute, [msgspec.json.decode(body, type=Alarm) for (body,) in rows]
            )
    db.execute("DELETE FROM rule_minutes WHERE minute < ?", (now - KEPT_MINUTES,))
