"""The record store of a driver, as its queries use it.

In: batches with their positions. Out: what the store has made of them. Never: giving up what is
refused for a while, or a second writer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ingest.store.port import Applied, Position, RecordReader, RecordStore, StoreBatch
from spark_apps.session.retry import retry


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
        return retry(partial(self._store.apply, batch, positions), self._stopping, "store")

    def set_positions(self, positions: Sequence[Position]) -> None:
        """As the port's `set_positions`."""
        retry(partial(self._store.set_positions, positions), self._stopping, "store")


@dataclass(frozen=True, slots=True)
class OpenStore:
    """The record store of a driver: written through `writer`, read directly."""

    writer: StoreWriter
    reader: RecordReader
