"""The SQLite file of accounts, sessions and one-time links, `DATA_DIR/console/accounts.db`.

In: statements, in one short transaction per change, from several processes at once. Out: rows, or
`AccountsUnavailable`. Never: a row's meaning; an answer from a file that is damaged.

The file is in WAL mode, because the console reads it with every request on its event loop, and a
reader of a WAL never waits for a writer. A commit is on the device before it returns
(`synchronous = FULL`), so a used link or an old password does not come back after a power loss.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bus.files.durable_file import sync_folder
from bus.files.file_modes import OTHERS_MASK
from bus.files.sqlite_transaction import immediate_transaction
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.old_files import OldFiles, old_files, read_old_files, rename_old_files
from monitor.accounts.roles import AccountRole, parse_roles

VERSION = 4
WRITE_TIMEOUT_S = 10.0  # a transaction lasts milliseconds; longer means that a process hangs in one
# A reader waits only while another process recovers the file after a crash or closes it as the
# last one; the console's event loop stands still meanwhile.
READ_TIMEOUT_S = 0.25
WAL_RETRY_S = 0.02

_VERSION_1 = (
    """CREATE TABLE accounts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    roles TEXT NOT NULL,  -- values of `AccountRole`, separated by commas
    password TEXT NOT NULL  -- a line of `monitor.accounts.passwords`
)""",
    """CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    id_hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    account INTEGER NOT NULL,  -- 1: valid as long as the account is; 0: the guest of a link
    credential TEXT NOT NULL  -- hash of the account's password line at log-in; empty for a guest
)""",
    """CREATE TABLE links (
    id INTEGER PRIMARY KEY,
    token_hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    expires_at_ms INTEGER NOT NULL
)""",
)
_VERSION_2 = """CREATE TABLE carried_accounts (
    name TEXT PRIMARY KEY,  -- of an account that was in a snapshot; '' for the newest one itself
    version INTEGER NOT NULL
) WITHOUT ROWID"""
_VERSION_3 = """CREATE TABLE log_ins (
    name TEXT PRIMARY KEY,  -- of an account
    last_ms INTEGER NOT NULL  -- when somebody last logged in with it at this console
) WITHOUT ROWID"""
_VERSION_4 = (
    "ALTER TABLE accounts ADD COLUMN unit TEXT NOT NULL DEFAULT ''",
    # Ids of districts, separated by commas; empty: all.
    "ALTER TABLE accounts ADD COLUMN districts TEXT NOT NULL DEFAULT ''",
)
_SINCE_1 = ((_VERSION_2,), (_VERSION_3,), _VERSION_4)
"""What each later version has added."""
# Serialises the creation of files within this process: closing a descriptor of a file drops the
# locks that SQLite holds on it for the whole process.
_creation = threading.Lock()


class AccountDatabase:
    """A connection for reads and one for changes, for any thread: a read on the event loop does not
    wait for a change in another thread. Both are opened when they are first used.
    """

    def __init__(self, data_path: Path) -> None:
        self.path = data_path / "console" / "accounts.db"
        self._data_path = data_path
        self._reader = _Connection(self.path, data_path, READ_TIMEOUT_S, query_only=True)
        self._writer = _Connection(self.path, data_path, WRITE_TIMEOUT_S)

    def read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Every row of one SELECT. Raises `AccountsUnavailable`."""
        with _account_errors(self.path):
            if not self.path.exists() and not old_files(self._data_path):
                return []  # a question creates nothing
        with self._reader.use() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; on the device when it returns. Waits for other processes' transactions,
        so the event loop must not call it. Raises `AccountsUnavailable`.
        """
        with self._writer.use() as connection, immediate_transaction(connection):
            yield connection

    def roles(self, text: str) -> tuple[AccountRole, ...]:
        """The roles of a row. Raises `AccountsUnavailable` for a text that this program never
        writes.
        """
        try:
            return parse_roles(text)
        except ValueError as error:
            raise _damaged(self.path, error) from error

    def close(self) -> None:
        """Release the file; a later use opens it again."""
        self._reader.close()
        self._writer.close()


def remove_expired(connection: sqlite3.Connection, now_ms: int) -> None:
    """Delete sessions and links whose time is over."""
    for table in ("sessions", "links"):
        connection.execute(f"DELETE FROM {table} WHERE expires_at_ms <= ?", (now_ms,))


class _Connection:
    """One connection, used by one thread at a time.

    Opened again after an error, and when the file at the path changed other than through its
    write-ahead log: it was replaced or overwritten, or a checkpoint took place.
    """

    def __init__(
        self, path: Path, data_path: Path, timeout_s: float, *, query_only: bool = False
    ) -> None:
        self._path = path
        self._data_path = data_path
        self._timeout_s = timeout_s
        self._query_only = query_only
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._seen: tuple[int, ...] | None = None

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _account_errors(self._path):
            try:
                yield self._current()
            except (sqlite3.Error, UnicodeDecodeError):
                self._drop()
                raise

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _current(self) -> sqlite3.Connection:
        if self._connection is not None and _file_state(self._path) != self._seen:
            self._drop()
        if self._connection is None:
            seen = _file_state(self._path)
            self._connection = _open(self._path, self._data_path, self._timeout_s)
            self._connection.execute(f"PRAGMA query_only = {int(self._query_only)}")
            self._seen = seen or _file_state(self._path)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sqlite3.Error):  # it is broken already
                connection.close()


def _file_state(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size


def _open(path: Path, data_path: Path, timeout_s: float) -> sqlite3.Connection:
    _make_private(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=timeout_s,
    )
    try:
        if _version_of(connection, path) == 0:
            _create(connection, path, data_path)
        else:
            _use_wal(connection, timeout_s)  # a copy may have another mode
            _check_integrity(connection, path)
            _upgrade(connection, path)
        connection.execute(f"PRAGMA busy_timeout = {round(timeout_s * 1000)}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # no page keeps a removed password's hash
        rename_old_files(data_path, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """Create the file, or correct its mode: its owner alone reads and writes it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _creation, suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    for suffix in ("", "-wal", "-shm"):
        file = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            if file.stat().st_mode & OTHERS_MASK:
                file.chmod(0o600)


def _version_of(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file; 0 until it has been created completely."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > VERSION:
        raise AccountsUnavailable(
            f"{path} has version {version}, this program knows {VERSION} at most: install the"
            " version that wrote it, or put back the copy made before the upgrade"
        )
    return version


def _create(connection: sqlite3.Connection, path: Path, data_path: Path) -> None:
    """Create the tables and take over the old files, both in one transaction."""
    connection.execute(f"PRAGMA busy_timeout = {round(WRITE_TIMEOUT_S * 1000)}")
    _use_wal(connection, WRITE_TIMEOUT_S)
    connection.execute("PRAGMA synchronous = FULL")
    with immediate_transaction(connection):
        if _version_of(connection, path) == 0:  # another process may have been first
            _create_tables(connection, path)
            _insert(connection, read_old_files(data_path, path))
            connection.execute(f"PRAGMA user_version = {VERSION}")
    sync_folder(path.parent)  # before the old files are renamed


def _use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Of two first starts at once SQLite refuses one's switch to WAL without waiting."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline_s:
                raise
        time.sleep(WAL_RETRY_S)


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise _damaged(path, "it holds tables of another program")
    for statements in (_VERSION_1, *_SINCE_1):
        _execute(connection, statements)


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """A file of version 1 knows no other site, one of version 2 not who was here when, one of
    version 3 no units."""
    if _version_of(connection, path) == VERSION:
        return
    connection.execute(f"PRAGMA busy_timeout = {round(WRITE_TIMEOUT_S * 1000)}")
    with immediate_transaction(connection):
        found = _version_of(connection, path)  # another process may have been first
        for statements in _SINCE_1[found - 1 :]:
            _execute(connection, statements)
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _execute(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    for statement in statements:
        connection.execute(statement)


def _insert(connection: sqlite3.Connection, old: OldFiles) -> None:
    """Of two accounts of one name the first counts, as it did in the old file."""
    connection.executemany(
        "INSERT OR IGNORE INTO accounts (name, roles, password) VALUES (?, ?, ?)", old.accounts
    )
    connection.executemany(
        "INSERT OR IGNORE INTO sessions (id_hash, name, roles, expires_at_ms, account, credential)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        old.sessions,
    )
    connection.executemany(
        "INSERT OR IGNORE INTO links (token_hash, name, roles, expires_at_ms) VALUES (?, ?, ?, ?)",
        old.links,
    )


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    """Milliseconds: the file holds a thousand sessions at most."""
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        raise _damaged(path, found)


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_REFUSED = frozenset(
    {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_AUTH}
)
_MACHINE = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM})


@contextmanager
def _account_errors(path: Path) -> Iterator[None]:
    """The one place that converts the errors of SQLite and the file system."""
    try:
        yield
    except OSError as error:
        raise _refused(path, error) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes the damaged bytes
        raise _damaged(path, error) from error
    except sqlite3.Error as error:
        code = _code(error)
        if code in _BUSY:
            raise AccountsUnavailable(
                f"{path} is locked by another process; try again, and end that process if it"
                " does not go on by itself"
            ) from error
        if code in _MACHINE:
            raise AccountsUnavailable(
                f"{path}: {error}; make room on its disk or repair the disk, then try again"
            ) from error
        raise (_refused if code in _REFUSED else _damaged)(path, error) from error


def _code(error: sqlite3.Error) -> int:
    """The primary code: without the extended part."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _refused(path: Path, error: object) -> AccountsUnavailable:
    return AccountsUnavailable(
        f"{path} cannot be read and written ({error}): let {path.parent} and the files in it"
        " belong to the user that runs the console"
    )


def _damaged(path: Path, error: object) -> AccountsUnavailable:
    return AccountsUnavailable(
        f"{path} is damaged ({error}), so nobody can log in: stop the console, move the file away"
        f" together with {path.name}-wal and {path.name}-shm, put back a copy of it or add the"
        " accounts again with `databus accounts add`, and start the console"
    )
