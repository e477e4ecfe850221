"""What the applications of one driver share.

In: settings, the store, the cluster. Out: one object handed to every application.
Never: a global.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from bus.client.cluster import AdminClient
from bus.client.model import Cluster
from bus.contracts.register import Register, decode_register
from ingest.store.port import (
    Applied,
    Position,
    RecordReader,
    RecordStore,
    StoreBatch,
    StoreError,
)
from spark_apps.events import Events
from spark_apps.settings import JobSettings

log = logging.getLogger(__name__)

Done = TypeVar("Done")

STORE_WAIT_S = 300.0  # how long the store is waited for before the driver ends


def now_ms() -> int:
    """The wall clock of this driver."""
    return time.time_ns() // 1_000_000


def patiently(work: Callable[[], Done], stopping: threading.Event) -> Done:
    """Do what the store refuses for a while (a full disk, a server that is away) again and again,
    within `STORE_WAIT_S`. Raises `StoreError`."""
    pause_s, waited_s = 0.1, 0.0
    while True:
        try:
            return work()
        except StoreError as error:
            if not error.retriable or waited_s >= STORE_WAIT_S or stopping.is_set():
                raise
            log.warning("%s; trying again in %.1f s", error, pause_s)
        stopping.wait(pause_s)
        waited_s += pause_s
        pause_s = min(2 * pause_s, 5.0)


class StoreWriter:
    """The store as the queries write it: what is refused for a while is tried again.

    Never: giving up a batch. When the bound is reached the query fails and the driver ends; the
    next one begins at the store's positions.
    """

    def __init__(self, store: RecordStore, stopping: threading.Event) -> None:
        self._store = store
        self._stopping = stopping

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """As the port's `apply`."""
        return patiently(partial(self._store.apply, batch, positions), self._stopping)


@dataclass(slots=True)
class RegisterFile:
    """The deployment register, read again when its file changes; empty while there is none."""

    path: Path
    _stamp: tuple[int, int] = (0, 0)
    _register: Register = field(default_factory=Register)

    def current(self) -> Register:
        """The register as it is now."""
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return self._register
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp != self._stamp:
            self._register, self._stamp = decode_register(self.path.read_bytes()), stamp
        return self._register


@dataclass(frozen=True, slots=True)
class Context:
    """One driver."""

    settings: JobSettings
    cluster: Cluster
    admin: AdminClient
    store: StoreWriter
    reader: RecordReader
    events: Events
    register: RegisterFile
