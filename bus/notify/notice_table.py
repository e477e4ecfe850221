"""Notices that wait for their notifier: a table in a file of whoever queues them. SQLite.

In: what happened, within the transaction that stores it, so that a kill loses neither or both. Out:
what is due. Never: a connection of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import msgspec

from bus.contracts.alarms import Alarm, Incident, NoticeDigest
from bus.notify.notice_digest import MOST_SINGLE, RepeatedNotice, digest_of, event_of
from bus.notify.notice_plan import NoticePlan

SENT = "sent"
NEVER_MS = 1 << 62
"""When a notice is tried that a digest stands for: what becomes of the digest becomes of it."""
DIGEST = "digest:"  # what the subjects of digests begin with
OPEN, CLOSED = ":open", ":closed"  # what follows the id in the subjects of incidents

NOTICES = """
CREATE TABLE notices (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL, notifier TEXT NOT NULL, body BLOB NOT NULL,
    made_at_ms INTEGER NOT NULL, next_at_ms INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '',  -- '' waiting, 'sent', or why it was not
    UNIQUE (subject, notifier)
);
CREATE INDEX notices_due ON notices (notifier, next_at_ms) WHERE outcome = '';
"""

_INSERT = (
    "INSERT OR IGNORE INTO notices (subject, notifier, body, made_at_ms, next_at_ms)"
    " VALUES (?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that one notifier still has to send. `made_at_ms`: when it was to be sent first."""

    notifier: str
    subject: str
    body: bytes
    made_at_ms: int
    attempts: int


@dataclass(frozen=True, slots=True)
class NoticeResult:
    """What has become of a notice after its attempts so far: its `outcome`, or (where that is
    empty) when it is tried next."""

    notice: Notice
    next_at_ms: int = 0
    outcome: str = ""


class NoticeTable:
    """For any thread, as far as `transaction` is. Raises what that raises."""

    def __init__(
        self,
        transaction: Callable[[], AbstractContextManager[sqlite3.Connection]],
        plan: NoticePlan,
    ) -> None:
        self._transaction = transaction
        self._plan = plan

    def add(
        self, db: sqlite3.Connection, subject: str, body: bytes, severity: str, now_ms: int,
        event: Alarm | Incident,
    ) -> None:
        """What has begun, within a transaction; once by subject and notifier."""
        due = self._plan.first_attempts(severity, now_ms, event)
        db.executemany(
            _INSERT, [(subject, name, body, at_ms, at_ms) for name, at_ms in due.items()]
        )

    def add_incident(
        self, db: sqlite3.Connection, incident: Incident, body: bytes, now_ms: int
    ) -> None:
        """Its opening or its end, within a transaction."""
        if incident.state == "open":
            subject = incident.incident_id + OPEN
            self.add(db, subject, body, incident.severity, now_ms, incident)
        else:
            self._add_end(db, incident, body, now_ms)

    def _add_end(
        self, db: sqlite3.Connection, incident: Incident, body: bytes, now_ms: int
    ) -> None:
        """The end of an incident, within a transaction: it escalates no more, and whom its opening
        has reached by escalation learns of the end, too."""
        opening = incident.incident_id + OPEN
        self.withdraw(db, opening, "ended")
        sent = db.execute(
            "SELECT notifier FROM notices WHERE subject = ? AND outcome = ?", (opening, SENT)
        )
        due = self._plan.of_end(incident, now_ms, {name for (name,) in sent})
        subject = incident.incident_id + CLOSED
        db.executemany(
            _INSERT, [(subject, name, body, at_ms, at_ms) for name, at_ms in due.items()]
        )

    def add_repeated(
        self, db: sqlite3.Connection, notifier: str, repeated: RepeatedNotice, now_ms: int
    ) -> None:
        """One that may have been sent before, within a transaction; an escalation waits as long as
        a new one."""
        due = self._plan.first_attempts(repeated.severity, now_ms, repeated.event)
        at_ms = due[notifier]
        db.execute(_INSERT, (repeated.subject, notifier, repeated.body, at_ms, at_ms))

    def add_digest(
        self,
        db: sqlite3.Connection,
        notifier: str,
        digest: NoticeDigest,
        subjects: Iterable[str],
        now_ms: int,
    ) -> None:
        """One notice that stands for those of all the subjects, within a transaction."""
        at_ms = self._plan.at(notifier, digest.severity, now_ms)
        body = msgspec.json.encode(digest)
        db.execute(_INSERT, (digest.digest_id, notifier, body, at_ms, at_ms))
        stands_for = digest.digest_id.encode()
        db.executemany(
            _INSERT, [(subject, notifier, stands_for, now_ms, NEVER_MS) for subject in subjects]
        )

    def subjects_known(self, db: sqlite3.Connection, notifier: str) -> set[str]:
        """Of which this notifier has a notice, whatever became of it."""
        rows = db.execute("SELECT subject FROM notices WHERE notifier = ?", (notifier,))
        return {subject for (subject,) in rows}

    def withdraw(self, db: sqlite3.Connection, subject: str, why: str) -> None:
        """It escalates no more, within a transaction."""
        db.executemany(
            "UPDATE notices SET outcome = ? WHERE subject = ? AND notifier = ? AND outcome = ''",
            [(why, subject, name) for name in self._plan.escalations],
        )

    def due(self, notifier: str, now_ms: int, limit: int) -> list[Notice]:
        """Notices of one notifier that are due, oldest first."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT notifier, subject, body, made_at_ms, attempts FROM notices"
                " WHERE notifier = ? AND outcome = '' AND next_at_ms <= ? ORDER BY id LIMIT ?",
                (notifier, now_ms, limit),
            ).fetchall()
        return [Notice(*row) for row in rows]

    def give_up_oldest(self, notifier: str, keep: int) -> int:
        """Of more than `keep` that wait; how many."""
        with self._transaction() as db:
            done = db.execute(
                "UPDATE notices SET outcome = 'given up: too many wait'"
                " WHERE notifier = :notifier AND outcome = '' AND id <= (SELECT id FROM notices"
                " WHERE notifier = :notifier AND outcome = '' ORDER BY id DESC"
                " LIMIT 1 OFFSET :keep)",
                {"notifier": notifier, "keep": keep},
            )
        return done.rowcount

    def record(self, result: NoticeResult) -> None:
        """What has become of an attempt."""
        with self._transaction() as db:
            self.take_over(db, [result])

    def take_over(self, db: sqlite3.Connection, results: Iterable[NoticeResult]) -> None:
        """What has become of notices, within a transaction; of a digest: and of all in it."""
        results = list(results)
        db.executemany(
            "UPDATE notices SET outcome = ?, next_at_ms = ?, attempts = ?"
            " WHERE subject = ? AND notifier = ?",
            [
                (one.outcome, one.next_at_ms, one.notice.attempts, one.notice.subject,
                 one.notice.notifier)
                for one in results
            ],
        )  # fmt: skip
        db.executemany(
            "UPDATE notices SET outcome = ? WHERE notifier = ? AND outcome = '' AND next_at_ms = ?"
            " AND body = ?",
            [
                (f"{one.outcome} in {one.notice.subject}", one.notice.notifier, NEVER_MS,
                 one.notice.subject.encode())
                for one in results
                if one.outcome and one.notice.subject.startswith(DIGEST)
            ],
        )  # fmt: skip


def after_attempt(notice: Notice, next_at_ms: int, outcome: str = "") -> NoticeResult:
    """One attempt more."""
    return NoticeResult(replace(notice, attempts=notice.attempts + 1), next_at_ms, outcome)


def mark_repeated(db: sqlite3.Connection, now_ms: int) -> int:
    """All that waits in this file may have been sent since it was copied, within a transaction:
    each is marked, or a digest stands for those of one notifier. How many notices that were."""
    waiting: dict[str, list[tuple[RepeatedNotice, int]]] = {}
    for notifier, subject, body, at_ms in db.execute(
        "SELECT notifier, subject, body, next_at_ms FROM notices"
        " WHERE outcome = '' AND next_at_ms < ? ORDER BY id", (NEVER_MS,),
    ).fetchall():  # fmt: skip
        notice = RepeatedNotice(subject, event_of(body))
        waiting.setdefault(notifier, []).append((notice, at_ms))
    for notifier, found in waiting.items():
        changed = [(one.body, at_ms, one.subject, notifier) for one, at_ms in found]
        if len(found) > MOST_SINGLE:
            digest = digest_of(f"{DIGEST}{now_ms}", [one for one, _ in found])
            at_ms = min(at_ms for _, at_ms in found)
            body = msgspec.json.encode(digest)
            db.execute(_INSERT, (digest.digest_id, notifier, body, max(at_ms, now_ms), at_ms))
            stands_for = digest.digest_id.encode()
            changed = [(stands_for, NEVER_MS, one.subject, notifier) for one, _ in found]
        db.executemany(
            "UPDATE notices SET body = ?, next_at_ms = ? WHERE subject = ? AND notifier = ?",
            changed,
        )
    return sum(map(len, waiting.values()))
