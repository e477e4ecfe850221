"""The city's store, write side: rows under their identities, then everything counts at once.

There is one writer: the ledger shuts an older one out. A batch goes in this order: the ledger names
another attempt; records, index entries, rejected records and cells are written under its number,
here or by tasks elsewhere (`attempt`); the ledger says that it counts, with the positions. Core:
`ledger`, `keys`, `aggregates`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from bus.domain.retention import RetentionSettings
from bus.runtime import wall_clock
from ingest.store.hbase import aggregates, columns, tables
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.attempt import (
    write_cells,
    write_clocks,
    write_rows,
    write_segments,
    write_sums,
)
from ingest.store.hbase.columns import HEAD, HEAD_ROW
from ingest.store.hbase.connection import HbaseConnection, ThriftSession
from ingest.store.hbase.ledger import (
    Ledger,
    begin_attempt,
    commit_attempt,
    is_forgotten,
    open_writer,
    with_positions,
)
from ingest.store.hbase.pause import AttemptGate
from ingest.store.hbase.reader import HbaseReader
from ingest.store.port import (
    Applied,
    AttemptForgotten,
    Position,
    StoreBatch,
    StoreError,
    StoreUnavailable,
)
from ingest.store.positions import was_applied
from ingest.store.quality_cells import accepted_by_kind

log = logging.getLogger(__name__)


class HbaseStore(HbaseReader):
    """The one writer of a store in HBase.

    Invariant: between two batches the ledger's last attempt is committed, or goes on when the same
    batch comes again, or is known as failed by the next one.
    """

    def __init__(
        self,
        hbase: HbaseConnection,
        keep: RetentionSettings | None = None,
        now_ms: Callable[[], int] = wall_clock.now_ms,
    ) -> None:
        super().__init__(hbase)
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        self._gate = AttemptGate(hbase)
        self._begun: Ledger | None = None
        """The attempt under way, which the store may have forgotten."""
        with hbase.session() as session:
            _ensure_tables(session, keep)
            ledger, written = columns.read_ledger(session)
            _advance(session, written, open_writer(ledger, self._name))

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """See `RecordStore.apply`."""
        attempt = self.begin(positions)
        if attempt is None:
            return Applied(
                stored=0, duplicates=0, rejected=0, rejected_duplicates=0,
                stored_at_ms=self._now_ms(), already_applied=True,
            )  # fmt: skip
        write_segments(self._hbase, attempt, batch.segments)
        written = write_rows(self._hbase, attempt, batch)
        touched = write_cells(self._hbase, attempt, written.updates, batch.counters)
        self.add_up(attempt, touched.sums.numbers)
        self.commit(attempt, positions, batch.clocks)
        accepted = accepted_by_kind(aggregates.minute_sums(touched.sums.numbers))
        return replace(
            written.applied, latency=touched.latency, quality=touched.quality, accepted=accepted
        )

    def begin(self, positions: Sequence[Position]) -> Ledger | None:
        """See `StagedStore.begin`. Waits while somebody snapshots the tables (`pause`)."""
        self._gate.wait()
        with self._lock, self._hbase.session() as session:
            stored, written = self._own_ledger(session)
            if was_applied(positions, stored.end_offset):
                return None
            begun = self._begun
            ledger = begun if begun is not None and is_forgotten(stored, begun) else stored
            attempt = begin_attempt(ledger, self._now_ms(), positions)
            if attempt != stored:
                _advance(session, written, attempt)
            self._begun = attempt
            return attempt

    def add_up(self, attempt: Ledger, sums: Mapping[bytes, Mapping[str, int]]) -> None:
        """See `StagedStore.add_up`."""
        updates = AggregateUpdates()
        for key, more in sums.items():
            updates.add(key, more)
        write_sums(self._hbase, attempt, updates)

    def commit(
        self, attempt: Ledger, positions: Sequence[Position],
        clocks: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """See `StagedStore.commit`."""
        if clocks is not None:
            write_clocks(self._hbase, attempt, clocks)
        with self._lock, self._hbase.session() as session:
            ledger, written = self._own_ledger(session)
            if not ledger.counts(attempt.begun):  # else the answer to an earlier call was lost
                if is_forgotten(ledger, attempt):
                    raise AttemptForgotten(
                        f"{self._hbase.address}: attempt {attempt.begun} is unknown"
                    )
                if ledger != attempt:
                    raise StoreError(f"attempt {attempt.begun} was given up for {ledger.begun}")
                _advance(session, written, commit_attempt(attempt, positions))
            self._begun = None

    def set_positions(self, positions: Sequence[Position]) -> None:
        """See `RecordStore.set_positions`. An attempt under way has failed: it covers others."""
        with self._lock, self._hbase.session() as session:
            ledger, written = self._own_ledger(session)
            _advance(session, written, with_positions(ledger, positions))

    def _own_ledger(self, session: ThriftSession) -> tuple[Ledger, bytes | None]:
        ledger, written = columns.read_ledger(session)
        if ledger.writer != self._name:
            raise StoreError(f"{self._hbase.address}: another process writes this store now")
        return ledger, written


def _ensure_tables(session: ThriftSession, keep: RetentionSettings | None) -> None:
    """Make those that are missing. What the settings say of tables that are there already, only
    HBase's shell can do; None: they say nothing. Raises `StoreError`."""
    there = session.tables()
    if tables.LEDGER not in there and (former := sorted(there.keys() & set(tables.FORMER))):
        raise StoreError(
            f"the tables {', '.join(former)} of this name were made by an earlier version, which"
            " laid them out otherwise: take another name in store.url, or disable and drop them in"
            " HBase's shell; what the bus still keeps is read again"
        )
    for name, options in tables.options(keep or RetentionSettings()).items():
        if name not in there:
            session.create_table(name, options)
        elif keep is not None and there[name] != options["time_to_live"]:
            log.warning(
                "[retention] is not what table %s has; in HBase's shell: %s",
                session.full_name(name),
                f"alter '{session.full_name(name)}', NAME => 'd', TTL => {options['time_to_live']}",
            )


def _advance(session: ThriftSession, written: bytes | None, new: Ledger) -> bytes:
    """Replace the ledger as it was read; fails if it has changed since."""
    text = columns.encode(new)
    if not session.compare_and_put(tables.LEDGER, HEAD_ROW, HEAD, written, text):
        # Another writer, which the next call sees; or an answer of ours that was lost.
        raise StoreUnavailable("the store's ledger has changed meanwhile")
    return text
