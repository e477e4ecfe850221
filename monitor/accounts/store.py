"""The account store: names, roles and password hashes in `DATA_DIR/accounts.json`.

In: names, passwords. Out: principals. Never: a default account or password; an empty store lets
nobody in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from monitor.accounts.locked_file import LockedFile
from monitor.accounts.passwords import NOBODY, hash_password, verify_password
from monitor.accounts.roles import Principal, Role

_NAME = re.compile(r"[\w.@-]{1,64}")


class AccountError(Exception):
    """The account store cannot do what was asked; the text is for the person who asked."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """One person. `password` is the line of `monitor.accounts.passwords`."""

    name: str
    roles: tuple[Role, ...]
    password: str


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    accounts: tuple[Account, ...] = ()


class AccountStore:
    """All processes see changes at once: the file is looked at with every question."""

    def __init__(self, data_path: Path) -> None:
        self._file = LockedFile(data_path / "accounts.json", Book)

    def accounts(self) -> tuple[Account, ...]:
        """Everybody, in the order they were added."""
        return self._file.read().accounts

    def add(self, name: str, password: str, roles: Iterable[Role]) -> None:
        """Add a person. Raises `AccountError`, `WeakPassword`."""
        if not _NAME.fullmatch(name):
            raise AccountError("a name has 1 to 64 letters, digits or . _ @ -")
        wanted = tuple(sorted(set(roles), key=list(Role).index))
        if not wanted:
            raise AccountError("an account needs at least one role")
        account = Account(name=name, roles=wanted, password=hash_password(password))

        def edit(book: Book) -> Book:
            if any(a.name == name for a in book.accounts):
                raise AccountError(f"there is already an account {name}")
            return Book(accounts=(*book.accounts, account))

        self._file.change(edit)

    def set_password(self, name: str, password: str) -> None:
        """Replace a password. Raises `AccountError`, `WeakPassword`."""
        line = hash_password(password)

        def edit(book: Book) -> Book:
            _known(book, name)
            return Book(
                accounts=tuple(
                    msgspec.structs.replace(a, password=line) if a.name == name else a
                    for a in book.accounts
                )
            )

        self._file.change(edit)

    def remove(self, name: str) -> None:
        """Remove a person. Raises `AccountError`."""

        def edit(book: Book) -> Book:
            _known(book, name)
            return Book(accounts=tuple(a for a in book.accounts if a.name != name))

        self._file.change(edit)

    def find(self, name: str) -> Account | None:
        """The account of a name."""
        return next((a for a in self.accounts() if a.name == name), None)

    def verify(self, name: str, password: str) -> Principal | None:
        """The principal if the password fits. Takes as long for an unknown name. Blocks for
        scrypt's time.
        """
        account = self.find(name)
        fits = verify_password(password, account.password if account else NOBODY)
        if account is None or not fits:
            return None
        return Principal(name=name, roles=frozenset(account.roles))


def _known(book: Book, name: str) -> None:
    if not any(a.name == name for a in book.accounts):
        raise AccountError(f"there is no account {name}")
