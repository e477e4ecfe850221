"""A SQLite file that one mirror writes, held by a lock file that the kernel frees at its death.

In: a path, the tables of its version. Out: transactions, for any thread. Never: two writers; a file
of a newer program changed.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bus.files.lock_file import hold_lock_file
from bus.files.sqlite_transaction import immediate_transaction

BUSY_S = 2.0


class OneWriterFile:
    """Invariant: between calls no transaction is open."""

    def __init__(
        self, path: Path, tables: str, version: int, unavailable: Callable[[str], Exception],
        without_it: str,
    ) -> None:  # fmt: skip
        """`unavailable` is raised, with a sentence; `without_it`: what happens if the file is moved
        away."""
        self._path = path
        self._unavailable = unavailable
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock_file = hold_lock_file(path.with_name(path.name + ".lock"))
        except BlockingIOError:
            raise unavailable(f"{path} is written by another mirror") from None
        except OSError as error:
            raise unavailable(f"{path}: {error}") from None
        try:
            with self._errors():
                self._db = sqlite3.connect(
                    path, isolation_level=None, check_same_thread=False, timeout=BUSY_S
                )
                self._prepare(tables, version, without_it)
        except BaseException:
            self._lock_file.close()
            raise

    def close(self) -> None:
        """Close it; another mirror may open it."""
        with self._lock:
            self._db.close()
            self._lock_file.close()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one thread at a time. Raises what `unavailable` makes."""
        with self._lock, self._errors():
            yield self._db

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The same; all of it or nothing."""
        with self._lock, self._errors(), immediate_transaction(self._db):
            yield self._db

    def _prepare(self, tables: str, version: int, without_it: str) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA cache_size = -1024")  # a megabyte: copying needs the memory
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > version:
            raise self._unavailable(
                f"{self._path} has version {found}, this program knows {version}; move it away, and"
                f" {without_it}"
            )
        if found == 0:
            self._db.executescript(f"BEGIN; {tables} PRAGMA user_version = {version}; COMMIT;")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.MsgspecError) as error:  # a row of another hand's
            raise self._unavailable(f"{self._path}: {error}") from None
