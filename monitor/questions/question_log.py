"""The file of people's questions, `DATA_DIR/questions.db`: a line each, kept for so many days.

In: questions, one transaction each, from console and command line at once. Out: pages, newest
first; `QuestionsUnavailable`. Never: a question that is said to be kept and is not on the device
(`synchronous = FULL`); an answer, a record.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bus.domain.visibility import EVERY_UNIT, Viewer
from bus.files.sqlite_transaction import immediate_transaction
from monitor.questions.question import PersonQuestion

DAY_MS = 24 * 3_600_000
VERSION = 2
BUSY_S = 5.0  # a write takes milliseconds; after this somebody holds the file
MAX_FORGOTTEN = 500  # of one write, so that nobody waits for a year's lines
MAX_PAGE = 500

_FROM_1 = "ALTER TABLE questions ADD COLUMN unit TEXT NOT NULL DEFAULT ''"
_SCHEMA = (
    """CREATE TABLE questions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    account TEXT NOT NULL,
    issuer TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,  -- JSON: what restricts the question
    reason TEXT NOT NULL,
    case_number TEXT NOT NULL
)""",
    "CREATE INDEX questions_at ON questions (at_ms)",
    "CREATE INDEX questions_account ON questions (account, id)",
    "CREATE INDEX questions_case ON questions (case_number, id)",
    _FROM_1,
)


class QuestionsUnavailable(Exception):
    """The file cannot be written or read now: questions that have to be kept are not answered."""


class StoredQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    id: int
    at_ms: int
    account: str
    issuer: str
    kind: str
    subject: dict[str, str]
    reason: str
    case: str

    @property
    def subject_text(self) -> str:
        """What restricts it, on one line."""
        return "; ".join(f"{name}={value}" for name, value in self.subject.items())


class QuestionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Empty parts restrict nothing. `text`: stands somewhere in what was asked for."""

    account: str = ""
    kind: str = ""
    case: str = ""
    text: str = ""
    from_ms: int = 0
    until_ms: int = 0


class QuestionLog:
    """For any thread; opens the file for each question, because people ask rarely."""

    def __init__(self, data_path: Path, days: int) -> None:
        self.path = data_path / "questions.db"
        self._days = days

    def add(self, question: PersonQuestion, now_ms: int) -> None:
        """Returns when it is on the device. Raises `QuestionsUnavailable`."""
        asker = question.asker
        values = (
            now_ms, asker.account, asker.issuer, question.kind,
            _writable(msgspec.json.encode(question.subject, order="sorted").decode()),
            _writable(asker.reason.strip()), _writable(asker.case.strip()), asker.unit,
        )  # fmt: skip
        with self._errors(), closing(self._connect()) as db, immediate_transaction(db):
            db.execute(
                "INSERT INTO questions (at_ms, account, issuer, kind, subject, reason, case_number,"
                " unit) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
            db.execute(
                "DELETE FROM questions WHERE id IN"
                " (SELECT id FROM questions WHERE at_ms < ? ORDER BY at_ms LIMIT ?)",
                (now_ms - self._days * DAY_MS, MAX_FORGOTTEN),
            )

    def page(
        self, wanted: QuestionFilter, *, viewer: Viewer, limit: int, before_id: int = 0
    ) -> tuple[list[StoredQuestion], int]:
        """Newest first, and from which id the next page goes on; 0: there is none. Of a viewer
        with a unit what that unit's accounts have asked: a question says what they work on. Raises
        `QuestionsUnavailable`."""
        if not self.path.exists():
            return [], 0
        limit = min(limit, MAX_PAGE)
        clauses, values = _where(wanted, before_id)
        if viewer.unit != EVERY_UNIT:
            clauses, values = f"({clauses}) AND unit = ?", [*values, viewer.unit]
        with self._errors(), closing(self._connect()) as db:
            rows = db.execute(
                "SELECT id, at_ms, account, issuer, kind, subject, reason, case_number"
                f" FROM questions WHERE {clauses} ORDER BY id DESC LIMIT ?",
                (*values, limit + 1),
            ).fetchall()
        found = [_kept(row) for row in rows[:limit]]
        return found, found[-1].id if len(rows) > limit else 0

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise QuestionsUnavailable(f"{self.path}: {error}") from error

    def _connect(self) -> sqlite3.Connection:
        """Of a file that is there; readable by its owner only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _migrate(self, db: sqlite3.Connection) -> None:
        version = _version(db)
        if version > VERSION:
            raise QuestionsUnavailable(
                f"{self.path} is of a later version of the product ({version}; this one knows"
                f" {VERSION}): start that version"
            )
        if version == VERSION:
            return
        with immediate_transaction(db):
            found = _version(db)  # another process may have been faster
            statements = _SCHEMA if found == 0 else (_FROM_1,) if found < VERSION else ()
            for statement in statements:
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {VERSION}")


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _where(wanted: QuestionFilter, before_id: int) -> tuple[str, Sequence[object]]:
    parts: list[tuple[str, object]] = [
        ("account = ?", wanted.account), ("kind = ?", wanted.kind),
        ("case_number = ?", wanted.case), ("at_ms >= ?", wanted.from_ms),
        ("at_ms < ?", wanted.until_ms), ("id < ?", before_id),
        ("instr(subject, ?) > 0", wanted.text),
    ]  # fmt: skip
    used = [(clause, value) for clause, value in parts if value]
    return " AND ".join(clause for clause, _ in used) or "1", [value for _, value in used]


def _kept(row: tuple[Any, ...]) -> StoredQuestion:
    number, at_ms, account, issuer, kind, subject, reason, case = row
    return StoredQuestion(
        id=number, at_ms=at_ms, account=account, issuer=issuer, kind=kind,
        subject=msgspec.json.decode(subject, type=dict[str, str]), reason=reason, case=case,
    )  # fmt: skip


def _writable(text: str) -> str:
    """A half of a character that a browser may send cannot be stored."""
    return text.encode("utf-8", "replace").decode()
