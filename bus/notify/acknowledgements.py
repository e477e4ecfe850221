"""Which alarms and incidents somebody has taken in hand: what is acknowledged escalates no more.

A file of its own, which console, command line, dispatcher and watch share: SQLite lets one write at
a time. Not a topic, because that the bus is away must be acknowledged, too; the dispatcher says on
`event.acknowledged` what is in it, for another site. Out: who. Never: a change of an alarm or an
incident.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from bus.contracts.alarms import Acknowledged
from bus.notify.notice_table import OPEN
from bus.settings import SiteSettings

BUSY_S = 5.0  # a write takes milliseconds; after this somebody holds the file
KEEP_MS = 30 * 24 * 3_600_000  # nothing escalates so late
MAX_NAME = 200

_TABLE = """
CREATE TABLE IF NOT EXISTS acknowledged (
    id TEXT PRIMARY KEY, by_whom TEXT NOT NULL, at_ms INTEGER NOT NULL
) WITHOUT ROWID
"""
_HAS_TABLE = "SELECT 1 FROM sqlite_schema WHERE name = 'acknowledged'"


class AcknowledgementsUnavailable(Exception):
    """The file cannot be read or written just now; the text says why."""


class Acknowledgements:
    """Opened anew for each question: they are rare, and a file that was removed is no trap."""

    def __init__(self, site: SiteSettings) -> None:
        self._path: Path = site.data_path / "notices" / "acknowledged.db"

    def add(self, name: str, by_whom: str, now_ms: int) -> str:
        """Note it; whoever was first stays. Returns who that is."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect(self._path)) as db, db:
                db.execute(_TABLE)
                db.execute("DELETE FROM acknowledged WHERE at_ms < ?", (now_ms - KEEP_MS,))
                db.execute(
                    "INSERT OR IGNORE INTO acknowledged VALUES (?, ?, ?)",
                    (name, by_whom[:MAX_NAME], now_ms),
                )
                (found,) = db.execute(
                    "SELECT by_whom FROM acknowledged WHERE id = ?", (name,)
                ).fetchone()
        except (sqlite3.Error, OSError) as error:
            raise AcknowledgementsUnavailable(f"{self._path}: {error}") from error
        return str(found)

    def who(self, subject: str) -> str:
        """Who has taken in hand what a notice is about; empty: nobody. Never for an end."""
        rows = self._read(
            "SELECT by_whom FROM acknowledged WHERE id IN (?, ?)",
            (subject, subject.removesuffix(OPEN)),
        )
        return str(rows[0][0]) if rows else ""

    def since(self, since_ms: int) -> list[Acknowledged]:
        """Those made since then, oldest first."""
        rows = self._read(
            "SELECT id, by_whom, at_ms FROM acknowledged WHERE at_ms >= ? ORDER BY at_ms",
            (since_ms,),
        )
        return [Acknowledged(id=name, by_whom=who, at_ms=at) for name, who, at in rows]

    def all_names(self) -> dict[str, str]:
        """Who, by the id of an alarm or an incident; of the last `KEEP_MS`."""
        rows = self._read("SELECT id, by_whom FROM acknowledged")
        return {str(name): str(by_whom) for name, by_whom in rows}

    def _read(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """None while the file or, in another process, its table is still being made."""
        if not self._path.exists():
            return []
        try:
            with closing(self._connect(self._path)) as db:
                if db.execute(_HAS_TABLE).fetchone() is None:
                    return []
                return db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise AcknowledgementsUnavailable(f"{self._path}: {error}") from error

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        return sqlite3.connect(path, timeout=BUSY_S)
