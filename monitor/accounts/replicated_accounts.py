"""Accounts as another site has them: written as a whole, in one transaction.

In: rows of a snapshot, its version. Out: the accounts of both sites in the file. Never: an older
snapshot after a newer one; an account deleted that was in no snapshot before, taken or published.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence

from monitor.accounts.database import AccountDatabase
from monitor.accounts.errors import AccountError
from monitor.accounts.roles import parse_roles
from monitor.accounts.sealing import AccountRow
from monitor.accounts.store import districts_text, is_account_name

VERSION_ROW = ""
"""In `carried_accounts` no account has this name: its row holds the version."""


class ReplicatedAccounts:
    """One file. Every method raises `AccountsUnavailable`, and waits for the disk."""

    def __init__(self, database: AccountDatabase) -> None:
        self._database = database

    def rows(self) -> list[AccountRow]:
        """All accounts by name, as they are sealed."""
        found = self._database.read(
            "SELECT name, roles, password, unit, districts FROM accounts ORDER BY name"
        )
        return [AccountRow(*row) for row in found]

    def version(self) -> int:
        """Of the newest snapshot that was written or published here; -1: none."""
        found = self._database.read(
            "SELECT version FROM carried_accounts WHERE name = ?", VERSION_ROW
        )
        return int(found[0][0]) if found else -1

    def note_version(self, version: int) -> None:
        """This site publishes it now."""
        with self._database.transaction() as db:
            _put(db, [(VERSION_ROW, version)])

    def note_published(self, rows: Iterable[AccountRow], version: int) -> None:
        """It is on the topic: from now on these accounts are both sites', and one that a later
        primary removes is removed here."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM carried_accounts")
            _put(db, [(VERSION_ROW, version), *((row.name, version) for row in rows)])

    def write(self, rows: Sequence[AccountRow], version: int) -> bool:
        """What the other site has; False where a newer one is here. Raises ValueError for a row
        that no console has written."""
        for row in rows:
            if not is_account_name(row.name):
                raise ValueError(f"{row.name[:80]!r} is no name of an account")
            parse_roles(row.roles)
            try:
                districts_text(row.unit, row.districts.split(","))
            except AccountError as error:
                raise ValueError(f"{row.name}: {error}") from None
        with self._database.transaction() as db:
            if version <= _version(db):
                return False
            names = {row.name for row in rows}
            before = {name for (name,) in db.execute("SELECT name FROM carried_accounts")}
            gone = before - names - {VERSION_ROW}
            for table in ("accounts", "log_ins"):
                db.executemany(f"DELETE FROM {table} WHERE name = ?", [(name,) for name in gone])
            db.execute("DELETE FROM carried_accounts")
            db.executemany(
                "INSERT INTO accounts (name, roles, password, unit, districts)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (name)"
                " DO UPDATE SET roles = excluded.roles, password = excluded.password,"
                " unit = excluded.unit, districts = excluded.districts", rows
            )  # fmt: skip
            _put(db, [(VERSION_ROW, version), *((name, version) for name in names)])
            return True


def _version(db: sqlite3.Connection) -> int:
    sql = "SELECT version FROM carried_accounts WHERE name = ?"
    found = db.execute(sql, (VERSION_ROW,)).fetchone()
    return -1 if found is None else int(found[0])


def _put(db: sqlite3.Connection, rows: Iterable[tuple[str, int]]) -> None:
    db.executemany("INSERT OR REPLACE INTO carried_accounts VALUES (?, ?)", rows)

