"""Alarms whose pictures are still to be copied: a table of the operations store. SQLite.

In: an alarm, within the transaction that stores it. Out: which are due, and the alarm with the
addresses of its copies. Never: a picture, a connection of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import msgspec

from bus.contracts.alarms import Alarm
from bus.contracts.pictures import picture_addresses as addresses_in

PICTURE_COPIES = """
CREATE TABLE picture_copies (
    alarm INTEGER PRIMARY KEY, next_at_ms INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX picture_copies_due ON picture_copies (next_at_ms);
"""
MAX_PICTURES = 8  # of one alarm: the contracts know three addresses in a record
MAX_WAITING = 100_000  # alarms; a rule that matches every record must not fill the disk


@dataclass(frozen=True, slots=True)
class WaitingCopies:
    """An alarm with pictures that have not been copied. `row_id` is the alarm's in its table."""

    row_id: int
    alarm: Alarm
    attempts: int


def picture_addresses(alarm: Alarm) -> list[str]:
    """Addresses of pictures that may be ours, each once, the alarm's own first."""
    return addresses_in(alarm.record, alarm.picture_url)[:MAX_PICTURES]


class PictureQueue:
    """For any thread, as far as `transaction` is. Raises what that raises."""

    def __init__(
        self, transaction: Callable[[], AbstractContextManager[sqlite3.Connection]]
    ) -> None:
        self._transaction = transaction
        with transaction() as db:
            self._waiting = _count(db)

    def add(self, db: sqlite3.Connection, row_id: int, alarm: Alarm) -> None:
        """This alarm is stored, within a transaction."""
        if not picture_addresses(alarm):
            return
        if self._waiting >= MAX_WAITING:
            self._waiting = _count(db)
        if self._waiting < MAX_WAITING:
            self._waiting += 1
            db.execute("INSERT INTO picture_copies (alarm, next_at_ms) VALUES (?, 0)", (row_id,))

    def due(self, now_ms: int, limit: int) -> list[WaitingCopies]:
        """Those whose turn it is, the longest due first."""
        with self._transaction() as db:
            rows = db.execute(
                "SELECT alarm, attempts, body FROM picture_copies JOIN alarms ON id = alarm"
                " WHERE next_at_ms <= ? ORDER BY next_at_ms, alarm LIMIT ?",
                (now_ms, limit),
            ).fetchall()
        return [
            WaitingCopies(row_id, msgspec.json.decode(body, type=Alarm), attempts)
            for row_id, attempts, body in rows
        ]

    def settle(self, one: WaitingCopies, copies: Mapping[str, str], next_at_ms: int) -> None:
        """The alarm shows these copies from now on; 0: there is nothing more to be done for it."""
        alarm = msgspec.structs.replace(one.alarm, copies={**one.alarm.copies, **copies})
        with self._transaction() as db:
            if alarm.copies != one.alarm.copies:
                db.execute(
                    "UPDATE alarms SET body = ? WHERE id = ?",
                    (msgspec.json.encode(alarm), one.row_id),
                )
            if next_at_ms:
                db.execute(
                    "UPDATE picture_copies SET next_at_ms = ?, attempts = attempts + 1"
                    " WHERE alarm = ?",
                    (next_at_ms, one.row_id),
                )
                return
            db.execute("DELETE FROM picture_copies WHERE alarm = ?", (one.row_id,))
            self._waiting -= 1


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM picture_copies").fetchone()[0])
