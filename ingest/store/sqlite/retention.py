"""What is past its time leaves the file, a slice after each batch.

The writer calls `forget` in a transaction of its own. A slice looks at a bounded number of rows, so
that no batch waits long for it; what it deletes leaves the tables and all their indexes at once,
and a reader sees all of it or nothing. Totals stay: they tell what was stored, not what is there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import product

from bus.contracts.headers import RecordKind
from bus.contracts.topics import DAY_MS
from bus.domain.retention import NEVER_MS, RetentionSettings, past_before_ms
from ingest.store.port import COMMON_STORED
from ingest.store.rollups import ALL, DISTRICT, ODD, STEPS
from ingest.store.sqlite.facets import (
    FACET_CHECKPOINT,
    FACET_KIND,
    FACET_PARTLY_READ,
    FACET_PLATE,
    FACET_PLATE_REVERSED,
    HOUR_MS,
)

REST_MS = 60_000  # a slice that found nothing is followed by no other for so long
# The walk over the commonest kind goes on where it ended, and begins anew once in so long for
# records that came late: kinds that are kept longer lie in its way.
ROUND_MS = DAY_MS
_OLDEST = """
SELECT captured_at_ms, id, kind, plate_key, checkpoint_id, partly_read_form(plate_number)
FROM records WHERE (captured_at_ms, id) > (?, ?) AND captured_at_ms < ?
ORDER BY captured_at_ms, id LIMIT ?
"""
_OLDEST_OF_KIND = f"""
SELECT r.captured_at_ms, r.id, r.kind, r.plate_key, r.checkpoint_id,
    partly_read_form(r.plate_number)
FROM hours h CROSS JOIN facets f ON f.hour = h.hour AND f.facet = {FACET_KIND} AND f.value = ?
    CROSS JOIN records r ON r.id = f.id
WHERE f.captured_at_ms < ? AND h.hour <= ? / {HOUR_MS} ORDER BY h.hour, f.captured_at_ms LIMIT ?
"""
_FACET = f"""
DELETE FROM facets WHERE hour = ? / {HOUR_MS} AND facet = ? AND value = ? AND captured_at_ms = ?
    AND id = ?
"""
_EMPTY_HOUR = """
DELETE FROM hours WHERE hour = ? AND NOT EXISTS (SELECT 1 FROM facets WHERE hour = hours.hour)
"""
_UNSEEN_CAMERAS = f"""
DELETE FROM cameras WHERE last_hour < coalesce((SELECT min(hour) FROM hours), {1 << 62})
"""
_SEGMENTS = """
DELETE FROM video_segments WHERE (camera_ip, start_ms, segment_id) IN (
    SELECT camera_ip, start_ms, segment_id FROM video_segments WHERE end_ms < ?
    ORDER BY end_ms LIMIT ?)
"""
_OLDEST_REJECTED = "SELECT stored_at_ms, id FROM rejected ORDER BY id LIMIT ?"
# The key's columns of each book, the time first. The reasons follow their quality cell in the same
# slice.
_BOOKS = {
    "quality": ("minute_ms", "kind", "camera_ip", "recognizer_ip"),
    "sent": ("minute_ms", "kind", "camera_ip", "recognizer_ip", "producer", "epoch"),
    "accepted": ("minute_ms", "kind", "camera_ip", "recognizer_ip", "producer", "epoch"),
    "latency_cells": ("minute_ms", "kind", "district_id", "camera_ip"),
}
# The key's columns of each table of sums, and all values of the leading one. A sum is past its time
# when the last minute in it is.
_QUALITY_SUM = ("is_device", "step_ms", "start_ms", "kind", "camera_ip", "recognizer_ip")
_SUMS: dict[str, tuple[tuple[str, ...], tuple[object, ...]]] = {
    "quality_sums": (_QUALITY_SUM, (False, True)),
    "quality_sums_rejected": ((*_QUALITY_SUM, "reason"), (False, True)),
    "latency_sums": (
        ("scope", "step_ms", "start_ms", "kind", "district_id", "camera_ip"),
        (ALL, DISTRICT, ODD),
    ),
}
_RARER = tuple(kind.value for kind in RecordKind if kind.value != COMMON_STORED)
_START = (NEVER_MS, 0)
_Record = tuple[int, int, str, str, str, str]


class SqliteRetention:
    """The walk through the file. Invariant: what lies before the cursor was looked at in this
    round; rarer kinds are found by their own index and need none."""

    def __init__(self, db: sqlite3.Connection, keep: RetentionSettings) -> None:
        self._db = db
        self._keep = keep
        self._cursor = _START
        self._round_began_ms = NEVER_MS
        self._rest_until_ms = 0

    def is_due(self, now_ms: int) -> bool:
        """Whether a slice would look at anything now."""
        return now_ms >= self._rest_until_ms and self._keep != RetentionSettings()

    def forget(self, now_ms: int, limit: int) -> int:
        """Delete what is past its time among at most `limit` rows of each table; how many."""
        walked, gone = self._walk(now_ms, limit)
        for kind in _RARER:
            gone += self._of_kind(kind, now_ms, limit)
        if gone:
            self._delete_records(gone)
        more = self._rejected(now_ms, limit) + self._books(now_ms, limit)
        if not (walked or gone or more):
            self._rest_until_ms = now_ms + REST_MS
        return len(gone) + more

    def _walk(self, now_ms: int, limit: int) -> tuple[int, list[_Record]]:
        """The commonest kind, which has no index of its own: rows looked at, and those that go."""
        if now_ms - self._round_began_ms >= ROUND_MS:
            self._cursor, self._round_began_ms = _START, now_ms
        before_ms = past_before_ms(self._keep.record_days(COMMON_STORED), now_ms)
        rows: list[_Record] = self._db.execute(
            _OLDEST, (*self._cursor, before_ms, limit)
        ).fetchall()
        if rows:
            self._cursor = rows[-1][:2]
        return len(rows), [row for row in rows if row[2] == COMMON_STORED]

    def _of_kind(self, kind: str, now_ms: int, limit: int) -> list[_Record]:
        before_ms = past_before_ms(self._keep.record_days(kind), now_ms)
        if before_ms == NEVER_MS:
            return []
        return self._db.execute(_OLDEST_OF_KIND, (kind, before_ms, before_ms, limit)).fetchall()

    def _delete_records(self, rows: Sequence[_Record]) -> None:
        facets = []
        for captured_at_ms, row_id, kind, plate, checkpoint, partly_read in rows:
            end = (captured_at_ms, row_id)
            facets.append((captured_at_ms, FACET_CHECKPOINT, checkpoint, *end))
            if plate:
                facets.append((captured_at_ms, FACET_PLATE, plate, *end))
                facets.append((captured_at_ms, FACET_PLATE_REVERSED, plate[::-1], *end))
            elif partly_read:
                facets.append((captured_at_ms, FACET_PARTLY_READ, partly_read, *end))
            if kind != COMMON_STORED:
                facets.append((captured_at_ms, FACET_KIND, kind, *end))
        facets.sort()  # as they lie: pages of one hour are touched once
        self._db.executemany(_FACET, facets)
        self._db.executemany("DELETE FROM records WHERE id = ?", [(row[1],) for row in rows])
        hours = {int(row[0] / HOUR_MS) for row in rows}  # towards zero, as SQL divides
        if self._db.executemany(_EMPTY_HOUR, [(hour,) for hour in hours]).rowcount:
            self._db.execute(_UNSEEN_CAMERAS)

    def _rejected(self, now_ms: int, limit: int) -> int:
        """The oldest rows are those that were stored first."""
        before_ms = past_before_ms(self._keep.rejected_days, now_ms)
        if before_ms == NEVER_MS:
            return 0
        rows = self._db.execute(_OLDEST_REJECTED, (limit,))
        ids = [(row_id,) for stored_at_ms, row_id in rows if stored_at_ms < before_ms]
        self._db.executemany("DELETE FROM rejected WHERE id = ?", ids)
        return len(ids)

    def _books(self, now_ms: int, limit: int) -> int:
        before_ms = past_before_ms(self._keep.books_days, now_ms)
        if before_ms == NEVER_MS:
            return 0
        books = sum(self._book(table, before_ms, limit) for table in _BOOKS)
        films = self._db.execute(_SEGMENTS, (before_ms, limit)).rowcount
        return books + films + sum(self._sum(table, before_ms, limit) for table in _SUMS)

    def _sum(self, table: str, before_ms: int, limit: int) -> int:
        """At most `limit` of each step and scope, the oldest first."""
        columns, leading = _SUMS[table]
        key = ",".join(columns)
        delete = (
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table}"
            f" WHERE {columns[0]} = ? AND step_ms = ? AND start_ms <= ? ORDER BY start_ms LIMIT ?)"
        )
        return sum(
            self._db.execute(delete, (value, step_ms, before_ms - step_ms, limit)).rowcount
            for value, step_ms in product(leading, STEPS)
        )

    def _book(self, table: str, before_ms: int, limit: int) -> int:
        columns = _BOOKS[table]
        keys = self._db.execute(
            f"SELECT {','.join(columns)} FROM {table} WHERE minute_ms < ?"
            " ORDER BY minute_ms LIMIT ?",
            (before_ms, limit),
        ).fetchall()
        where = " AND ".join(f"{column} = ?" for column in columns)
        self._db.executemany(f"DELETE FROM {table} WHERE {where}", keys)
        if table == "quality":
            self._db.executemany(f"DELETE FROM quality_rejected WHERE {where}", keys)
        return len(keys)
