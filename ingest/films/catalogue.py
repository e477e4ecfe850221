"""The recorder's own table of segments (SQLite): what is on the disk, and what the bus has of it.

In: segments. Out: what is to be announced, the oldest that may be deleted, where a camera's film
ended. Durable when a call returns. Never: a row of a file that is not on the device yet.

The steps of a segment: its file is synced and has no name (`closing`), has its name (`stored`), is
being removed (`deleting`), is gone (`deleted`). What a kill leaves in between is continued at the
next start.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from bus.contracts.video_segments import VideoSegment
from bus.files.sqlite_transaction import immediate_transaction
from ingest.films.retention import KeptSegment

CLOSING, STORED, DELETING, DELETED, GAP = "closing", "stored", "deleting", "deleted", "gap"
KEEP_TOLD_MS = 7 * 24 * 3600 * 1000
_VERSION = 1
_SCHEMA = """
CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    segment_id TEXT NOT NULL UNIQUE,
    camera_ip TEXT NOT NULL,
    start_ms INTEGER NOT NULL,
    end_ms INTEGER NOT NULL,
    size_bytes INTEGER NOT NULL,
    step TEXT NOT NULL,
    is_announced INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX segments_by_end ON segments (end_ms) WHERE step = 'stored';
CREATE INDEX segments_by_camera ON segments (camera_ip, end_ms);
CREATE INDEX segments_to_announce ON segments (id) WHERE is_announced = 0;
PRAGMA user_version = 1;
"""
_segments = msgspec.json.Decoder(VideoSegment)


class CatalogueRow(NamedTuple):
    """A segment with its step and its number in the table."""

    number: int
    step: str
    segment: VideoSegment


class FilmCatalogue:
    """One connection; calls from several threads take turns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=30
        )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with immediate_transaction(self._db):
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version > _VERSION:
                raise ValueError(f"{path} has version {version}; this program knows {_VERSION}")
            if not version:
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._db.execute(statement)

    def put(self, segment: VideoSegment, step: str) -> bool:
        """A new one; False where it is there already."""
        values = (
            segment.segment_id, segment.camera_ip, segment.start_ms, segment.end_ms,
            segment.size_bytes, step, msgspec.json.encode(segment),
        )  # fmt: skip
        with self._lock, immediate_transaction(self._db):
            return self._db.execute(
                "INSERT OR IGNORE INTO segments (segment_id, camera_ip, start_ms, end_ms,"
                " size_bytes, step, is_announced, body) VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
                values,
            ).rowcount == 1

    def advance(self, segment: VideoSegment, step: str) -> None:
        """Its next step, of which the bus has to learn."""
        self.put(segment, step)  # of a film that was added while a recorder began
        with self._lock, immediate_transaction(self._db):
            self._db.execute(
                "UPDATE segments SET step = ?, is_announced = 0, body = ? WHERE segment_id = ?",
                (step, msgspec.json.encode(segment), segment.segment_id),
            )

    def drop(self, segment_id: str) -> None:
        """One whose file is not there: it was never announced."""
        with self._lock, immediate_transaction(self._db):
            self._db.execute("DELETE FROM segments WHERE segment_id = ?", (segment_id,))

    def at_step(self, step: str) -> list[VideoSegment]:
        """All at one step."""
        return [row.segment for row in self._rows("WHERE step = ? ORDER BY id", (step,))]

    def to_announce(self, limit: int) -> list[CatalogueRow]:
        """What the bus has not confirmed yet, in the order of the table."""
        return self._rows(
            "WHERE is_announced = 0 AND step IN ('stored', 'deleted', 'gap') ORDER BY id LIMIT ?",
            (limit,),
        )

    def announced(self, rows: Iterable[CatalogueRow]) -> None:
        """The bus has these, at the step that was sent."""
        with self._lock, immediate_transaction(self._db):
            self._db.executemany(
                "UPDATE segments SET is_announced = 1 WHERE id = ? AND step = ?",
                [(row.number, row.step) for row in rows],
            )

    def forget(self, before_ms: int, limit: int = 1_000) -> int:
        """Rows of what is gone and told; how many went. The newest of each camera stays."""
        with self._lock, immediate_transaction(self._db):
            return self._db.execute(
                "DELETE FROM segments WHERE id IN (SELECT id FROM segments AS old"
                " WHERE step IN ('deleted', 'gap') AND is_announced = 1 AND end_ms < ?"
                " AND end_ms < (SELECT max(end_ms) FROM segments WHERE camera_ip = old.camera_ip)"
                " LIMIT ?)",
                (before_ms, limit),
            ).rowcount

    def oldest(self) -> Iterator[KeptSegment]:
        """What may be deleted, the oldest first."""
        at, number = -1, -1
        while True:
            with self._lock:
                found = self._db.execute(
                    "SELECT segment_id, camera_ip, end_ms, size_bytes, id FROM segments"
                    " WHERE step = 'stored' AND (end_ms, id) > (?, ?)"
                    " ORDER BY end_ms, id LIMIT 500",
                    (at, number),
                ).fetchall()
            if not found:
                return
            for *values, row_id in found:
                yield KeptSegment(*values)
                at, number = values[2], row_id

    def segment(self, segment_id: str) -> VideoSegment | None:
        """One by its id."""
        found = self._rows("WHERE segment_id = ?", (segment_id,))
        return found[0].segment if found else None

    def used_bytes(self) -> int:
        """What all films take that are not deleted yet."""
        with self._lock:
            row = self._db.execute(
                "SELECT coalesce(sum(size_bytes), 0) FROM segments WHERE step <> 'deleted'"
            ).fetchone()
        return int(row[0])

    def last_end_ms(self, camera_ip: str) -> int | None:
        """Where the recorded film of a camera, or what was told of it, ends."""
        with self._lock:
            row = self._db.execute(
                "SELECT max(end_ms) FROM segments WHERE camera_ip = ?", (camera_ip,)
            ).fetchone()
        return None if row[0] is None else int(row[0])

    def close(self) -> None:
        """Release the file."""
        with self._lock:
            self._db.close()

    def _rows(self, where: str, values: tuple[object, ...]) -> list[CatalogueRow]:
        with self._lock:
            found = self._db.execute(f"SELECT id, step, body FROM segments {where}", values)
            return [CatalogueRow(n, step, _segments.decode(body)) for n, step, body in found]
