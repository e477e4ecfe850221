"""The tables of the operations store. One file, one writer (the dispatcher)."""

from __future__ import annotations

import sqlite3

from ingest.store.port import StoreError

VERSION = 1

_VERSION_1 = """
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
    body BLOB NOT NULL
);
CREATE INDEX alarms_by_rule ON alarms (rule_id);
CREATE INDEX alarms_by_plate ON alarms (plate_key);
CREATE TABLE outbox (id INTEGER PRIMARY KEY);  -- of an earlier version: not on event.alarm yet
CREATE TABLE incidents (
    id INTEGER PRIMARY KEY, incident_id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX incidents_open ON incidents (state) WHERE state = 'open';
CREATE TABLE notices (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    notifier TEXT NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at_ms INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '',  -- '' waiting, 'told', or why it was given up
    UNIQUE (subject, notifier)
);
CREATE INDEX notices_waiting ON notices (next_at_ms) WHERE outcome = '';
"""


def prepare(connection: sqlite3.Connection) -> None:
    """Bring a file to the current version. Raises `StoreError` for a newer one."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    found = version_of(connection)
    if found > VERSION:
        raise StoreError(f"the operations store has version {found}, this program knows {VERSION}")
    if found == 0:
        connection.executescript(f"BEGIN; {_VERSION_1} PRAGMA user_version = {VERSION}; COMMIT;")


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the tables in a file; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])
