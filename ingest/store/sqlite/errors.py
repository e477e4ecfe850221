"""SQLite's exceptions as the port's: the one place where they are converted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.store.port import StoreError, StoreUnavailable

# Conditions of the machine, not of the file: the same call succeeds when they have passed.
_PASSING = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
    }
)
_FULL = "the disk (or its quota) is full; it goes on by itself when there is room"


@contextmanager
def sqlite_errors(path: object) -> Iterator[None]:
    """Convert what SQLite raises inside."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extended part
        text = _FULL if code == sqlite3.SQLITE_FULL else str(error)
        kind = StoreUnavailable if code in _PASSING else StoreError
        raise kind(f"{path}: {text}") from error
