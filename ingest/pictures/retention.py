"""Pictures past their time leave the store, by the day they arrived, a slice at a time.

A thread of the edge, which writes them: nothing waits for it. The copies that belong to alarms lie
in a folder of their own and stay.
"""

from __future__ import annotations

import logging
import threading
from zoneinfo import ZoneInfo

from bus.domain.retention import first_retained_day
from bus.runtime import wall_clock
from ingest.pictures.store import PictureStore

log = logging.getLogger(__name__)

SLICE = 500  # files; a disk that also takes new ones is left alone between two slices
PAUSE_S = 0.5
REST_S = 600.0  # after the last one that was due; a day ends once a day


class PictureRetention:
    """A thread between `start` and `close`."""

    def __init__(self, store: PictureStore, days: int, zone: ZoneInfo) -> None:
        self._store = store
        self._days = days
        self._zone = zone
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="picture-retention", daemon=True)

    def start(self) -> None:
        """Begin, where there is anything to do."""
        if self._days:
            self._thread.start()

    def close(self) -> None:
        """End; a store that does not answer is not waited for."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def forget(self, now_ms: int) -> int:
        """Delete a slice; how many files. 0 also where the store cannot be reached."""
        try:
            return self._store.forget(first_retained_day(self._days, now_ms, self._zone), SLICE)
        except Exception as error:  # every file system has its own
            log.warning("old pictures are deleted later: %s", error)
            return 0

    def _run(self) -> None:
        while not self._stopping.is_set():
            full = self.forget(wall_clock.now_ms()) >= SLICE
            self._stopping.wait(PAUSE_S if full else REST_S)
