"""Writes pictures without ever delaying their record (I-7).

A picture that a slow or unreachable store does not accept in time waits on the local disk, bounded,
and is retried when the store is back. Only beyond that bound is a picture lost; it is counted, and
its address answers 404. The record, with the address, goes on in every case.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bus.contracts.pictures import is_safe_name
from ingest.pictures.store import PictureStore, write_durably

log = logging.getLogger(__name__)

_THREADS = 4  # fsyncs overlap well up to here
# After a failure the store is left in peace so long; pictures go to the waiting folder
_PAUSE_S = 5.0


class PictureWriter:
    """Invariant: `stored` + `lost` is the number of pictures given; waiting ones are among the
    kept."""

    def __init__(
        self,
        store: PictureStore,
        waiting: Path,
        *,
        write_timeout_ms: int,
        waiting_max_bytes: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store = store
        self.stored = self.lost = 0
        self._waiting = waiting
        self._waiting.mkdir(parents=True, exist_ok=True)
        self._timeout_s = write_timeout_ms / 1000
        self._max_bytes = waiting_max_bytes
        self._monotonic = monotonic
        self._avoid_until = 0.0
        self._lock = threading.Lock()
        self._waiting_bytes = sum(path.stat().st_size for path in self._files())
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="pictures")
        self._wake = threading.Event()
        self._stopping = False
        self._retry_thread = threading.Thread(
            target=self._retry_loop, name="picture-carrier", daemon=True
        )
        self._retry_thread.start()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of pictures that wait for their store."""
        return self._waiting_bytes

    async def write(self, name: str, data: bytes) -> bool:
        """Return when the picture is durable somewhere; False when it had to be given up."""
        stored = await self._to_store(name, data) or await asyncio.to_thread(
            self._write_waiting, name, data
        )
        with self._lock:
            self.stored, self.lost = self.stored + stored, self.lost + (not stored)
        return stored

    async def read(self, name: str) -> bytes | None:
        """A picture from its store, or from the waiting folder."""
        if not is_safe_name(name):
            return None
        return await asyncio.to_thread(self._read, name)

    def close(self) -> None:
        """End the threads; what waits is carried over at the next start."""
        self._stopping = True
        self._wake.set()
        self._retry_thread.join(timeout=5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _to_store(self, name: str, data: bytes) -> bool:
        if self._monotonic() < self._avoid_until:
            return False
        loop = asyncio.get_running_loop()
        writing = loop.run_in_executor(self._pool, self.store.put, name, data)
        try:
            await asyncio.wait_for(writing, self._timeout_s)
        except Exception as error:  # every file system has its own exceptions; all mean "not taken"
            self._avoid_until = self._monotonic() + _PAUSE_S
            log.warning("picture store: %s; pictures wait on the local disk", error or "too slow")
            return False
        return True

    def _write_waiting(self, name: str, data: bytes) -> bool:
        """Put the picture into the waiting folder, if it has room."""
        path = self._waiting / name
        with self._lock:
            before = path.stat().st_size if path.is_file() else 0  # a retry of the same record
            if self._waiting_bytes - before + len(data) > self._max_bytes:
                return False
            self._waiting_bytes += len(data) - before
        try:
            write_durably(path, data)
        except OSError as error:
            log.error("picture %s is lost: %s", name, error)
            with self._lock:
                self._waiting_bytes -= len(data) - before
            return False
        self._wake.set()
        return True

    def _read(self, name: str) -> bytes | None:
        path = self._waiting / name
        if path.is_file():
            return path.read_bytes()
        return self.store.get(name)

    def _files(self) -> list[Path]:
        """What waits, oldest day first; unfinished writes (dot files) are not pictures."""
        return sorted(
            path for path in self._waiting.rglob("*") if path.is_file() and path.name[0] != "."
        )

    def _retry_loop(self) -> None:
        """The carrier's thread: when the store is back, bring it what has waited."""
        while not self._stopping:
            rest = self._avoid_until - self._monotonic()
            if self._waiting_bytes and rest <= 0:
                self._retry_waiting()
            self._wake.wait(max(rest, 0.1) if self._waiting_bytes else None)
            self._wake.clear()

    def _retry_waiting(self) -> None:
        for path in self._files():
            if self._stopping:
                return
            try:
                data = path.read_bytes()
                self.store.put(path.relative_to(self._waiting).as_posix(), data)
                path.unlink()
            except Exception as error:  # as in _to_store; or the waiting folder's own disk
                self._avoid_until = self._monotonic() + _PAUSE_S
                log.info("%s waits on: %s", path.name, error)
                return
            with self._lock:
                self._waiting_bytes -= len(data)
