"""Waits that end in time, with one timer for all of a channel.

In: futures and the moments they must be done by. Out: their results, or the error of being late.
Never: a timer per wait; a follower asks its leader again the moment it is answered, and setting
and taking back a timer would cost as much as the request.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from broker.clock.port import Clock, TimerHandle


class Deadlines:
    """Invariant: no wait of `_waiting` ends before `_fires_at`; infinity while no timer is set.

    As many wait as its channel lets wait. A timer that finds nobody late is set to the next
    moment, or not at all.
    """

    def __init__(self, clock: Clock, late: Callable[[], Exception]) -> None:
        self._clock = clock
        self._late = late
        self._waiting: dict[asyncio.Future[Any], float] = {}
        self._timer: TimerHandle | None = None
        self._fires_at = math.inf
        self._ending = False

    async def until(self, deadline: float, future: asyncio.Future[Any]) -> Any:
        """The result of `future`; the error of being late from `deadline` on."""
        self._waiting[future] = deadline
        if deadline < self._fires_at:
            self._set(deadline)
        try:
            return await future
        finally:
            del self._waiting[future]
            if self._ending and not self._waiting:
                self._take_back()

    def end(self) -> None:
        """The channel is closed: no timer stays when the last wait is over."""
        self._ending = True
        if not self._waiting:
            self._take_back()

    def _take_back(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._fires_at = None, math.inf

    def _set(self, moment: float) -> None:
        self._take_back()
        self._fires_at = moment
        self._timer = self._clock.call_later(max(moment - self._clock.monotonic(), 0), self._fire)

    def _fire(self) -> None:
        self._timer, reached = None, self._fires_at
        self._fires_at = math.inf
        for future, deadline in self._waiting.items():
            if deadline <= reached and not future.done():
                future.set_exception(self._late())
        left = [deadline for deadline in self._waiting.values() if deadline > reached]
        if left:
            self._set(min(left))
