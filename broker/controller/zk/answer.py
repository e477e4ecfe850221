"""The answer to one write: given once, and not kept back for as long as ZooKeeper is away.

In: what became of the write. Out: the answer. Never: two of them. A write that has not begun when
its answer was given is not begun any more; of one that has begun nobody knows what comes of it,
which is what REQUEST_TIMED_OUT says.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from bus.errors import ErrorCode

PATIENCE_S = 20.0
"""Less than the 30 s after which clients hang up and cannot be told anything."""


class Answer:
    """Invariant: the timer runs exactly until the answer is given."""

    def __init__(
        self, clock: Clock, is_connected: Callable[[], bool], refuse: Callable[[ErrorCode], None]
    ) -> None:
        self._clock = clock
        self._is_connected = is_connected
        self._refuse = refuse
        self._timer: TimerHandle = clock.call_later(PATIENCE_S, self._late)
        self.is_given = False

    def give(self, done: Callable[[], None]) -> None:
        """It has happened."""
        if not self.is_given:
            self.is_given = True
            self._timer.cancel()
            done()

    def refuse(self, error: ErrorCode) -> None:
        """It has not."""
        self.give(lambda: self._refuse(error))

    def _late(self) -> None:
        """While ZooKeeper answers, a long line is waited for."""
        if self._is_connected():
            self._timer = self._clock.call_later(PATIENCE_S, self._late)
        else:
            self.refuse(ErrorCode.REQUEST_TIMED_OUT)
