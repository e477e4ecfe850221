"""Trying again what store or bus refuse for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from bus.errors import BusError
from ingest.store.port import StoreError

log = logging.getLogger(__name__)

Done = TypeVar("Done")

WAIT_S = 1200.0  # how long store and bus are waited for before the driver ends


def retry(
    work: Callable[[], Done], stopping: threading.Event, what: str, wait_s: float = WAIT_S
) -> Done:
    """Do what is refused for a while (a full disk, a server that is away, a coordinator that moves)
    again and again, within `wait_s`. Raises `StoreError`, `BusError`."""
    pause_s, deadline = 0.1, time.monotonic() + wait_s
    while True:
        try:
            return work()
        except (StoreError, BusError) as error:
            if not error.retriable or time.monotonic() >= deadline or stopping.is_set():
                raise
            log.warning("%s: %s; trying again in %.1f s", what, error, pause_s)
        stopping.wait(pause_s)
        pause_s = min(2 * pause_s, 5.0)
