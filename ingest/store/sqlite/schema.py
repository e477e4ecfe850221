"""The tables of the SQLite store and how an older file becomes a current one.

Each index costs write throughput, whose aim is 40,000 records/s; these are the ones that pay:
- `records.record_id` unique: the identity makes the write idempotent (I-4).
- `records.captured_at_ms`: the newest page, time ranges.
- `facets`: plate, checkpoint and the rarer kinds in one table, filled per batch by one sorted
  INSERT … SELECT. It begins with the hour of capture, so that a batch touches the few pages of its
  own hour and not one random page per record of an index as large as the store; a search walks the
  hours, newest first.
- `cameras` tells at which checkpoints a camera was seen; its records are found through those.
"""

from __future__ import annotations

import sqlite3
from functools import partial

from bus.domain.plates import partly_read_form, plate_form, plate_key
from bus.domain.tolerant_search import TolerantPlate
from ingest.store.port import StoreError
from ingest.store.sqlite.facets import (
    FACET_PARTLY_READ,
    FACET_PLATE,
    FACET_PLATE_REVERSED,
    HOUR_MS,
)
from ingest.store.sqlite.plate_facets import tolerates, tolerates_reversed

VERSION = 10

ALL_SUMMED_MS, NONE_SUMMED_MS = -(1 << 62), 1 << 62
"""From which minute on cells are in the sums, if all of them are, or none."""

# 16 KiB pages and a write-ahead log of 64 MiB: measured 1.4 times the throughput of 4 KiB and 4
# MiB, because index pages are then written once per checkpoint and not once per batch.
PAGE_BYTES = 16 * 1024
CHECKPOINT_PAGES = 4_000
CACHE_KIB = 16 * 1024
"""Of pages that the writer keeps between its batches. Four times as much makes a batch of eighty
records a twentieth quicker, and is never given back."""
LARGE_BATCH_ROWS, LARGE_CACHE_KIB = 5_000, 64 * 1024
"""Of a backlog's batches: what one changes fits, so that it is written once. Twice as much is no
quicker at 400,000 records of as many plates."""

_VERSION_1 = """
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    district_id TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    captured_at_ms INTEGER NOT NULL,
    received_at_ms INTEGER NOT NULL,
    plate_number TEXT NOT NULL,
    plate_key TEXT NOT NULL,
    plate_color TEXT NOT NULL,
    vehicle_color TEXT NOT NULL,
    vehicle_type TEXT NOT NULL,
    vehicle_brand TEXT NOT NULL,
    vehicle_series TEXT NOT NULL,
    picture_url TEXT NOT NULL,
    partly_read INTEGER NOT NULL,
    replayed INTEGER NOT NULL,
    body BLOB NOT NULL,
    stored_at_ms INTEGER NOT NULL
);
CREATE UNIQUE INDEX records_by_identity ON records (record_id);
CREATE INDEX records_by_capture ON records (captured_at_ms);
CREATE TABLE hours (hour INTEGER PRIMARY KEY);
CREATE TABLE facets (
    hour INTEGER NOT NULL,
    facet INTEGER NOT NULL,
    value TEXT NOT NULL,
    captured_at_ms INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (hour, facet, value, captured_at_ms, id)
) WITHOUT ROWID;
CREATE TABLE cameras (
    camera_ip TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    PRIMARY KEY (camera_ip, checkpoint_id)
) WITHOUT ROWID;
CREATE TABLE rejected (
    id INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    field TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    checkpoint_id TEXT NOT NULL,
    source TEXT NOT NULL,
    received_at_ms INTEGER NOT NULL,
    body BLOB NOT NULL,
    stored_at_ms INTEGER NOT NULL,
    captured_at_ms INTEGER NOT NULL
);
CREATE TABLE totals (
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (name, kind, reason)
) WITHOUT ROWID;
CREATE TABLE quality (
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    sent INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    valid INTEGER NOT NULL,
    partly_read INTEGER NOT NULL,
    PRIMARY KEY (minute_ms, kind, camera_ip, recognizer_ip)
) WITHOUT ROWID;
CREATE TABLE quality_rejected (
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (minute_ms, kind, camera_ip, recognizer_ip, reason)
) WITHOUT ROWID;
CREATE TABLE sent (
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    producer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    sent INTEGER NOT NULL,
    PRIMARY KEY (minute_ms, kind, camera_ip, recognizer_ip, producer, epoch)
) WITHOUT ROWID;
CREATE TABLE latency_cells (
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    district_id TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    buckets TEXT NOT NULL,
    PRIMARY KEY (minute_ms, kind, district_id, camera_ip)
) WITHOUT ROWID;
CREATE TABLE latency_summaries (
    scope TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    p50_ms INTEGER NOT NULL,
    p95_ms INTEGER NOT NULL,
    p99_ms INTEGER NOT NULL,
    max_ms INTEGER NOT NULL,
    PRIMARY KEY (scope, scope_id, minute_ms, kind)
) WITHOUT ROWID;
CREATE TABLE positions (
    application TEXT NOT NULL,
    cluster_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    topic_id TEXT NOT NULL,
    partition INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    PRIMARY KEY (application, cluster_id, topic, topic_id, partition)
) WITHOUT ROWID;
"""

# In a file of version 1 no clock was judged; its records stay as they are.
_VERSION_2 = "ALTER TABLE records ADD COLUMN clock_off_ms INTEGER NOT NULL DEFAULT 0;"

# Percentiles come from the histograms. Of records stored before, all valid ones are taken for new:
# which of them had come twice was not counted by device.
_VERSION_3 = """
DROP TABLE latency_summaries;
ALTER TABLE quality ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;
UPDATE quality SET stored = valid;
CREATE TABLE attempts (id INTEGER PRIMARY KEY CHECK (id = 1), newest INTEGER NOT NULL);
INSERT INTO attempts VALUES (1, 0);
"""

# What is past its time is found. A pair of camera and checkpoint is forgotten with the
# last hour in which it was seen; for those of an older file that is the newest hour it holds.
_VERSION_4 = """
ALTER TABLE cameras ADD COLUMN last_hour INTEGER NOT NULL DEFAULT 0;
UPDATE cameras SET last_hour = (SELECT coalesce(max(hour), 0) FROM hours);
"""

# What edges took, beside what senders say. In an older file no edge has told it.
_VERSION_5 = """
ALTER TABLE quality ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
CREATE TABLE accepted (
    minute_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    producer TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    PRIMARY KEY (minute_ms, kind, camera_ip, recognizer_ip, producer, epoch)
) WITHOUT ROWID;
"""

# Sums for the charts, and duplicates as the store counts them. The cells of an older file
# are summed up by the writer, a slice after each batch (`sums`). NULL: a cell of that file, whose
# duplicates are what is valid and was not stored.
_VERSION_6 = f"""
ALTER TABLE quality ADD COLUMN duplicates INTEGER;
CREATE TABLE quality_sums (
    is_device INTEGER NOT NULL,
    step_ms INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    sent INTEGER NOT NULL,
    accepted INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    valid INTEGER NOT NULL,
    partly_read INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    duplicates INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    PRIMARY KEY (is_device, step_ms, start_ms, kind, camera_ip, recognizer_ip)
) WITHOUT ROWID;
CREATE TABLE quality_sums_rejected (
    is_device INTEGER NOT NULL,
    step_ms INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    recognizer_ip TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (is_device, step_ms, start_ms, kind, camera_ip, recognizer_ip, reason)
) WITHOUT ROWID;
CREATE TABLE latency_sums (
    scope TEXT NOT NULL,
    step_ms INTEGER NOT NULL,
    start_ms INTEGER NOT NULL,
    kind TEXT NOT NULL,
    district_id TEXT NOT NULL,
    camera_ip TEXT NOT NULL,
    buckets TEXT NOT NULL,
    PRIMARY KEY (scope, step_ms, start_ms, kind, district_id, camera_ip)
) WITHOUT ROWID;
CREATE TABLE summed (id INTEGER PRIMARY KEY CHECK (id = 1), from_ms INTEGER NOT NULL);
INSERT INTO summed SELECT 1, CASE
    WHEN EXISTS (SELECT 1 FROM quality) OR EXISTS (SELECT 1 FROM latency_cells)
    THEN {NONE_SUMMED_MS} ELSE {ALL_SUMMED_MS} END;
"""

# By how much the captures of devices are corrected.
_VERSION_7 = """
CREATE TABLE clocks (camera_ip TEXT PRIMARY KEY, off_ms INTEGER NOT NULL) WITHOUT ROWID;
"""

# One normal form of plates (ADR 0076), and partly read ones in the index. All records are read
# once: a million took 10 s on two busy cores.
_VERSION_8 = f"""
CREATE TEMP TABLE changed AS
SELECT id, captured_at_ms, plate_key AS former, plate_key(plate_number) AS own,
    partly_read_form(plate_number) AS form FROM records WHERE plate_number <> ''
    AND (plate_key <> plate_key(plate_number) OR partly_read_form(plate_number) <> '');
DELETE FROM facets WHERE (hour, facet, value, captured_at_ms, id) IN (
    SELECT captured_at_ms / {HOUR_MS}, {FACET_PLATE}, former, captured_at_ms, id FROM changed
    WHERE former <> '');
UPDATE records SET plate_key = changed.own FROM changed
    WHERE records.id = changed.id AND former <> own;
INSERT INTO facets (hour, facet, value, captured_at_ms, id)
SELECT captured_at_ms / {HOUR_MS}, {FACET_PLATE}, own, captured_at_ms, id FROM changed
    WHERE own <> ''
UNION ALL
SELECT captured_at_ms / {HOUR_MS}, {FACET_PARTLY_READ}, form, captured_at_ms, id FROM changed
    WHERE form <> '' ORDER BY 1, 2, 3, 4;
DROP TABLE changed;
"""

# Plates from their end, so that `*345` and a plate read otherwise in its first half are found.
_VERSION_9 = f"""
INSERT INTO facets (hour, facet, value, captured_at_ms, id)
SELECT hour, {FACET_PLATE_REVERSED}, reversed_text(value), captured_at_ms, id FROM facets
    WHERE facet = {FACET_PLATE};
"""

# What is kept of films.
_VERSION_10 = """
CREATE TABLE video_segments (
    camera_ip TEXT NOT NULL,
    start_ms INTEGER NOT NULL,
    segment_id TEXT NOT NULL,
    end_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (camera_ip, start_ms, segment_id)
) WITHOUT ROWID;
CREATE INDEX video_segments_by_end ON video_segments (end_ms);
"""

# One script per version; a file of version n runs the scripts after the n-th.
_MIGRATIONS = (
    _VERSION_1, _VERSION_2, _VERSION_3, _VERSION_4, _VERSION_5, _VERSION_6, _VERSION_7,
    _VERSION_8, _VERSION_9, _VERSION_10,
)  # fmt: skip


def add_functions(connection: sqlite3.Connection) -> None:
    """What the SQL of this store calls of the domain."""
    for function in (plate_key, plate_form, partly_read_form, reversed_text):
        connection.create_function(function.__name__, 1, function, deterministic=True)


def add_tolerance(connection: sqlite3.Connection, asked: TolerantPlate) -> None:
    """What the SQL of the next statement goes by that asks for a plate that may be misread."""
    for function in (tolerates, tolerates_reversed):
        fits = partial(function, asked)
        connection.create_function(function.__name__, 1, fits, deterministic=True)


def reversed_text(text: str) -> str:
    """From its last character to its first."""
    return text[::-1]


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the file; 0 while it is being created. Raises `StoreError` on a later
    program's file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise StoreError(f"the store has version {version}; this program knows {VERSION} at most")
    return version


def fit_cache(connection: sqlite3.Connection, rows: int) -> None:
    """Before a batch of so many rows; pages beyond a smaller bound are freed at once."""
    kib = LARGE_CACHE_KIB if rows >= LARGE_BATCH_ROWS else CACHE_KIB
    connection.execute(f"PRAGMA cache_size = -{kib}")


def prepare(connection: sqlite3.Connection) -> None:
    """Create or bring up to date; each version in its own transaction with its number."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {CHECKPOINT_PAGES * PAGE_BYTES}")
    add_functions(connection)
    fit_cache(connection, 0)
    for number in range(version_of(connection), VERSION):
        script = _MIGRATIONS[number]
        connection.executescript(f"BEGIN; {script} PRAGMA user_version = {number + 1}; COMMIT;")
