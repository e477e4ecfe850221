"""Processes that change the accounts, for tests that need several or kill one.

`account_process.py DATA_DIR WHAT …` says `ready`, waits for a line, then says line by line what it
has done.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from monitor.accounts import database, passwords
from monitor.accounts.roles import AccountRole, ConsolePrincipal
from monitor.accounts.sessions import SessionStore
from monitor.accounts.store import AccountStore

HOUR_MS = 3_600_000


def start(data_path: Path, *words: str) -> subprocess.Popen[str]:
    """A process that waits for `go`."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(data_path), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    """Let it begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def file_of(data_path: Path) -> Path:
    return data_path / "console" / "accounts.db"


def assert_sound(data_path: Path) -> None:
    """SQLite itself has nothing to say against the file."""
    with closing(sqlite3.connect(file_of(data_path))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (database.VERSION,)


def sessions_of(store: AccountStore) -> SessionStore:
    return SessionStore(store, lifetime_ms=HOUR_MS, now_ms=lambda: 0)


def _die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _main(data_dir: str, what: str, *words: str) -> None:
    passwords._N = 2**10
    store = AccountStore(Path(data_dir))
    print("ready", flush=True)
    sys.stdin.readline()
    if what == "add":
        prefix, count = words
        for i in range(int(count)):
            name = f"{prefix}-{i}"
            store.add(name, "correct horse", [AccountRole.VIEWER])
            who = ConsolePrincipal(name=name, roles=frozenset())
            print(sessions_of(store).open(who), flush=True)
    elif what == "open-for-ever":
        guest = ConsolePrincipal(name="guest", roles=frozenset({AccountRole.VIEWER}))
        while True:
            print(sessions_of(store).open(guest, guest=True), flush=True)
    elif what == "die-at":
        setattr(database, words[0], _die)
        store.accounts()


if __name__ == "__main__":
    _main(*sys.argv[1:])
