"""Opens a store by its URL; the one place that knows which kinds there are.

`sqlite:///path/records.db`, `hbase://host:9090,other:9090/name?keep_days=90` (the Thrift servers,
one or more; the tables' names begin with the name). A `RecordStore` is for one process, a
`RecordReader` for any number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from bus.domain.confusion_table import ReadConfusion, packaged
from bus.domain.retention import RetentionSettings
from ingest.store.port import RecordReader, RecordStore, StoreError
from ingest.store.sqlite.reader import SqliteReader
from ingest.store.sqlite.writer import SqliteStore

if TYPE_CHECKING:
    from ingest.store.hbase.connection import HbaseConnection

_SQLITE, _HBASE = "sqlite://", "hbase://"
_HBASE_FORM = "hbase://host:9090/name?keep_days=90"
_HBASE_URL = re.compile(
    r"hbase://(?P<servers>[^/?#]+)/(?P<name>[A-Za-z0-9_]+)/?(\?(?P<options>[^#]*))?"
)
THRIFT_PORT = 9090


@overload
def open_store(
    url: str, mode: Literal["write"], keep: RetentionSettings | None = None
) -> RecordStore: ...
@overload
def open_store(
    url: str, mode: Literal["read"] = "read", *, read_confusion: ReadConfusion = packaged
) -> RecordReader: ...


def open_store(
    url: str,
    mode: Literal["read", "write"] = "read",
    keep: RetentionSettings | None = None,
    read_confusion: ReadConfusion = packaged,
) -> RecordStore | RecordReader:
    """`keep` says what the writer of a file deletes, and when rows leave the tables that it makes
    in HBase; None: nothing. `read_confusion`: the table of misreadings that a reader's searches go
    by. Raises `StoreError` for an unknown URL, `StoreUnavailable` when another
    process writes it."""
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE))
        if mode == "write":
            return SqliteStore(path, keep=keep)
        return SqliteReader(path, read_confusion)
    if url.startswith(_HBASE):
        return _in_hbase(url, mode, keep, read_confusion)
    raise StoreError(f"{url!r} is no store: expected {_SQLITE}/absolute/path or {_HBASE_FORM}")


def _in_hbase(
    url: str, mode: str, keep: RetentionSettings | None, read_confusion: ReadConfusion
) -> RecordStore | RecordReader:
    from ingest.store.hbase.reader import HbaseReader
    from ingest.store.hbase.writer import HbaseStore

    hbase, keep_days = hbase_connection(url)
    if mode == "read":
        return HbaseReader(hbase, read_confusion)
    if keep_days:
        keep = _with_keep_days(keep or RetentionSettings(), keep_days)
    return HbaseStore(hbase, keep)


def hbase_statements(url: str, keep: RetentionSettings, regions: int) -> list[str]:
    """What HBase's shell makes the tables of a store with, divided into so many regions. Raises
    `StoreError` for a URL that is not of HBase."""
    from ingest.store.hbase.tables import create_statements

    name, keep_days, _ = _parsed(url)
    return create_statements(name, _with_keep_days(keep, keep_days) if keep_days else keep, regions)


def _with_keep_days(keep: RetentionSettings, keep_days: int) -> RetentionSettings:
    """What the URL says of records goes before the settings."""
    return replace(keep, records_days=keep_days, rejected_days=keep_days)


def hbase_connection(url: str, timeout_ms: int = 0) -> tuple[HbaseConnection, int]:
    """The HBase of a URL, not connected yet, and how many days it keeps records. `timeout_ms`: how
    long an answer is waited for, if not as usual. Raises `StoreError`."""
    # Imported here: Thrift is slow to import, and a store in a file does not need it.
    from ingest.store.hbase.connection import TIMEOUT_MS, HbaseConnection

    name, keep_days, servers = _parsed(url)
    return HbaseConnection(servers, name, timeout_ms or TIMEOUT_MS), keep_days


def _parsed(url: str) -> tuple[str, int, list[tuple[str, int]]]:
    """Name, days to keep records (0: not said), and Thrift servers. Raises `StoreError`."""
    found = _HBASE_URL.fullmatch(url)
    try:
        if found is None:
            raise ValueError
        options = dict(parse_qsl(found["options"] or "", strict_parsing=bool(found["options"])))
        keep_days = int(options.pop("keep_days", "0"))
        servers = [_server(text) for text in found["servers"].split(",")]
        if options or keep_days < 0:
            raise ValueError
    except ValueError:
        raise StoreError(f"{url!r} is no store in HBase: expected {_HBASE_FORM}") from None
    return found["name"], keep_days, servers


def _server(text: str) -> tuple[str, int]:
    """Host and port of `host`, `host:9090` or `[::1]:9090`. Raises `ValueError`."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path or "@" in text:
        raise ValueError
    return parts.hostname, parts.port or THRIFT_PORT
