"""Alarms and incidents past their time leave the operations store, a slice at a time.

The recorder calls `forget` in a transaction of its own, so that what arrives waits for one slice at
most. An incident that is open stays, however old.
"""

from __future__ import annotations

import sqlite3

from alarm.dispatch import passages
from alarm.dispatch.alarm_state_table import delete_states, end_states
from bus.domain.retention import NEVER_MS, RetentionSettings, past_before_ms
from bus.notify.notice_table import CLOSED, OPEN

SLICE = 500  # rows of each table; some milliseconds


def forget(db: sqlite3.Connection, keep: RetentionSettings, now_ms: int) -> int:
    """Delete a slice, with the notices about it; how many alarms and incidents."""
    alone_before_ms = past_before_ms(keep.alarms_days or keep.removed_days, now_ms)
    end_states(db, alone_before_ms, now_ms, SLICE)
    return _alarms(db, past_before_ms(keep.alarms_days, now_ms)) + _incidents(
        db, past_before_ms(keep.incidents_days, now_ms)
    )


def _alarms(db: sqlite3.Connection, before_ms: int) -> int:
    if before_ms == NEVER_MS:
        return 0
    rows = db.execute(
        "SELECT id, alarm_id FROM alarms WHERE raised_at_ms < ? ORDER BY raised_at_ms LIMIT ?",
        (before_ms, SLICE),
    ).fetchall()
    ids = [(row_id,) for row_id, _ in rows]
    passages.forget_of(db, [name for _, name in rows])
    passages.forget_before(db, before_ms, SLICE)
    db.executemany("DELETE FROM notices WHERE subject = ?", [(name,) for _, name in rows])
    delete_states(db, [name for _, name in rows])
    db.executemany("DELETE FROM picture_copies WHERE alarm = ?", ids)
    db.executemany("DELETE FROM outbox WHERE id = ?", ids)
    db.executemany("DELETE FROM alarms WHERE id = ?", ids)
    return len(rows)


def _incidents(db: sqlite3.Connection, before_ms: int) -> int:
    if before_ms == NEVER_MS:
        return 0
    rows = db.execute(
        "SELECT id, incident_id FROM incidents WHERE state = 'closed' AND closed_at_ms < ?"
        " ORDER BY closed_at_ms LIMIT ?",
        (before_ms, SLICE),
    ).fetchall()
    subjects = [(name + end,) for _, name in rows for end in (OPEN, CLOSED)]
    db.executemany("DELETE FROM notices WHERE subject = ?", subjects)
    db.executemany("DELETE FROM incidents WHERE id = ?", [(row_id,) for row_id, _ in rows])
    return len(rows)
