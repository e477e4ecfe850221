"""Writes what one attempt changes: its rows, and the cells that they add up in.

What is written is a function of the messages, the attempt's number and the ledger as it was when
the attempt began: no clock, no newer ledger. So the same part may be written twice, at the same
time or much later, by whom ever: a row or a cell that carries the attempt's own number is begun
again from what it was before, and a write that comes late loses in HBase against those of later
attempts, because the number is its timestamp. Every put of a row writes all of its columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from msgspec.structs import force_setattr

from bus.contracts.meters import CumulativeCount, LatencyCell, QualityCell
from bus.contracts.video_segments import VideoSegment
from bus.domain.plates import partly_read_form
from ingest.store.hbase import aggregates, columns, keys, tables
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.columns import CELL, ENTRY, IndexEntry
from ingest.store.hbase.connection import HbaseConnection, Row
from ingest.store.hbase.ledger import Cell, Ledger, apply_change, value
from ingest.store.hbase.plate_places import places_of
from ingest.store.port import Applied, RecordRow, RejectedRow, StoreBatch

StoredRow = TypeVar("StoredRow", RecordRow, RejectedRow)


class WrittenRows(NamedTuple):
    """What a part of an attempt has written, and what it adds to cells."""

    applied: Applied
    updates: AggregateUpdates


def write_rows(hbase: HbaseConnection, attempt: Ledger, batch: StoreBatch) -> WrittenRows:
    """Write records, rejected records and their entries in the indexes. Of one identity all rows
    must be in the same part."""
    new, puts = _records(hbase, attempt, batch.rows)
    new_rejected, puts[tables.REJECTED] = _rejected(hbase, attempt, batch.rejected)
    hbase.put_many(puts, attempt.begun)
    updates = AggregateUpdates()
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


def write_segments(
    hbase: HbaseConnection, attempt: Ledger, segments: Iterable[VideoSegment]
) -> None:
    """Write what is said of films. It is no count: who reads it sees it before the attempt ends,
    and a second write is the same again."""
    puts = [(keys.segment_key(one), columns.segment_columns(one)) for one in segments]
    if puts:
        hbase.put_many({tables.SEGMENTS: puts}, attempt.begun)


class TouchedCells(NamedTuple):
    """Cells after the change, cumulative, as the meters publish them; and what they add to the sums
    of all devices, which every part adds to: `write_sums`."""

    latency: list[LatencyCell]
    quality: list[QualityCell]
    sums: AggregateUpdates


def write_cells(
    hbase: HbaseConnection,
    attempt: Ledger,
    updates: AggregateUpdates,
    counters: Sequence[CumulativeCount],
) -> TouchedCells:
    """Add up. All changes of what has one `aggregates.part_of` must be in the same part, and the
    counters of a quality cell with it."""
    largest = _held(hbase, list({aggregates.counter_key(one) for one in counters}))
    updates.counters(
        counters,
        {key: value(cell, attempt).get(aggregates.COUNT, 0) for key, cell in largest.items()},
    )
    fresh = _changed(hbase, attempt, updates)
    sums = aggregates.sums_of(fresh, updates.numbers)
    _put(hbase, attempt, fresh | _changed(hbase, attempt, sums.of_cameras))
    return _touched(fresh, attempt.begun, sums.of_all)


def write_sums(hbase: HbaseConnection, attempt: Ledger, updates: AggregateUpdates) -> None:
    """Add what all parts together have added to the sums of all devices; once for an attempt."""
    _put(hbase, attempt, _changed(hbase, attempt, updates))


def write_clocks(hbase: HbaseConnection, attempt: Ledger, clocks: Mapping[str, int]) -> None:
    """Put what is known of clocks in the place of what was; by the driver alone."""
    key = aggregates.clocks_key()
    held = _held(hbase, [key]).get(key)
    _put(hbase, attempt, {key: apply_change(held, attempt, aggregates.replaced(clocks))})


def _changed(
    hbase: HbaseConnection, attempt: Ledger, updates: AggregateUpdates
) -> dict[bytes, Cell]:
    held = _held(hbase, list(updates.numbers))
    return {
        key: apply_change(held.get(key), attempt, aggregates.added(more))
        for key, more in updates.numbers.items()
    }


def _put(hbase: HbaseConnection, attempt: Ledger, cells: Mapping[bytes, Cell]) -> None:
    puts: dict[str, list[Row]] = {}
    for key, cell in cells.items():
        puts.setdefault(tables.table_of_cell(key), []).append((key, {CELL: columns.encode(cell)}))
    hbase.put_many(puts, attempt.begun)


def _touched(cells: Mapping[bytes, Cell], number: int, sums: AggregateUpdates) -> TouchedCells:
    touched = TouchedCells([], [], sums)
    for key, cell in cells.items():
        kind = keys.cell_kind(key)
        if kind == aggregates.HISTOGRAM:
            touched.latency.append(aggregates.latency_cell_of(key, cell.now, number))
        elif kind == aggregates.QUALITY:
            touched.quality.append(aggregates.quality_cell_of(key, cell.now, number))
    return touched


def _held(hbase: HbaseConnection, wanted: Iterable[bytes]) -> dict[bytes, Cell]:
    by_table: dict[str, list[bytes]] = {}
    for key in wanted:
        by_table.setdefault(tables.table_of_cell(key), []).append(key)
    return {
        key: columns.cell_of(found)
        for table, some in by_table.items()
        for key, found in hbase.get_many(table, some).items()
    }


def _records(
    hbase: HbaseConnection, attempt: Ledger, rows: Sequence[RecordRow]
) -> tuple[list[RecordRow], dict[str, list[Row]]]:
    """Those that are new, with their `stored_at_ms`; what is to be written, by table."""
    by_class: dict[str, list[RecordRow]] = {}
    for row in rows:
        by_class.setdefault(tables.class_of(row.kind), []).append(row)
    new: list[RecordRow] = []
    puts: dict[str, list[Row]] = {}
    for table, own in by_class.items():
        fresh = _new(hbase, attempt, table, own)
        puts[table] = [
            *((key, columns.record_columns(row, attempt.begun)) for key, row in fresh.items()),
            *_entries(fresh.values(), attempt.begun),
        ]
        new.extend(fresh.values())
    return new, puts


def _entries(rows: Collection[RecordRow], attempt: int) -> Iterator[Row]:
    camera = {ENTRY: columns.encode(IndexEntry(attempt))}
    for key in {keys.camera_key(row) for row in rows}:
        yield key, camera
    for row in rows:
        form = "" if row.plate_key else partly_read_form(row.plate_number)
        entry = IndexEntry(
            attempt, row.kind, row.district_id, row.camera_ip, row.plate_key, plate_form=form
        )
        cells = {ENTRY: columns.encode(entry)}
        for key in keys.index_keys(row, places_of(row.plate_key or form)):
            yield key, cells


def _rejected(
    hbase: HbaseConnection, attempt: Ledger, rows: Sequence[RejectedRow]
) -> tuple[list[RejectedRow], list[Row]]:
    """The same for rejected ones."""
    puts: list[Row] = []
    fresh = _new(hbase, attempt, tables.REJECTED, rows)
    for key, row in fresh.items():
        puts.append((key, columns.rejected_columns(row, attempt.begun)))
        entry = IndexEntry(attempt.begun, row.kind, reason=row.reason)
        time_key = keys.time_key(row.stored_at_ms, row.record_id)
        puts.append((time_key, {ENTRY: columns.encode(entry)}))
    return list(fresh.values()), puts


def _new(
    hbase: HbaseConnection, attempt: Ledger, table: str, rows: Sequence[StoredRow]
) -> dict[bytes, StoredRow]:
    """Those whose identity does not count yet, once each, by key. One that an attempt without an
    end has left keeps the time at which that one stored it."""
    wanted = list(dict.fromkeys(keys.row_key(row.record_id) for row in rows))
    there = hbase.get_many(table, wanted, columns.MARK)
    marks = {key: columns.mark_of(found) for key, found in there.items()}
    new: dict[bytes, StoredRow] = {}
    for row in rows:
        key = keys.row_key(row.record_id)
        mark = marks.get(key)
        if key in new or (mark is not None and attempt.counts(mark.attempt)):
            continue
        force_setattr(row, "stored_at_ms", mark.stored_at_ms if mark else attempt.begun)
        new[key] = row
    return new
