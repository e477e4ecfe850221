"""The watch's own file: incidents, notices that are not delivered yet, habits. SQLite, one writer.

In: changes. Out: what is to be published, notified, resumed. An incident and its notices are
written in one transaction, so that a kill loses neither or both. Never: a record of the bus.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bus.contracts.alarms import Incident
from bus.files.lock_file import hold_lock_file
from bus.files.sqlite_transaction import immediate_transaction
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import NOTICES, NoticeResult, NoticeTable
from monitor.watch.senders import SavedHabit

VERSION = 1
BUSY_S = 1.0  # somebody looks at it; then the change waits in memory and is written again
KEEP_MS = 90 * 24 * 3_600_000  # of incidents that have ended and were told
Members = Sequence[tuple[str, str]]
_MEMBERS = msgspec.json.Decoder(list[tuple[str, str]])

_TABLES = f"""
CREATE TABLE incidents (
    id INTEGER PRIMARY KEY,
    incident_id TEXT NOT NULL, state TEXT NOT NULL,  -- one row each for its opening and its end
    body BLOB NOT NULL, members BLOB NOT NULL, at_ms INTEGER NOT NULL,
    published INTEGER NOT NULL DEFAULT 0,
    UNIQUE (incident_id, state)
);
CREATE INDEX incidents_unpublished ON incidents (id) WHERE published = 0;
{NOTICES}CREATE TABLE habits (
    scope TEXT NOT NULL, address TEXT NOT NULL, server TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (scope, address)
) WITHOUT ROWID;
"""


class IncidentFileError(Exception):
    """The file cannot be opened, read or written just now; the text says why."""


class IncidentFile:
    """The one writer, for any thread. Invariant: between calls no transaction is open."""

    def __init__(self, path: Path, plan: NoticePlan) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.Lock()
        self.notices = NoticeTable(self._transaction, plan)
        try:
            self._lock_file = hold_lock_file(path.with_name(path.name + ".lock"))
        except BlockingIOError:
            raise IncidentFileError(f"{path} is written by another watch; stop that one") from None
        with self._errors():
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=BUSY_S
            )
            self._prepare()

    def open_incidents(self) -> list[tuple[Incident, Members]]:
        """Those without an end, with who belongs to them."""
        rows = self._rows(
            "SELECT body, members FROM incidents AS o WHERE state = 'open' AND NOT EXISTS"
            " (SELECT 1 FROM incidents WHERE incident_id = o.incident_id AND state = 'closed')"
            " ORDER BY id"
        )
        return [
            (msgspec.json.decode(body, type=Incident), _MEMBERS.decode(members))
            for body, members in rows
        ]

    def habits(self) -> Iterator[SavedHabit]:
        """What was learnt, row by row: all at once they would need as much again."""
        with self._lock, self._errors():
            for row in self._db.execute("SELECT scope, address, server, body FROM habits"):
                yield SavedHabit(*row)

    def add(
        self, changes: Iterable[tuple[Incident, Members]], now_ms: int,
        results: Iterable[NoticeResult] = (),
    ) -> None:  # fmt: skip
        """Openings and ends, each with a notice to every notifier; once by id and state. `results`:
        what has become of their notices while this file would not take them."""
        with self._transaction():
            for incident, members in changes:
                body = msgspec.json.encode(incident)
                added = self._db.execute(
                    "INSERT OR IGNORE INTO incidents (incident_id, state, body, members, at_ms)"
                    " VALUES (?, ?, ?, ?, ?)",
                    (incident.incident_id, incident.state, body, msgspec.json.encode(members),
                     now_ms),
                )  # fmt: skip
                if added.rowcount:
                    self.notices.add_incident(self._db, incident, body, now_ms)
            self.notices.take_over(self._db, results)

    def save(
        self, habits: Iterable[SavedHabit], members: Iterable[tuple[str, Members]], now_ms: int
    ) -> None:
        """What was learnt since, who has joined open incidents; drop what is old and done."""
        with self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO habits (scope, address, server, body) VALUES (?, ?, ?, ?)",
                ((one.scope, one.address, one.server, one.body) for one in habits),
            )
            self._db.executemany(
                "UPDATE incidents SET members = ? WHERE incident_id = ? AND state = 'open'",
                [(msgspec.json.encode(found), name) for name, found in members],
            )
            before = (now_ms - KEEP_MS,)
            self._db.execute(
                "DELETE FROM incidents WHERE published AND at_ms < ? AND incident_id IN"
                " (SELECT incident_id FROM incidents WHERE state = 'closed')", before,
            )  # fmt: skip
            self._db.execute("DELETE FROM notices WHERE outcome <> '' AND made_at_ms < ?", before)

    def forget_habits(self, names: Iterable[tuple[str, str]]) -> None:
        """Of devices that were taken away."""
        self._many("DELETE FROM habits WHERE scope = ? AND address = ?", list(names))

    def unpublished(self, limit: int) -> list[tuple[int, Incident]]:
        """Openings and ends that are not known to be on their topic, oldest first."""
        rows = self._rows(
            "SELECT id, body FROM incidents WHERE published = 0 ORDER BY id LIMIT ?", limit
        )
        return [(row_id, msgspec.json.decode(body, type=Incident)) for row_id, body in rows]

    def mark_published(self, row_id: int) -> None:
        """It is on its topic."""
        self._many("UPDATE incidents SET published = 1 WHERE id = ?", [(row_id,)])

    def close(self) -> None:
        """Close, and let another watch in."""
        with self._lock:
            self._db.close()
            self._lock_file.close()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA cache_size = -1024")  # a megabyte: the process has 60
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > VERSION:
            raise IncidentFileError(
                f"{self._path} has version {found}, this program knows {VERSION}"
            )
        if found == 0:
            self._db.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")

    def _rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, self._errors():
            return self._db.execute(sql, values).fetchall()

    def _many(self, sql: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._transaction():
            self._db.executemany(sql, rows)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors(), immediate_transaction(self._db):
            yield self._db

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise IncidentFileError(f"{self._path}: {error}") from error
