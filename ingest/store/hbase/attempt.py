"""Writes what one attempt changes: its rows, and the cells that they add up in.

What is written is a function of the messages, the attempt's number and the ledger as it was when
the attempt began: no clock, no newer ledger. So the same part may be written twice, at the same
time or much later, by whom ever: a row or a cell that carries the attempt's own number is begun
again from what it was before, and a write that comes late loses in HBase against those of later
attempts, because the number is its timestamp. Every put of a row writes all of its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import force_setattr

from bus.contracts.meters import LatencyCell, QualityCell, Sent
from ingest.store.hbase import aggregates, keys, tables
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.connection import Cells, ThriftSession
from ingest.store.hbase.ledger import Cell, Ledger, apply_change, value
from ingest.store.hbase.tables import BODY, CELL, ENTRY, MARK, IndexEntry, Mark
from ingest.store.port import Applied, RecordRow, RejectedRow, StoreBatch

Kept = TypeVar("Kept", RecordRow, RejectedRow)
KeyOf = Callable[[str], bytes]


class WrittenRows(NamedTuple):
    """What a part of an attempt has written, and what it adds to cells."""

    applied: Applied
    updates: AggregateUpdates


def write_rows(session: ThriftSession, attempt: Ledger, batch: StoreBatch) -> WrittenRows:
    """Write records, rejected records and their entries in the indexes. Of one identity all rows
    must be in the same part."""
    rows, updates = _Rows(session, attempt), AggregateUpdates()
    new = rows.put_records(batch.rows)
    new_rejected = rows.put_rejected(batch.rejected)
    updates.records(batch.rows, new)
    updates.rejected(batch.rejected, new_rejected)
    updates.quality(batch.quality)
    updates.histograms(batch.latency(new) if batch.latency and new else ())
    applied = Applied(
        stored=len(new),
        duplicates=len(batch.rows) - len(new),
        rejected=len(new_rejected),
        rejected_duplicates=len(batch.rejected) - len(new_rejected),
        stored_at_ms=attempt.begun,
    )
    return WrittenRows(applied, updates)


class TouchedCells(NamedTuple):
    """Cells after the change, cumulative, as the meters publish them."""

    latency: list[LatencyCell]
    quality: list[QualityCell]


def write_cells(
    session: ThriftSession, attempt: Ledger, updates: AggregateUpdates, counters: Sequence[Sent]
) -> TouchedCells:
    """Add up. All changes of one cell must be in the same part, and the counters of a quality cell
    with it."""
    largest = _held(session, list({aggregates.counter_key(sent) for sent in counters}))
    updates.counters(
        counters,
        {key: value(cell, attempt).get(aggregates.COUNT, 0) for key, cell in largest.items()},
    )
    held = _held(session, list(updates.numbers))
    fresh = {
        key: apply_change(held.get(key), attempt, aggregates.added(more))
        for key, more in updates.numbers.items()
    }
    written = ((key, {CELL: tables.encode(cell)}) for key, cell in fresh.items())
    session.put_many(tables.AGGREGATES, written, attempt.begun)
    return _touched(fresh, attempt.begun)


def _touched(cells: Mapping[bytes, Cell], number: int) -> TouchedCells:
    of_kind: dict[bytes, list[tuple[bytes, Cell]]] = {}
    for key, cell in cells.items():
        of_kind.setdefault(key[:1], []).append((key, cell))
    return TouchedCells(
        [
            aggregates.latency_cell_of(key, cell.now, number)
            for key, cell in of_kind.get(aggregates.HISTOGRAM, ())
        ],
        [
            aggregates.quality_cell_of(key, cell.now, number)
            for key, cell in of_kind.get(aggregates.QUALITY, ())
        ],
    )


def _held(session: ThriftSession, wanted: Sequence[bytes]) -> dict[bytes, Cell]:
    found = session.get_many(tables.AGGREGATES, wanted)
    return {key: tables.cell_of(columns) for key, columns in found.items()}


class _Rows:
    """The rows of one part of an attempt on their way into the tables."""

    def __init__(self, session: ThriftSession, attempt: Ledger) -> None:
        self._session = session
        self._ledger = attempt

    def put_records(self, rows: Sequence[RecordRow]) -> Sequence[RecordRow]:
        """Write those that are new; returns them in the order given, with their `stored_at_ms`."""
        new = self._put_new(keys.record_key, rows)
        attempt = self._ledger.begun
        entries = {keys.camera_key(row): IndexEntry(attempt) for row in new}
        for row in new:
            entry = IndexEntry(attempt, row.kind, row.district_id, row.camera_ip, row.plate_key)
            entries |= dict.fromkeys(keys.index_keys(row), entry)
        self._put_entries(entries)
        return new

    def put_rejected(self, rows: Sequence[RejectedRow]) -> Sequence[RejectedRow]:
        """The same for rejected ones."""
        new = self._put_new(keys.rejected_key, rows)
        attempt = self._ledger.begun
        self._put_entries(
            {
                keys.rejected_index_key(row): IndexEntry(attempt, row.kind, reason=row.reason)
                for row in new
            }
        )
        return new

    def _put_new(self, key_of: KeyOf, rows: Sequence[Kept]) -> list[Kept]:
        """Write those whose identity does not count yet, once each. One that an attempt without an
        end has left keeps the time at which that one stored it."""
        wanted = list(dict.fromkeys(key_of(row.record_id) for row in rows))
        there = self._session.get_many(tables.RECORDS, wanted, [MARK])
        marks = {key: tables.mark_of(columns) for key, columns in there.items()}
        new: dict[bytes, Kept] = {}
        for row in rows:
            key = key_of(row.record_id)
            mark = marks.get(key)
            if key in new or (mark is not None and self._ledger.counts(mark.attempt)):
                continue
            stored_at_ms = mark.stored_at_ms if mark else self._ledger.begun
            force_setattr(row, "stored_at_ms", stored_at_ms)
            new[key] = row
        written = ((key, self._columns(row)) for key, row in new.items())
        self._session.put_many(tables.RECORDS, written, self._ledger.begun)
        return list(new.values())

    def _columns(self, row: RecordRow | RejectedRow) -> Cells:
        mark = Mark(self._ledger.begun, row.stored_at_ms)
        return {BODY: tables.encode(row), MARK: tables.encode(mark)}

    def _put_entries(self, entries: Mapping[bytes, IndexEntry]) -> None:
        rows = ((key, {ENTRY: tables.encode(entry)}) for key, entry in entries.items())
        self._session.put_many(tables.INDEX, rows, self._ledger.begun)
