"""Timeouts of all waits of a channel, with one timer.

In: futures and the moments they must be done by. Out: their results, or the timeout error.
Never: a timer per wait; a follower asks its leader again the moment it is answered, and setting
and cancelling a timer would cost as much as the request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from bus.client.wire.ports import Cancellable, ChannelClock


class RequestTimeouts:
    """Invariant: no wait of `_waiting` ends before `_fires_at`; infinity while no timer is set.

    The channel bounds how many wait. A timer that finds no wait expired is set to the next
    deadline, or not at all.
    """

    def __init__(self, clock: ChannelClock, late: Callable[[], Exception]) -> None:
        self._clock = clock
        self._timeout_error = late
        self._waiting: dict[asyncio.Future[Any], float] = {}
        self._timer: Cancellable | None = None
        self._fires_at = math.inf
        self._closing = False

    async def wait(self, deadline: float, future: asyncio.Future[Any]) -> Any:
        """The result of `future`; the timeout error from `deadline` on."""
        self._waiting[future] = deadline
        if deadline < self._fires_at:
            self._schedule(deadline)
        try:
            return await future
        finally:
            del self._waiting[future]
            if self._closing and not self._waiting:
                self._cancel_timer()

    def close(self) -> None:
        """The channel is closed: no timer stays when the last wait is over."""
        self._closing = True
        if not self._waiting:
            self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = None, math.inf

    def _schedule(self, moment: float) -> None:
        self._cancel_timer()
        self._fires_at = moment
        self._timer = self._clock.call_later(max(moment - self._clock.monotonic(), 0), self._fire)

    def _fire(self) -> None:
        self._timer, reached = None, self._fires_at
        self._fires_at = math.inf
        for future, deadline in self._waiting.items():
            if deadline <= reached and not future.done():
                future.set_exception(self._timeout_error())
        left = [deadline for deadline in self._waiting.values() if deadline > reached]
        if left:
            self._schedule(min(left))
