"""The tables, the cells' names in them, and how rows become bytes and come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from ingest.store.hbase.ledger import Cell, Ledger
from ingest.store.port import RecordRow, RejectedRow, StoreError

RECORDS, INDEX, AGGREGATES = "records", "index", "books"
"""Records and rejected ones; what they are found by; cells and the ledger."""

# Thrift's own defaults are no block cache, three versions, no bloom filter, no compression.
_OPTIONS = {
    "max_versions": 1,
    "block_cache_enabled": True,
    "bloom_filter_type": "ROW",
    "compression": "SNAPPY",
}
DAY_S = 86_400


def options(keep_days: int) -> Mapping[str, Mapping[str, Any]]:
    """The tables with the options of their family; records age after so many days (0: never), the
    aggregates do not."""
    aging = {"time_to_live": keep_days * DAY_S} if keep_days else {}
    return {RECORDS: _OPTIONS | aging, INDEX: _OPTIONS | aging, AGGREGATES: _OPTIONS}


BODY, MARK, CELL, ENTRY, HEAD = b"d:r", b"d:a", b"d:c", b"d:i", b"d:l"
HEAD_ROW = b"ledger"


class RowReader(Protocol):
    """What the ledger is read through: a connection, or a fake of it."""

    def get(self, table: str, key: bytes) -> Mapping[bytes, bytes]:
        """One row; empty if there is none."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """Under which attempt a row was written, and when it was stored first (ms)."""

    attempt: int
    stored_at_ms: int


class IndexEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the index tells of a row, so that only those that match are read. `attempt`: under which
    it was written."""

    attempt: int
    kind: str = ""
    district_id: str = ""
    camera_ip: str = ""
    plate_key: str = ""
    reason: str = ""


_entries = msgspec.msgpack.Decoder(IndexEntry)
_marks = msgspec.msgpack.Decoder(Mark)
_records = msgspec.msgpack.Decoder(RecordRow)
_rejects = msgspec.msgpack.Decoder(RejectedRow)
_cells = msgspec.msgpack.Decoder(Cell)
_ledgers = msgspec.json.Decoder(Ledger)
encode = msgspec.msgpack.Encoder().encode


def encode_ledger(ledger: Ledger) -> bytes:
    """As JSON: an operator may have to read it."""
    return msgspec.json.encode(ledger)


def read_ledger(session: RowReader) -> tuple[Ledger, bytes | None]:
    """The ledger as it stands, and as it is written; a new one where there is none."""
    text = session.get(AGGREGATES, HEAD_ROW).get(HEAD)
    return (Ledger() if text is None else _decoded(_ledgers, text)), text


def entry_of(columns: Mapping[bytes, bytes]) -> IndexEntry:
    """An entry of the index."""
    entry: IndexEntry = _decoded(_entries, columns[ENTRY])
    return entry


def mark_of(columns: Mapping[bytes, bytes]) -> Mark:
    """Who wrote the row."""
    mark: Mark = _decoded(_marks, columns[MARK])
    return mark


def cell_of(columns: Mapping[bytes, bytes]) -> Cell:
    """A cell of the aggregates."""
    cell: Cell = _decoded(_cells, columns[CELL])
    return cell


def record_of(columns: Mapping[bytes, bytes]) -> RecordRow:
    """The record as it was stored first."""
    row: RecordRow = _decoded(_records, columns[BODY])
    return msgspec.structs.replace(row, stored_at_ms=mark_of(columns).stored_at_ms)


def rejected_of(columns: Mapping[bytes, bytes]) -> RejectedRow:
    """The rejected record as it was kept first."""
    row: RejectedRow = _decoded(_rejects, columns[BODY])
    return msgspec.structs.replace(row, stored_at_ms=mark_of(columns).stored_at_ms)


def _decoded(decoder: Any, data: bytes) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise StoreError(f"the store holds what this program does not know: {error}") from error
