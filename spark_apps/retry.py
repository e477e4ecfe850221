"""Trying again what store or bus refuse for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from bus.errors import BusError
from ingest.store.port import StoreError

log = logging.getLogger(__name__)

Done = TypeVar("Done")

WAIT_S = 1200.0  # how long store and bus are waited for before the driver ends


def retry(work: Callable[[], Done], stopping: threading.Event, what: str) -> Done:
    """Do what is refused for a while (a full disk, a server that is away, a coordinator that moves)
    again and again, within `WAIT_S`. Raises `StoreError`, `BusError`."""
    pause_s, waited_s = 0.1, 0.0
    while True:
        try:
            return work()
        except (StoreError, BusError) as error:
            if not error.retriable or waited_s >= WAIT_S or stopping.is_set():
                raise
            log.warning("%s: %s; trying again in %.1f s", what, error, pause_s)
        stopping.wait(pause_s)
        waited_s += pause_s
        pause_s = min(2 * pause_s, 5.0)
