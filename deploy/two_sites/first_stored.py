"""When the first record that a new primary took itself is in its store.

In: B's store, looked at all the time; the ends at the switch. Out: milliseconds. Never: a record
that came from the former primary.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing

from bus.wall_clock import now_ms
from deploy.reconcile.open_stores import open_records
from deploy.settings import Settings
from ingest.store.port import StoreError

LOOK_S = 0.03
INGEST = "ingest"

Ends = Mapping[tuple[str, int], int]
"""By topic and partition."""


class StoredPositions:
    """One thread that notes how far the store is. Invariant: `_seen` ascends in time."""

    def __init__(self, site: Settings) -> None:
        self._site = site
        self._seen: list[tuple[int, Ends]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="positions of B", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join()

    def first_beyond(self, ends: Ends, since_ms: int) -> int | None:
        """How long after `since_ms` a partition stood beyond its end for the first time; None:
        none did."""
        for at_ms, positions in list(self._seen):
            if any(end > ends[place] for place, end in positions.items() if place in ends):
                return max(at_ms - since_ms, 0)
        return None

    def _run(self) -> None:
        before: Ends = {}
        while not self._stopping.wait(LOOK_S):
            try:
                with closing(open_records(self._site)) as reader:
                    while not self._stopping.wait(LOOK_S):
                        found = {
                            (one.topic, one.partition): one.end_offset
                            for one in reader.positions(INGEST)
                        }
                        if found != before:
                            self._seen.append((now_ms(), found))
                            before = found
            except StoreError:
                continue  # busy, or not made yet
