"""Accounts: names, roles and password hashes. There is no default account or password; an empty
store admits no one."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bus.domain.visibility import MAX_DISTRICTS, MAX_UNIT_CHARACTERS, is_unit_name
from monitor.accounts.database import AccountDatabase
from monitor.accounts.errors import AccountError
from monitor.accounts.passwords import UNKNOWN_ACCOUNT, hash_password, verify_password
from monitor.accounts.roles import (
    ADMINISTRATOR,
    AccountRole,
    ConsolePrincipal,
    parse_roles,
    roles_text,
)

_COLUMNS = "name, roles, password, unit, districts"
_NAME = re.compile(r"[\w.@-]{1,64}")


def is_account_name(name: str) -> bool:
    """Whether an account may have it."""
    return _NAME.fullmatch(name) is not None


def districts_text(unit: str, districts: Iterable[str]) -> str:
    """As they are stored, beside a unit that may be stored. Raises `AccountError`."""
    if unit and not is_unit_name(unit):
        raise AccountError(
            f"a unit has 1 to {MAX_UNIT_CHARACTERS} characters, no comma, semicolon, quotation mark"
            ", * or | among them", "unit",
        )  # fmt: skip
    ids = tuple(dict.fromkeys(one.strip() for one in districts if one.strip()))
    if len(ids) > MAX_DISTRICTS or any("," in one or not one.isprintable() for one in ids):
        raise AccountError(
            f"at most {MAX_DISTRICTS} ids of districts, none with a comma", "districts"
        )
    return ",".join(ids)


def credential_of(line: str) -> str:
    """What a session knows of the password it began with: a new one has another."""
    return hashlib.sha256(line.encode()).hexdigest()


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One person. `password` is the line of `monitor.accounts.passwords`."""

    name: str
    roles: tuple[AccountRole, ...]
    password: str
    unit: str = ""
    districts: tuple[str, ...] = ()

    def principal(self, session: str = "") -> ConsolePrincipal:
        """Who asks with it."""
        return ConsolePrincipal(
            name=self.name, roles=frozenset(self.roles), session=session, unit=self.unit,
            districts=self.districts,
        )  # fmt: skip


class AccountStore:
    """Accounts in the file that all processes share; a change counts from the next question on.

    Every method raises `AccountsUnavailable`. Those that change something wait for the disk and for
    other processes, so the event loop must not call them.
    """

    def __init__(self, data_path: Path) -> None:
        self.database = AccountDatabase(data_path)

    def accounts(self) -> tuple[Account, ...]:
        """All accounts in the order they were added."""
        rows = self.database.read(f"SELECT {_COLUMNS} FROM accounts ORDER BY id")
        return tuple(self._account(*row) for row in rows)

    def add(self, name: str, password: str, roles: Iterable[AccountRole]) -> None:
        """Add a person. Raises `AccountError`, `WeakPassword`."""
        if not is_account_name(name):
            raise AccountError("a name has 1 to 64 letters, digits or . _ @ -", "name")
        text = _some_roles(roles)
        line = hash_password(password)
        with self.database.transaction() as connection:
            if _exists(connection, name):
                raise AccountError(f"there is already an account {name}", "taken")
            connection.execute(
                "INSERT INTO accounts (name, roles, password) VALUES (?, ?, ?)", (name, text, line)
            )

    def set_password(self, name: str, password: str) -> None:
        """Replace a password. Raises `AccountError`, `WeakPassword`."""
        line = hash_password(password)
        with self.database.transaction() as connection:
            _check_exists(connection, name)
            connection.execute("UPDATE accounts SET password = ? WHERE name = ?", (line, name))

    def change_password(self, name: str, before: str, password: str, session: str) -> None:
        """By its owner, who has shown the one of the line `before`: this session goes on, the
        others of the account end. Raises `AccountError`, `WeakPassword`.
        """
        line = hash_password(password)
        with self.database.transaction() as connection:
            changed = connection.execute(
                "UPDATE accounts SET password = ? WHERE name = ? AND password = ?",
                (line, name, before),
            )
            if changed.rowcount == 0:
                raise AccountError(f"somebody else has just changed {name}", "meanwhile")
            connection.execute(
                "UPDATE sessions SET credential = ? WHERE id_hash = ? AND name = ? AND account = 1",
                (credential_of(line), session, name),
            )

    def set_roles(
        self, name: str, roles: Iterable[AccountRole], *, keeps_administrator: bool = False
    ) -> None:
        """Replace what a person may. Raises `AccountError`; with `keeps_administrator`, if nobody
        would be left to change accounts, too.
        """
        text = _some_roles(roles)
        with self.database.transaction() as connection:
            _check_exists(connection, name)
            connection.execute("UPDATE accounts SET roles = ? WHERE name = ?", (text, name))
            if keeps_administrator:
                _check_administrator(connection)

    def set_unit(self, name: str, unit: str, districts: Iterable[str]) -> None:
        """Replace whose rules a person sees, and of which districts he is told first (empty: of
        all). Raises `AccountError`."""
        text = districts_text(unit, districts)
        with self.database.transaction() as connection:
            _check_exists(connection, name)
            connection.execute(
                "UPDATE accounts SET unit = ?, districts = ? WHERE name = ?", (unit, text, name)
            )

    def remove(self, name: str, *, keeps_administrator: bool = False) -> None:
        """Remove a person. Raises `AccountError`, as `set_roles` does."""
        with self.database.transaction() as connection:
            _check_exists(connection, name)
            connection.execute("DELETE FROM accounts WHERE name = ?", (name,))
            connection.execute("DELETE FROM log_ins WHERE name = ?", (name,))
            if keeps_administrator:
                _check_administrator(connection)

    def last_log_ins(self) -> dict[str, int]:
        """When somebody last logged in at this console, by account."""
        return dict(self.database.read("SELECT name, last_ms FROM log_ins"))

    def find(self, name: str) -> Account | None:
        """The account of a name."""
        rows = self.database.read(f"SELECT {_COLUMNS} FROM accounts WHERE name = ?", name)
        return self._account(*rows[0]) if rows else None

    def verify(self, name: str, password: str) -> ConsolePrincipal | None:
        """The principal if the password fits. Takes as long for an unknown name. Blocks for
        scrypt's time.
        """
        account = self.find(name)
        fits = verify_password(password, account.password if account else UNKNOWN_ACCOUNT)
        if account is None or not fits:
            return None
        return account.principal()

    def close(self) -> None:
        """Release the file; a later use opens it again."""
        self.database.close()

    def _account(
        self, name: str, roles: str, password: str, unit: str, districts: str
    ) -> Account:
        return Account(
            name=name, roles=self.database.roles(roles), password=password, unit=unit,
            districts=tuple(filter(None, districts.split(","))),
        )  # fmt: skip


def _exists(connection: sqlite3.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone())


def _check_exists(connection: sqlite3.Connection, name: str) -> None:
    if not _exists(connection, name):
        raise AccountError(f"there is no account {name}", "gone")


def _some_roles(roles: Iterable[AccountRole]) -> str:
    text = roles_text(roles)
    if not text:
        raise AccountError("an account needs at least one role", "roles")
    return text


def _check_administrator(connection: sqlite3.Connection) -> None:
    """After a change, in its transaction: two people cannot remove each other."""
    rows = connection.execute("SELECT roles FROM accounts").fetchall()
    if not any(ADMINISTRATOR in parse_roles(roles) for (roles,) in rows):
        raise AccountError(
            f"nobody with the role {ADMINISTRATOR.value} would be left to change accounts", "last"
        )
