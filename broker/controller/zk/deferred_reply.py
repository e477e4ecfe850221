"""The reply to one write: sent once, and not delayed for as long as ZooKeeper is unavailable.

A write that has not started when its error was sent does not start any more; the outcome of one
that has started is unknown, which is what REQUEST_TIMED_OUT says.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from bus.errors import ErrorCode

TIMEOUT_S = 20.0
"""Below the 30 s after which clients disconnect."""


class DeferredReply:
    """Invariant: the timer runs exactly until the reply is sent."""

    def __init__(
        self, clock: Clock, is_connected: Callable[[], bool], refuse: Callable[[ErrorCode], None]
    ) -> None:
        self._clock = clock
        self._is_connected = is_connected
        self._refuse = refuse
        self._timer: TimerHandle = clock.call_later(TIMEOUT_S, self._on_timeout)
        self.is_sent = False

    def send(self, done: Callable[[], None]) -> None:
        """The write succeeded."""
        if not self.is_sent:
            self.is_sent = True
            self._timer.cancel()
            done()

    def refuse(self, error: ErrorCode) -> None:
        """The write failed."""
        self.send(lambda: self._refuse(error))

    def _on_timeout(self) -> None:
        """While ZooKeeper responds, a long queue is waited for."""
        if self._is_connected():
            self._timer = self._clock.call_later(TIMEOUT_S, self._on_timeout)
        else:
            self.refuse(ErrorCode.REQUEST_TIMED_OUT)
