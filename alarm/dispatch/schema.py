"""The tables of the operations store. One file, one writer (the dispatcher)."""

from __future__ import annotations

import sqlite3

from alarm.dispatch.alarm_state_table import ALARM_STATES
from alarm.dispatch.passages import SUPPRESSED
from alarm.dispatch.picture_queue import PICTURE_COPIES
from alarm.dispatch.replicated_incidents import OPEN_INCIDENTS, OPEN_INCIDENTS_FROM_5
from alarm.dispatch.restored import RESTORED
from alarm.dispatch.rule_minutes import RULE_MINUTES
from alarm.dispatch.shadow import SHADOW_ALARMS, SHADOW_ALARMS_FROM_4, SHADOW_INCIDENTS
from alarm.dispatch.unnotified import UNNOTIFIED_ALARMS
from bus.notify.notice_table import NOTICES
from ingest.store.port import StoreError

VERSION = 10

PUBLISHED_ACKNOWLEDGED = """
CREATE TABLE said_acknowledged (id TEXT PRIMARY KEY, at_ms INTEGER NOT NULL) WITHOUT ROWID;
"""
_SINCE_5 = UNNOTIFIED_ALARMS + PUBLISHED_ACKNOWLEDGED + SHADOW_INCIDENTS

_TABLES = f"""
CREATE TABLE positions (
    application TEXT NOT NULL, cluster_id TEXT NOT NULL, topic TEXT NOT NULL,
    topic_id TEXT NOT NULL, partition INTEGER NOT NULL, end_offset INTEGER NOT NULL,
    PRIMARY KEY (application, cluster_id, topic, topic_id, partition)
) WITHOUT ROWID;
CREATE TABLE rules (rule_id TEXT PRIMARY KEY, op TEXT NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY,
    alarm_id TEXT NOT NULL UNIQUE,  -- rule and record: once per both, whatever is repeated
    rule_id TEXT NOT NULL,
    severity TEXT NOT NULL,
    plate_key TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    raised_at_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    kind TEXT NOT NULL DEFAULT '',
    district_id TEXT NOT NULL DEFAULT '',
    visible_to TEXT NOT NULL DEFAULT '',  -- units with a | around each; empty: everybody
    case_number TEXT NOT NULL DEFAULT '',
    case_target TEXT NOT NULL DEFAULT ''
);
CREATE INDEX alarms_by_case ON alarms (case_number, case_target) WHERE case_number != '';
CREATE INDEX alarms_by_rule ON alarms (rule_id);
CREATE INDEX alarms_by_plate ON alarms (plate_key);
CREATE INDEX alarms_by_time ON alarms (raised_at_ms);
CREATE TABLE outbox (id INTEGER PRIMARY KEY);  -- of an earlier version: not on event.alarm yet
CREATE TABLE incidents (
    id INTEGER PRIMARY KEY, incident_id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    body BLOB NOT NULL, closed_at_ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX incidents_open ON incidents (state) WHERE state = 'open';
CREATE INDEX incidents_closed ON incidents (closed_at_ms) WHERE state = 'closed';
{NOTICES}
{PICTURE_COPIES}
{SHADOW_ALARMS}
{_SINCE_5}
{OPEN_INCIDENTS}
{RESTORED}
{SUPPRESSED}
{RULE_MINUTES}
{ALARM_STATES}
"""
_FROM_1 = f"""
ALTER TABLE notices RENAME TO notices_1;
DROP INDEX notices_waiting;
{NOTICES}
INSERT INTO notices (id, subject, notifier, body, made_at_ms, next_at_ms, attempts, outcome)
    SELECT id, subject, notifier, body, CAST(strftime('%s', 'now') AS INTEGER) * 1000,
        next_at_ms, attempts, replace(outcome, 'told', 'sent') FROM notices_1;
DROP TABLE notices_1;
"""
_FROM_2 = f"""
CREATE INDEX alarms_by_time ON alarms (raised_at_ms);
ALTER TABLE incidents ADD COLUMN closed_at_ms INTEGER NOT NULL DEFAULT 0;
UPDATE incidents SET closed_at_ms = json_extract(CAST(body AS TEXT), '$.closed_at_ms')
    WHERE state = 'closed';
CREATE INDEX incidents_closed ON incidents (closed_at_ms) WHERE state = 'closed';
{PICTURE_COPIES}
"""
_TO_9 = """
ALTER TABLE alarms ADD COLUMN kind TEXT NOT NULL DEFAULT '';
ALTER TABLE alarms ADD COLUMN district_id TEXT NOT NULL DEFAULT '';
ALTER TABLE alarms ADD COLUMN visible_to TEXT NOT NULL DEFAULT '';
UPDATE alarms SET kind = coalesce(json_extract(CAST(body AS TEXT), '$.kind'), '');
"""
_TO_10 = """
ALTER TABLE alarms ADD COLUMN case_number TEXT NOT NULL DEFAULT '';
ALTER TABLE alarms ADD COLUMN case_target TEXT NOT NULL DEFAULT '';
CREATE INDEX alarms_by_case ON alarms (case_number, case_target) WHERE case_number != '';
"""
_TO_5 = {
    1: _FROM_1 + _FROM_2 + SHADOW_ALARMS,
    2: _FROM_2 + SHADOW_ALARMS,
    3: SHADOW_ALARMS,
    4: SHADOW_ALARMS_FROM_4,
}
"""By the version that a file has."""


def prepare(connection: sqlite3.Connection) -> None:
    """Bring a file to the current version. Raises `StoreError` for a newer one."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    found = version_of(connection)
    if found > VERSION:
        raise StoreError(f"the operations store has version {found}, this program knows {VERSION}")
    if found == VERSION:
        return
    to_5 = _TO_5[found] + _SINCE_5 if found in _TO_5 else ""
    to_6 = to_5 + OPEN_INCIDENTS_FROM_5 if found < 6 else ""
    to_7 = to_6 + RESTORED if found < 7 else ""
    to_8 = to_7 + SUPPRESSED + RULE_MINUTES + ALARM_STATES if found < 8 else ""
    to_9 = to_8 + _TO_9 if found < 9 else ""
    change = to_9 + _TO_10 if found else _TABLES
    connection.executescript(f"BEGIN; {change} PRAGMA user_version = {VERSION}; COMMIT;")


def has_passages_and_states(connection: sqlite3.Connection) -> bool:
    """Whether a file counts what fell into quiet times, and has the states of alarms."""
    return version_of(connection) >= 8


def has_audiences(connection: sqlite3.Connection) -> bool:
    """Whether a file says of each alarm who sees it; before, everybody saw all."""
    return version_of(connection) >= 9


def has_cases(connection: sqlite3.Connection) -> bool:
    """Whether a file says of each alarm which case it is of; before, alarms did not."""
    return version_of(connection) >= 10


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables in a file; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
