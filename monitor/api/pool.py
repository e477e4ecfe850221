"""Runs queries on a store off the event loop: few threads, one reader each, opened again after a
failure."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Protocol, TypeVar

from ingest.store.port import InvalidCursor

log = logging.getLogger(__name__)

MAX_WAITING = (
    64  # questions in line; more means the store cannot follow, and waiting would only hide it
)


LOWEST_PRIORITY = 19


class Closable(Protocol):
    """What every reader can do."""

    def close(self) -> None:
        """Release it."""


R = TypeVar("R", bound=Closable)
A = TypeVar("A")


class QueryUnavailable(Exception):
    """The store cannot be asked now; the text says why, for the page."""


class ReaderPool(Generic[R]):
    """`open_reader` runs in the thread that will use the reader, because SQLite wants it so."""

    def __init__(
        self, name: str, open_reader: Callable[[], R], *, threads: int, is_background: bool = False
    ) -> None:
        """`is_background`: its threads get what the others leave of the processors."""
        self.name = name
        self.unavailable = ""  # why the last question had no answer; empty = it had
        self._open = open_reader
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(
            threads,
            thread_name_prefix=f"console-{name}",
            initializer=_lower_priority if is_background else None,
        )
        self._waiting = 0

    async def run(self, query: Callable[[R], A], *, timeout_seconds: float = 20.0) -> A:
        """Put the question. Raises `QueryUnavailable`."""
        if self._waiting >= MAX_WAITING:
            raise QueryUnavailable(f"{self.name}: {MAX_WAITING} questions are waiting already")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            work = loop.run_in_executor(self._pool, self._run, query)
            return await asyncio.wait_for(work, timeout_seconds)
        except TimeoutError as error:
            raise QueryUnavailable(
                f"{self.name}: no answer within {timeout_seconds:.0f} s"
            ) from error
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Refuse further queries; readers are released with their threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, query: Callable[[R], A]) -> A:
        try:
            answer = query(self._reader())
        except InvalidCursor:
            raise
        except (
            Exception
        ) as error:  # any error of a reader means the same: query again later
            self._drop()
            self._set_unavailable(f"{type(error).__name__}: {error}")
            raise QueryUnavailable(f"{self.name}: {error}") from error
        self._set_unavailable("")
        return answer

    def _reader(self) -> R:
        reader: R | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._open()
            self._local.reader = reader
        return reader

    def _drop(self) -> None:
        reader: R | None = getattr(self._local, "reader", None)
        self._local.reader = None
        if reader is not None:
            try:
                reader.close()
            except Exception as error:  # it is broken already; the next question opens another
                log.debug("closing the %s reader: %s", self.name, error)

    def _set_unavailable(self, away: str) -> None:
        if away and away != self.unavailable:
            log.warning("the %s store is away: %s", self.name, away)
        self.unavailable = away


def _lower_priority() -> None:
    """Of this thread alone, which Linux can do."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
