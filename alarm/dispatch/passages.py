"""Further passages that an alarm stands for, in the operations store.

In: what `event.suppressed` says, in any order and as often as it says it. Out: how many records an
alarm stands for, each counted once. Never: a record counted for two alarms of one rule: the first
that was named has it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from bus.contracts.alarms import Suppressed

SUPPRESSED = """
CREATE TABLE suppressed (
    rule_id TEXT NOT NULL, record_id TEXT NOT NULL, alarm_id TEXT NOT NULL,
    captured_at_ms INTEGER NOT NULL, stored_at_ms INTEGER NOT NULL,
    PRIMARY KEY (rule_id, record_id)
) WITHOUT ROWID;
CREATE INDEX suppressed_by_alarm ON suppressed (alarm_id);
CREATE INDEX suppressed_by_time ON suppressed (stored_at_ms);
"""
"""A passage may be known before its alarm is: they are of two topics."""


def add(db: sqlite3.Connection, passages: Iterable[Suppressed], now_ms: int) -> None:
    """Within a transaction."""
    db.executemany(
        "INSERT OR IGNORE INTO suppressed VALUES (?, ?, ?, ?, ?)",
        [
            (one.rule_id, one.record_id, one.alarm_id, one.captured_at_ms, now_ms)
            for one in passages
        ],
    )


def forget_of(db: sqlite3.Connection, alarm_ids: Iterable[str]) -> None:
    """Of alarms that are forgotten, within a transaction."""
    db.executemany("DELETE FROM suppressed WHERE alarm_id = ?", [(one,) for one in alarm_ids])


def forget_before(db: sqlite3.Connection, before_ms: int, limit: int) -> None:
    """Those whose alarm never came, within a transaction; those of alarms that are kept are as old
    as these."""
    db.execute(
        "DELETE FROM suppressed WHERE (rule_id, record_id) IN (SELECT rule_id, record_id"
        " FROM suppressed WHERE stored_at_ms < ? AND NOT EXISTS (SELECT 1 FROM alarms"
        " WHERE alarms.alarm_id = suppressed.alarm_id) LIMIT ?)",
        (before_ms, limit),
    )


def counts_of(db: sqlite3.Connection, alarm_ids: Sequence[str]) -> dict[str, int]:
    """How many further records each of these stands for; at most some hundred ids at once."""
    marks = ", ".join("?" * len(alarm_ids))
    rows = db.execute(
        # Of a target of a case a record may meet several rules; the alarm's own is none further.
        "SELECT alarm_id, COUNT(DISTINCT record_id) FROM suppressed"
        f" WHERE alarm_id IN ({marks}) AND NOT EXISTS (SELECT 1 FROM alarms WHERE"
        " alarms.alarm_id = suppressed.alarm_id"
        " AND alarms.alarm_id = alarms.rule_id || ':' || suppressed.record_id) GROUP BY alarm_id",
        tuple(alarm_ids),
    )
    return dict(rows.fetchall())


def page_of(
    db: sqlite3.Connection, behind: tuple[str, str], limit: int
) -> list[Suppressed]:
    """All of them by rule and record, those behind a pair."""
    rows = db.execute(
        "SELECT alarm_id, record_id, rule_id, captured_at_ms FROM suppressed"
        " WHERE (rule_id, record_id) > (?, ?) ORDER BY rule_id, record_id LIMIT ?",
        (*behind, limit),
    )
    return [
        Suppressed(alarm_id=alarm, record_id=record, rule_id=rule, captured_at_ms=at_ms)
        for alarm, record, rule, at_ms in rows
    ]
