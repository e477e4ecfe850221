"""One transaction of SQLite, for every file of ours that is written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def immediate_transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All or nothing, on every path: one left open would keep every later one from beginning, and
    hold the file's lock against its readers. Raises `sqlite3.Error`."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back after some errors (disk full among them).
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
