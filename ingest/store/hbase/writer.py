"""The city's store, write side: rows under their identities, then everything counts at once.

There is one writer: the ledger shuts an older one out. A batch goes in this order: the ledger names
another attempt; records, index entries, rejected records and cells are written under its number,
here or by tasks elsewhere (`attempt`); the ledger says that it counts, with the positions. Core:
`ledger`, `keys`, `aggregates`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from bus import wall_clock
from ingest.store.hbase import tables
from ingest.store.hbase.attempt import write_cells, write_rows
from ingest.store.hbase.connection import HbaseConnection, ThriftSession
from ingest.store.hbase.ledger import Ledger, begin_attempt, commit_attempt, open_writer
from ingest.store.hbase.reader import HbaseReader
from ingest.store.hbase.tables import HEAD, HEAD_ROW
from ingest.store.port import Applied, Position, StoreBatch, StoreError, StoreUnavailable
from ingest.store.positions import was_applied


class HbaseStore(HbaseReader):
    """The one writer of a store in HBase.

    Invariant: between two batches the ledger's last attempt is committed, or goes on when the same
    batch comes again, or is known as failed by the next one.
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
        attempt = self.begin(positions)
        if attempt is None:
            return Applied(
                stored=0, duplicates=0, rejected=0, rejected_duplicates=0,
                stored_at_ms=self._now_ms(), already_applied=True,
            )  # fmt: skip
        with self._hbase.session() as session:
            written = write_rows(session, attempt, batch)
            latency, quality = write_cells(session, attempt, written.updates, batch.sent)
        self.commit(attempt, positions)
        return replace(written.applied, latency=latency, quality=quality)

    def begin(self, positions: Sequence[Position]) -> Ledger | None:
        """See `StagedStore.begin`."""
        with self._lock, self._hbase.session() as session:
            ledger, written = self._own_ledger(session)
            if was_applied(positions, ledger.end_offset):
                return None
            attempt = begin_attempt(ledger, self._now_ms(), positions)
            if attempt != ledger:
                _advance(session, written, attempt)
            return attempt

    def commit(self, attempt: Ledger, positions: Sequence[Position]) -> None:
        """See `StagedStore.commit`."""
        with self._lock, self._hbase.session() as session:
            ledger, written = self._own_ledger(session)
            if ledger.counts(attempt.begun):
                return  # the answer to an earlier call was lost
            if ledger != attempt:
                raise StoreError(f"attempt {attempt.begun} was given up for {ledger.begun}")
            _advance(session, written, commit_attempt(attempt, positions))

    def _own_ledger(self, session: ThriftSession) -> tuple[Ledger, bytes | None]:
        ledger, written = tables.read_ledger(session)
        if ledger.writer != self._name:
            raise StoreError(f"{self._hbase.address}: another process writes this store now")
        return ledger, written


def _advance(session: ThriftSession, written: bytes | None, new: Ledger) -> bytes:
    """Replace the ledger as it was read; fails if it has changed since."""
    text = tables.encode_ledger(new)
    if not session.compare_and_put(tables.AGGREGATES, HEAD_ROW, HEAD, written, text):
        # Another writer, which the next call sees; or an answer of ours that was lost.
        raise StoreUnavailable("the store's ledger has changed meanwhile")
    return text
