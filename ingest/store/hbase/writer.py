"""The city's store, write side: rows under their identities, then everything counts at once.

In: `StoreBatch` and positions. Out: `Applied`. Never: a second writer (the ledger shuts the older
one out), reading topics, judging records. Core: `ledger`, `keys`, `books`.

The order of one batch: the ledger names another attempt; records, index entries, rejected records
and cells are written under its number; the ledger says that it counts, with the positions. What
stands in the tables at any moment in between is told apart by the numbers.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import force_setattr, replace

from bus.contracts.meters import Sent
from ingest.store.hbase import books, keys, tables
from ingest.store.hbase.books import Changes
from ingest.store.hbase.connection import Cells, HbaseConnection, Line
from ingest.store.hbase.ledger import Cell, Ledger, begun, changed, committed, opened, value
from ingest.store.hbase.reader import HbaseReader
from ingest.store.hbase.tables import BODY, CELL, ENTRY, HEAD, HEAD_ROW, MARK, Entry, Mark
from ingest.store.port import (
    Applied,
    Position,
    RecordRow,
    RejectedRow,
    StoreBatch,
    StoreError,
    StoreUnavailable,
)
from ingest.store.positions import was_applied

Kept = TypeVar("Kept", RecordRow, RejectedRow)
KeyOf = Callable[[str], bytes]


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class HbaseStore(HbaseReader):
    """The one writer of a store in HBase.

    Invariant: between two `apply` calls the ledger's last attempt is committed, or failed and known
    as such by the next one.
    """

    def __init__(
        self,
        hbase: HbaseConnection,
        keep_days: int = 0,
        now_ms: Callable[[], int] = _wall_clock_ms,
    ) -> None:
        super().__init__(hbase)
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        with hbase.line() as line:
            line.make(tables.options(keep_days))
            ledger, written = tables.found_ledger(line)
            _advance(line, written, opened(ledger, self._name))

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """See `RecordStore.apply`."""
        with self._lock, self._hbase.line() as line:
            now_ms = self._now_ms()
            ledger, written = tables.found_ledger(line)
            if ledger.writer != self._name:
                raise StoreError(f"{self._hbase.address}: another process writes this store now")
            if was_applied(positions, ledger.end_offset):
                return Applied(
                    stored=0, duplicates=0, rejected=0, rejected_duplicates=0,
                    stored_at_ms=now_ms, already_applied=True,
                )  # fmt: skip
            attempt = begun(ledger, now_ms)
            written = _advance(line, written, attempt)
            applied = _Attempt(line, attempt, now_ms).apply(batch)
            _advance(line, written, committed(attempt, positions))
            return applied


class _Attempt:
    """One batch on its way into the tables. `ledger` names it and does not count it yet."""

    def __init__(self, line: Line, ledger: Ledger, now_ms: int) -> None:
        self._line = line
        self._ledger = ledger
        self._now_ms = now_ms
        self._changes = Changes()

    def apply(self, batch: StoreBatch) -> Applied:
        """Write everything; what changed."""
        new = self._put_records(batch.rows)
        rejected = self._put_rejected(batch.rejected)
        latency = batch.latency(new) if batch.latency and new else ()
        self._changes.histograms(latency)
        self._changes.quality(batch.quality)
        self._changes.counters(batch.sent, self._largest(batch.sent))
        self._changes.summaries(batch.latency_summaries)
        cells = self._put_cells()
        return Applied(
            stored=len(new),
            duplicates=len(batch.rows) - len(new),
            rejected=rejected,
            rejected_duplicates=len(batch.rejected) - rejected,
            latency=[
                replace(c, buckets=books.buckets_of(cells[books.histogram_key(c)].now))
                for c in latency
            ],
            stored_at_ms=self._now_ms,
        )

    # --- rows ------------------------------------------------------------------------------------

    def _put_records(self, rows: Sequence[RecordRow]) -> Sequence[RecordRow]:
        """Write those that are new; they come back in order, with their `stored_at_ms`."""
        new = self._put_new(keys.record_key, rows)
        attempt = self._ledger.begun
        entries = {keys.camera_key(row): Entry(attempt) for row in new}
        for row in new:
            entry = Entry(attempt, row.kind, row.district_id, row.camera_ip, row.plate_key)
            entries |= dict.fromkeys(keys.index_keys(row), entry)
        self._put_entries(entries)
        self._changes.records(rows, new)
        return new

    def _put_rejected(self, rows: Sequence[RejectedRow]) -> int:
        new = self._put_new(keys.rejected_key, rows)
        attempt = self._ledger.begun
        self._put_entries(
            {
                keys.rejected_index_key(row): Entry(attempt, row.kind, reason=row.reason)
                for row in new
            }
        )
        self._changes.rejected(rows, new)
        return len(new)

    def _put_new(self, key_of: KeyOf, rows: Sequence[Kept]) -> list[Kept]:
        """Write those whose identity does not count yet, once each. One that an attempt without an
        end has left keeps the time at which that one stored it."""
        wanted = list(dict.fromkeys(key_of(row.record_id) for row in rows))
        there = self._line.get_many(tables.RECORDS, wanted, [MARK])
        marks = {key: tables.mark_of(columns) for key, columns in there.items()}
        new: dict[bytes, Kept] = {}
        for row in rows:
            key = key_of(row.record_id)
            mark = marks.get(key)
            if key in new or (mark is not None and self._ledger.counts(mark.attempt)):
                continue
            force_setattr(row, "stored_at_ms", mark.stored_at_ms if mark else self._now_ms)
            new[key] = row
        written = ((key, self._columns(row)) for key, row in new.items())
        self._line.put_many(tables.RECORDS, written, self._ledger.begun)
        return list(new.values())

    def _columns(self, row: RecordRow | RejectedRow) -> Cells:
        mark = Mark(self._ledger.begun, row.stored_at_ms)
        return {BODY: tables.encode(row), MARK: tables.encode(mark)}

    def _put_entries(self, entries: Mapping[bytes, Entry]) -> None:
        rows = ((key, {ENTRY: tables.encode(entry)}) for key, entry in entries.items())
        self._line.put_many(tables.INDEX, rows, self._ledger.begun)

    # --- cells -----------------------------------------------------------------------------------

    def _largest(self, told: Sequence[Sent]) -> dict[bytes, int]:
        """How much of each counter has been counted so far."""
        held = self._held(list({books.counter_key(sent) for sent in told}))
        return {
            key: value(cell, self._ledger).get(books.COUNT, 0) for key, cell in held.items()
        }

    def _held(self, wanted: Sequence[bytes]) -> dict[bytes, Cell]:
        found = self._line.get_many(tables.BOOKS, wanted)
        return {key: tables.cell_of(columns) for key, columns in found.items()}

    def _put_cells(self) -> dict[bytes, Cell]:
        """Every cell once, after all changes of the batch."""
        held = self._held(self._changes.keys)
        fresh = {
            key: changed(held.get(key), self._ledger, self._changes.applied(key))
            for key in self._changes.keys
        }
        rows = ((key, {CELL: tables.encode(cell)}) for key, cell in fresh.items())
        self._line.put_many(tables.BOOKS, rows, self._ledger.begun)
        return fresh


def _advance(line: Line, written: bytes | None, new: Ledger) -> bytes:
    """Replace the ledger as it was read; nobody else may have changed it since."""
    text = tables.encode_ledger(new)
    if not line.compare_and_put(tables.BOOKS, HEAD_ROW, HEAD, written, text):
        # Another writer, which the next call sees; or an answer of ours that was lost.
        raise StoreUnavailable("the store's ledger has changed meanwhile")
    return text
