"""What the applications of one driver share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bus.client.kafka.cluster import AdminClient
from bus.client.model import ClusterIdentity
from bus.register_file import RegisterFile
from ingest.store.port import (
    Applied,
    Position,
    RecordReader,
    RecordStore,
    StoreBatch,
    StoreError,
)
from spark_apps.publisher import EventPublisher
from spark_apps.settings import JobSettings

log = logging.getLogger(__name__)

Done = TypeVar("Done")

STORE_WAIT_S = 300.0  # how long the store is waited for before the driver ends


def retry(work: Callable[[], Done], stopping: threading.Event) -> Done:
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
        return retry(partial(self._store.apply, batch, positions), self._stopping)


@dataclass(frozen=True, slots=True)
class Context:
    """One driver."""

    settings: JobSettings
    cluster: ClusterIdentity
    admin: AdminClient
    store: StoreWriter
    reader: RecordReader
    publisher: EventPublisher
    register: RegisterFile
