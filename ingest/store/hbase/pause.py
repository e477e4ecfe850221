"""A short pause of the writer between two attempts, so that all tables can be snapshotted as of one
moment.

Who asks writes a name into the ledger's row; the writer reads it before each attempt, answers with
the same name and waits until it is gone. It works from any machine that reaches HBase. One request
holds the writer for `MAX_PAUSE_S` at most: a backup that died never stops ingest.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable

from bus.runtime import wall_clock
from ingest.store.hbase import tables
from ingest.store.hbase.columns import HEAD, HEAD_ROW
from ingest.store.hbase.connection import HbaseConnection

log = logging.getLogger(__name__)

ASKED, ANSWERED = b"d:pause", b"d:paused"
MAX_PAUSE_S = 20.0  # snapshots of all tables take some seconds
POLL_S = 0.05


class AttemptGate:
    """The writer's side. One thread at a time."""

    def __init__(
        self,
        hbase: HbaseConnection,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._hbase = hbase
        self._monotonic = monotonic
        self._sleep = sleep
        self._over = b""

    def wait(self) -> None:
        """Return when no pause is asked for, or the one that is has lasted long enough. Raises
        `StoreError` where HBase cannot be asked."""
        held, until_s = b"", 0.0
        while (asked := self._asked()) and asked != self._over:
            if asked != held:
                held, until_s = asked, self._monotonic() + MAX_PAUSE_S
                log.info("paused for a snapshot of the tables")
                _put(self._hbase, ANSWERED, asked)
            if self._monotonic() >= until_s:
                self._over = asked
                log.warning("the pause is over: who asked for it did not say so")
                return
            self._sleep(POLL_S)
        if held:
            log.info("goes on after the snapshot")

    def _asked(self) -> bytes:
        with self._hbase.session() as session:
            return session.get(tables.LEDGER, HEAD_ROW).get(ASKED, b"")


class PauseRequest:
    """The other side: `ask`, look at the ledger, snapshot, look again, `release`."""

    def __init__(self, hbase: HbaseConnection) -> None:
        self._hbase = hbase
        self._name = uuid.uuid4().hex.encode()

    def ask(self) -> None:
        """From now on the writer begins no attempt."""
        _put(self._hbase, ASKED, self._name)

    def wait_until_answered(self, timeout_s: float) -> bool:
        """Whether the writer is known to wait. It is asked with its next batch only: one that has
        nothing to write does not answer, and begins nothing either."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with self._hbase.session() as session:
                if session.get(tables.LEDGER, HEAD_ROW).get(ANSWERED) == self._name:
                    return True
            time.sleep(POLL_S)
        return False

    def ledger(self) -> bytes | None:
        """As it stands; while it stays the same, the tables are those of one moment."""
        with self._hbase.session() as session:
            return session.get(tables.LEDGER, HEAD_ROW).get(HEAD)

    def release(self) -> None:
        """The writer goes on."""
        _put(self._hbase, ASKED, b"")


def _put(hbase: HbaseConnection, column: bytes, value: bytes) -> None:
    with hbase.session() as session:
        cells = [(HEAD_ROW, {column: value})]
        session.put_many(tables.LEDGER, cells, wall_clock.now_ms())
