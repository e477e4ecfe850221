"""A file with nothing but notices, for the tests of this folder."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bus.contracts.alarms import Incident
from bus.files.sqlite_transaction import immediate_transaction
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import NOTICES, NoticeTable

INCIDENT = Incident(incident_id="i", kind="latency", state="open", opened_at_ms=1)
"""What these notices are about, wherever it makes no difference."""


class NoticeFile:
    """As the operations store and the watch's file keep them."""

    def __init__(self, path: Path, plan: NoticePlan) -> None:
        self._lock = threading.Lock()
        self.db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self.db.executescript(NOTICES)
        self.notices = NoticeTable(self.transaction, plan)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, immediate_transaction(self.db):
            yield self.db

    def add(self, subject: str, now_ms: int, severity: str = "warning", body: bytes = b"{}") -> None:
        with self.transaction() as db:
            self.notices.add(db, subject, body, severity, now_ms, INCIDENT)

    def due_at(self, now_ms: int) -> list[tuple[str, str]]:
        """(notifier, subject) of all that would be sent then."""
        rows = self.db.execute("SELECT DISTINCT notifier FROM notices ORDER BY notifier")
        return [
            (name, notice.subject)
            for (name,) in rows.fetchall()
            for notice in self.notices.due(name, now_ms, 100)
        ]

    def close(self) -> None:
        with self._lock:  # SQLite dies where another thread commits meanwhile
            self.db.close()
