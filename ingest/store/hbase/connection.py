"""Sessions with HBase: happybase's pool, its errors as the port's, what happybase does not wrap.

Source: happybase 1.3, Thrift 1 of HBase 2.6; `docs/hbase.md`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import happybase
from happybase.pool import NoConnectionsAvailable
from Hbase_thrift import AlreadyExists, IllegalArgument, Mutation
from Hbase_thrift import IOError as HbaseError
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TException
from thriftpy2.transport import TTransportException

from ingest.store.hbase.tables import FAMILY
from ingest.store.port import StoreError, StoreUnavailable

log = logging.getLogger(__name__)

POOL = 6
LINES_AT_ONCE = 4
"""Over which one part of a batch is written; two cores of HBase were busy with three."""
TIMEOUT_MS = 20_000
WAIT_S = 20.0
IDLE_S = 30.0  # a Thrift server closes a line from which it has read nothing for 60 s
ROWS_PER_CALL = 1_000  # 25 to 60 ms each; five times as many took ten times as long
PUT_BYTES = 4 << 20  # of one call, which a Thrift server holds in its small heap

logging.getLogger("happybase.pool").setLevel(logging.WARNING)  # it tells what we tell
_PASSING = (TTransportException, TProtocolException, OSError, NoConnectionsAvailable)
_MISSING = "TableNotFoundException"

Cells = dict[bytes, bytes]
Row = tuple[bytes, Cells]
Done = TypeVar("Done")


class TableMissing(StoreError):
    """The table does not exist: nothing has been written yet."""


@contextmanager
def hbase_errors(what: str) -> Iterator[None]:
    """Convert what happybase and Thrift raise inside."""
    try:
        yield
    except _PASSING as error:
        message = getattr(error, "message", None) or f"{type(error).__name__} {error}"
        raise StoreUnavailable(f"HBase at {what}: {message}") from error
    except HbaseError as error:
        message = str(error.message).partition("\n")[0]
        if _MISSING in str(error.message):
            raise TableMissing(f"HBase at {what}: {message}") from error
        # A region that moves, a server that restarts: HBase itself calls them all input and output.
        raise StoreUnavailable(f"HBase at {what}: {message}") from error
    except (IllegalArgument, TApplicationException) as error:
        raise StoreError(f"HBase at {what}: {error}") from error


Server = tuple[str, int]
"""Host and port of a Thrift server."""


class HbaseConnection:
    """A pool of lines to one HBase; several threads may borrow at once.

    Of several Thrift servers it uses one until that fails, and then the next. Processes begin with
    different ones, so that the servers share the work.
    """

    def __init__(
        self, servers: Sequence[Server], prefix: str, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """`timeout_ms`: after which a server that does not answer is left."""
        self._timeout_ms = timeout_ms
        self._servers = tuple(servers)
        self._prefix = prefix
        self._current = os.getpid() % len(self._servers)
        self._pool: happybase.ConnectionPool | None = None
        self._lock = threading.Lock()
        self._returned: WeakKeyDictionary[happybase.Connection, float] = WeakKeyDictionary()
        self._threads: ThreadPoolExecutor | None = None

    @property
    def address(self) -> str:
        """Of the server in use."""
        host, port = self._servers[self._current]
        return f"{host}:{port}"

    @contextmanager
    def session(self) -> Iterator[ThriftSession]:
        """Borrow a connection. What is read through it must be consumed before it is returned."""
        used = self._current
        try:
            with hbase_errors(self.address):
                with self._lock:  # made when it is needed first: it connects at once
                    pool = self._pool = self._pool or self._new_pool()
                with pool.connection(timeout=WAIT_S) as connection:
                    self._reopen_idle(connection)
                    session = ThriftSession(connection, self._prefix)
                    try:
                        yield session
                    finally:
                        session.close_scans()
                        self._returned[connection] = time.monotonic()
        except StoreUnavailable:
            self._use_another_than(used)
            raise

    def get_many(
        self, table: str, keys: Sequence[bytes], columns: Sequence[bytes] | None = None
    ) -> dict[bytes, Cells]:
        """Those of the rows that are there, read over several lines at once."""

        def read(some: Sequence[bytes]) -> dict[bytes, Cells]:
            with self.session() as session:
                return session.get_many(table, some, columns)

        found: dict[bytes, Cells] = {}
        for part in self._at_once(read, list(_slices(keys))):
            found |= part
        return found

    def put_many(self, rows: Mapping[str, Sequence[Row]], timestamp_ms: int) -> None:
        """Write rows by table, over several lines at once; when this returns or raises, no call of
        it is under way any more. See `ThriftSession.put_many`."""

        def write(part: tuple[str, Sequence[Row]]) -> None:
            table, some = part
            with self.session() as session:
                session.put_many(table, some, timestamp_ms)

        parts = [(table, some) for table, own in rows.items() for some in put_slices(own)]
        self._at_once(write, parts)

    def _at_once(self, work: Callable[[Any], Done], parts: Sequence[Any]) -> list[Done]:
        """Raises what the first part raised that failed, when all have ended."""
        if len(parts) < 2:
            return [work(part) for part in parts]
        with self._lock:
            self._threads = self._threads or ThreadPoolExecutor(LINES_AT_ONCE, "hbase")
        begun = [self._threads.submit(work, part) for part in parts]
        wait(begun)
        return [one.result() for one in begun]

    def _reopen_idle(self, connection: happybase.Connection) -> None:
        """Open a line anew that nobody has used for so long that the server may have closed it: a
        driver is silent for as long as its tasks write."""
        returned = self._returned.pop(connection, None)  # None: new, or borrowed further out
        if returned is not None and time.monotonic() - returned > IDLE_S:
            connection.close()
            connection.open()

    def _new_pool(self) -> happybase.ConnectionPool:
        host, port = self._servers[self._current]
        return happybase.ConnectionPool(POOL, host=host, port=port, timeout=self._timeout_ms)

    def _use_another_than(self, used: int) -> None:
        """After a failure; once, whoever else has failed with the same one."""
        with self._lock:
            if len(self._servers) > 1 and self._current == used:
                self._current = (used + 1) % len(self._servers)
                self._pool = None  # its lines close with their last borrower

    def close(self) -> None:
        """Close what is not borrowed; a later call opens another one."""
        pool, self._pool = self._pool, None
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
        if pool is None:
            return
        for _ in range(POOL):  # a pool cannot be closed, its connections can
            with suppress(NoConnectionsAvailable):
                pool._acquire_connection(0).close()


class ThriftSession:
    """One connection while it is borrowed; some tables of one HBase."""

    def __init__(self, connection: happybase.Connection, prefix: str) -> None:
        self._connection = connection
        self._prefix = prefix
        self._scans: list[Generator[Row, None, None]] = []

    def tables(self) -> Mapping[str, int]:
        """Our tables, and the seconds after which a row leaves each."""
        start = self._name("")
        names = [name for name in self._connection.tables() if name.startswith(start)]
        return {
            name.removeprefix(start).decode(): self._family(name)["time_to_live"] for name in names
        }

    def create_table(self, name: str, options: Mapping[str, object]) -> None:
        """Make it, with these options of its one family, if it is not there."""
        with suppress(AlreadyExists):  # another process was quicker
            self._connection.create_table(self._name(name), {FAMILY: dict(options)})
            log.info("made table %s of one region (hbase-tables)", self.full_name(name))

    def full_name(self, table: str) -> str:
        """As HBase knows it."""
        return self._name(table).decode()

    def get(self, table: str, key: bytes) -> Cells:
        """One row; empty if there is none."""
        found: Cells = self._table(table).row(key)
        return found

    def get_many(
        self, table: str, keys: Sequence[bytes], columns: Sequence[bytes] | None = None
    ) -> dict[bytes, Cells]:
        """Those of the rows that are there."""
        found: dict[bytes, Cells] = {}
        for some in _slices(keys):
            found.update(self._table(table).rows(list(some), columns=columns))
        return found

    def put_many(self, table: str, rows: Iterable[Row], timestamp_ms: int) -> None:
        """Write rows, all cells with this timestamp: a write with an older one does not win,
        even if it comes later (a write that timed out here may still be carried out there)."""
        batch = self._table(table).batch(timestamp=timestamp_ms, batch_size=ROWS_PER_CALL)
        for key, cells in rows:
            batch.put(key, cells)
        batch.send()

    def compare_and_put(
        self, table: str, key: bytes, column: bytes, expected: bytes | None, new: bytes
    ) -> bool:
        """Write one cell if it still holds what is expected (None: if there is none)."""
        done: bool = self._connection.client.checkAndPut(
            self._name(table), key, column, expected, Mutation(column=column, value=new), {}
        )
        return done

    def scan(self, table: str, start: bytes, stop: bytes, rows_per_call: int) -> Iterator[Row]:
        """Rows from `start` (inclusive) to `stop` (exclusive), by key."""
        found: Generator[Row, None, None] = self._table(table).scan(
            row_start=start, row_stop=stop, batch_size=rows_per_call
        )
        self._scans.append(found)
        return found

    def close_scans(self) -> None:
        """Close scanners that were not read to their end, before another thread borrows the
        connection."""
        while self._scans:
            with suppress(TException, OSError):  # then HBase forgets the scanner by itself
                self._scans.pop().close()

    def _family(self, name: bytes) -> dict[str, Any]:
        families: dict[bytes, dict[str, Any]] = self._connection.table(name).families()
        return families[FAMILY.encode()]

    def _table(self, name: str) -> happybase.Table:
        return self._connection.table(self._name(name))

    def _name(self, table: str) -> bytes:
        return f"{self._prefix}_{table}".encode()


Sliced = TypeVar("Sliced")


def _slices(whole: Sequence[Sliced]) -> Iterator[Sequence[Sliced]]:
    """Of at most `ROWS_PER_CALL`."""
    return (whole[at : at + ROWS_PER_CALL] for at in range(0, len(whole), ROWS_PER_CALL))


def put_slices(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Consecutive ones, each of at most `ROWS_PER_CALL` rows and `PUT_BYTES`, or of one row that is
    larger."""
    first = size = 0
    for number, (key, cells) in enumerate(rows):
        more = len(key) + sum(len(name) + len(text) for name, text in cells.items())
        if number > first and (number - first == ROWS_PER_CALL or size + more > PUT_BYTES):
            yield rows[first:number]
            first, size = number, 0
        size += more
    if rows:
        yield rows[first:]
