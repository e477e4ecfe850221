"""Open a store by its URL: the one place that knows which kinds there are.

In: `sqlite:///path/records.db`. Out: a `RecordStore` (one process) or a `RecordReader` (any
number).
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, overload

from ingest.store.port import RecordReader, RecordStore, StoreError
from ingest.store.sqlite_reader import SqliteReader
from ingest.store.sqlite_writer import SqliteStore

_SQLITE = "sqlite://"


@overload
def open_store(url: str, mode: Literal["write"]) -> RecordStore: ...
@overload
def open_store(url: str, mode: Literal["read"] = "read") -> RecordReader: ...


def open_store(url: str, mode: Literal["read", "write"] = "read") -> RecordStore | RecordReader:
    """Raises `StoreError` for an unknown URL, `StoreUnavailable` when another process writes it."""
    if not url.startswith(_SQLITE):
        raise StoreError(f"{url!r} is no store: expected {_SQLITE}/absolute/path")
    path = Path(url.removeprefix(_SQLITE))
    return SqliteStore(path) if mode == "write" else SqliteReader(path)
