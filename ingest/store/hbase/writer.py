"""The city's store, write side: rows under their identities, then everything counts at once.

There is one writer: the ledger shuts an older one out. A batch goes in this order: the ledger names
another attempt; records, index entries, rejected records and cells are written under its number;
the ledger says that it counts, with the positions. The numbers tell apart what is in the tables at
any moment in between. Core: `ledger`, `keys`, `aggregates`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import force_setattr, replace

from bus import wall_clock
from bus.contracts.meters import Sent
from ingest.store.hbase import aggregates, keys, tables
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.connection import Cells, HbaseConnection, ThriftSession
from ingest.store.hbase.ledger import (
    Cell,
    Ledger,
    apply_change,
    begin_attempt,
    commit_attempt,
    open_writer,
    value,
)
from ingest.store.hbase.reader import HbaseReader
from ingest.store.hbase.tables import BODY, CELL, ENTRY, HEAD, HEAD_ROW, MARK, IndexEntry, Mark
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


class HbaseStore(HbaseReader):
    """The one writer of a store in HBase.

    Invariant: between two `apply` calls the ledger's last attempt is committed, or failed and known
    as such by the next one.
    """

    def __init__(
        self,
        hbase: HbaseConnection,
        keep_days: int = 0,
        now_ms: Callable[[], int] = wall_clock.now_ms,
    ) -> None:
        super().__init__(hbase)
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        with hbase.session() as session:
            session.create_tables(tables.options(keep_days))
            ledger, written = tables.read_ledger(session)
            _advance(session, written, open_writer(ledger, self._name))

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """See `RecordStore.apply`."""
        with self._lock, self._hbase.session() as session:
            now_ms = self._now_ms()
            ledger, written = tables.read_ledger(session)
            if ledger.writer != self._name:
                raise StoreError(f"{self._hbase.address}: another process writes this store now")
            if was_applied(positions, ledger.end_offset):
                return Applied(
                    stored=0, duplicates=0, rejected=0, rejected_duplicates=0,
                    stored_at_ms=now_ms, already_applied=True,
                )  # fmt: skip
            attempt = begin_attempt(ledger, now_ms)
            written = _advance(session, written, attempt)
            applied = _Attempt(session, attempt, now_ms).apply(batch)
            _advance(session, written, commit_attempt(attempt, positions))
            return applied


class _Attempt:
    """One batch on its way into the tables. `ledger` names it and does not count it yet."""

    def __init__(self, session: ThriftSession, ledger: Ledger, now_ms: int) -> None:
        self._session = session
        self._ledger = ledger
        self._now_ms = now_ms
        self._updates = AggregateUpdates()

    def apply(self, batch: StoreBatch) -> Applied:
        """Write everything; what changed."""
        new = self._put_records(batch.rows)
        rejected = self._put_rejected(batch.rejected)
        latency = batch.latency(new) if batch.latency and new else ()
        self._updates.histograms(latency)
        self._updates.quality(batch.quality)
        self._updates.counters(batch.sent, self._largest(batch.sent))
        cells = self._put_cells()
        return Applied(
            stored=len(new),
            duplicates=len(batch.rows) - len(new),
            rejected=rejected,
            rejected_duplicates=len(batch.rejected) - rejected,
            latency=[
                replace(
                    c,
                    buckets=aggregates.buckets_of(cells[aggregates.histogram_key(c)].now),
                    attempt=self._ledger.begun,
                )
                for c in latency
            ],
            quality=[
                aggregates.quality_of(cell, cells[key].now, self._ledger.begun)
                for key, cell in self._updates.touched.items()
            ],
            stored_at_ms=self._now_ms,
        )

    # --- rows ------------------------------------------------------------------------------------

    def _put_records(self, rows: Sequence[RecordRow]) -> Sequence[RecordRow]:
        """Write those that are new; returns them in the order given, with their `stored_at_ms`."""
        new = self._put_new(keys.record_key, rows)
        attempt = self._ledger.begun
        entries = {keys.camera_key(row): IndexEntry(attempt) for row in new}
        for row in new:
            entry = IndexEntry(attempt, row.kind, row.district_id, row.camera_ip, row.plate_key)
            entries |= dict.fromkeys(keys.index_keys(row), entry)
        self._put_entries(entries)
        self._updates.records(rows, new)
        return new

    def _put_rejected(self, rows: Sequence[RejectedRow]) -> int:
        new = self._put_new(keys.rejected_key, rows)
        attempt = self._ledger.begun
        self._put_entries(
            {
                keys.rejected_index_key(row): IndexEntry(attempt, row.kind, reason=row.reason)
                for row in new
            }
        )
        self._updates.rejected(rows, new)
        return len(new)

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
            force_setattr(row, "stored_at_ms", mark.stored_at_ms if mark else self._now_ms)
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

    # --- cells -----------------------------------------------------------------------------------

    def _largest(self, counters: Sequence[Sent]) -> dict[bytes, int]:
        """How much of each counter has been counted so far."""
        held = self._held(list({aggregates.counter_key(sent) for sent in counters}))
        return {
            key: value(cell, self._ledger).get(aggregates.COUNT, 0) for key, cell in held.items()
        }

    def _held(self, wanted: Sequence[bytes]) -> dict[bytes, Cell]:
        found = self._session.get_many(tables.AGGREGATES, wanted)
        return {key: tables.cell_of(columns) for key, columns in found.items()}

    def _put_cells(self) -> dict[bytes, Cell]:
        """Every cell once, after all changes of the batch."""
        held = self._held(self._updates.keys)
        fresh = {
            key: apply_change(held.get(key), self._ledger, self._updates.applied(key))
            for key in self._updates.keys
        }
        rows = ((key, {CELL: tables.encode(cell)}) for key, cell in fresh.items())
        self._session.put_many(tables.AGGREGATES, rows, self._ledger.begun)
        return fresh


def _advance(session: ThriftSession, written: bytes | None, new: Ledger) -> bytes:
    """Replace the ledger as it was read; fails if it has changed since."""
    text = tables.encode_ledger(new)
    if not session.compare_and_put(tables.AGGREGATES, HEAD_ROW, HEAD, written, text):
        # Another writer, which the next call sees; or an answer of ours that was lost.
        raise StoreUnavailable("the store's ledger has changed meanwhile")
    return text
