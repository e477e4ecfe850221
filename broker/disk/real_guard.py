"""Refuses a wait for the device on the thread that serves requests.

Raises ``CheckFailed`` for a flush on that thread while it serves. Not in production: there a flush
that was left on the loop is only slow, and a dead broker is worse. Tests (and the brokers they
start) enable it by ``REFUSE`` in their environment.
"""

from __future__ import annotations

import os
import threading

from bus.errors import check

REFUSE = "TEST_REFUSE_FLUSH_ON_LOOP"


class ServiceGuard:
    """Invariant: ``_thread`` is 0 unless serving, and unless refusing was asked for."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        self._thread = 0

    def begin(self) -> None:
        """The calling thread serves from now on."""
        if os.environ.get(REFUSE):
            self._thread = threading.get_ident()

    def end(self) -> None:
        """The thread has stopped serving."""
        self._thread = 0

    def check_flush(self, path: str) -> None:
        """Raise CheckFailed on the serving thread."""
        if self._thread:
            check(
                threading.get_ident() != self._thread,
                f"{path} is flushed on the thread that serves requests; use Disk.run",
            )


NO_GUARD = ServiceGuard()
"""For files outside a broker, where no thread serves requests."""
