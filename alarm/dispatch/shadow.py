"""A site whose data are a mirror of another one decides as that one does, and notifies nobody.

`bus.client.kafka.site_role` says whether it is so, by the topic of its data. What such a site has
decided, or the other one has raised, is kept until that one is known to have notified it: when the
site becomes the primary, what is left is notified, marked as perhaps sent before. Never: a notice
of what another site is known to have sent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from bus.contracts.alarms import Alarm, Incident

SHADOW_ALARMS = """
CREATE TABLE shadow_alarms (
    alarm_id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL, notified INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX shadow_alarms_at ON shadow_alarms (at_ms);
"""
"""`notified`: the other site has notified it. It may say so before the alarm itself comes here."""
SHADOW_INCIDENTS = """
CREATE TABLE shadow_incidents (incident_id TEXT PRIMARY KEY) WITHOUT ROWID;
"""
"""Opened here while the other site notified; each is open still."""
SHADOW_ALARMS_FROM_4 = f"""
ALTER TABLE shadow_alarms RENAME TO shadow_alarms_4;
{SHADOW_ALARMS}
INSERT INTO shadow_alarms SELECT alarm_id, raised_at_ms, 0 FROM shadow_alarms_4;
DROP TABLE shadow_alarms_4;
"""
SETTLED_S = 5.0
"""So long after a site has become the primary, what the other one has raised may still come in."""


def keep(db: sqlite3.Connection, alarms: Iterable[Alarm]) -> None:
    """Decided here or raised there; notified by nobody yet as far as is known."""
    db.executemany(
        "INSERT OR IGNORE INTO shadow_alarms SELECT ?1, ?2, 0"
        " WHERE NOT EXISTS (SELECT 1 FROM notices WHERE subject = ?1)",
        [(alarm.alarm_id, alarm.raised_at_ms) for alarm in alarms],
    )


def mark_notified(db: sqlite3.Connection, alarm_ids: Iterable[str], now_ms: int) -> None:
    """The other site has notified these."""
    db.executemany(
        "INSERT INTO shadow_alarms VALUES (?, ?, 1)"
        " ON CONFLICT (alarm_id) DO UPDATE SET at_ms = excluded.at_ms, notified = 1",
        [(alarm_id, now_ms) for alarm_id in alarm_ids],
    )


def keep_incident(db: sqlite3.Connection, incident: Incident) -> None:
    """Opened or closed here while the other site notifies."""
    if incident.state == "open":
        sql = "INSERT OR IGNORE INTO shadow_incidents VALUES (?)"
    else:
        sql = "DELETE FROM shadow_incidents WHERE incident_id = ?"
    db.execute(sql, (incident.incident_id,))


def open_in_shadow(db: sqlite3.Connection) -> list[Incident]:
    """Those that are open still, oldest first; they are no longer kept."""
    rows = db.execute(
        "SELECT body FROM shadow_incidents JOIN incidents USING (incident_id)"
        " WHERE state = 'open' ORDER BY id"
    ).fetchall()
    db.execute("DELETE FROM shadow_incidents")
    return [msgspec.json.decode(body, type=Incident) for (body,) in rows]


def forget(db: sqlite3.Connection, since_ms: int) -> None:
    """What is older would be notified to nobody."""
    db.execute("DELETE FROM shadow_alarms WHERE at_ms < ?", (since_ms,))


def left_in_shadow(db: sqlite3.Connection, since_ms: int, limit: int) -> list[Alarm]:
    """Those that nobody is known to have notified, oldest first and marked; they are no longer
    kept. What was raised before `since_ms` is forgotten."""
    forget(db, since_ms)
    rows = db.execute(
        "SELECT alarm_id, body FROM shadow_alarms JOIN alarms USING (alarm_id)"
        " WHERE NOT notified ORDER BY at_ms LIMIT ?",
        (limit,),
    ).fetchall()
    db.executemany("DELETE FROM shadow_alarms WHERE alarm_id = ?", [(name,) for name, _ in rows])
    alarms = [msgspec.json.decode(body, type=Alarm) for _, body in rows]
    return [msgspec.structs.replace(alarm, perhaps_sent_before=True) for alarm in alarms]
