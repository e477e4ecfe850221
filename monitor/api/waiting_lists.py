"""How many lists wait for an approval, asked once for all pages.

Asks only while a page is open, and no oftener than every `PERIOD_SECONDS`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from monitor.api.pool import QueryUnavailable, ReaderPool
from monitor.ports import PlateListReader

PERIOD_SECONDS = 3.0
WATCHED_SECONDS = 10.0
"""Since a page has read `count`: it is closed, or its browser away."""


class WaitingListPoll:
    """A service: `run` until cancelled."""

    def __init__(self, lists: ReaderPool[PlateListReader], now_ms: Callable[[], int]) -> None:
        self._lists, self._now_ms = lists, now_ms
        self._count = 0
        self._read_at = -WATCHED_SECONDS

    @property
    def count(self) -> int:
        """As of the last answer; while lists cannot be read, of the one before."""
        self._read_at = time.monotonic()
        return self._count

    async def run(self) -> None:
        """Ask, rest, ask."""
        while True:
            if time.monotonic() - self._read_at < WATCHED_SECONDS:
                await self.poll()
            await asyncio.sleep(PERIOD_SECONDS)

    async def poll(self) -> None:
        """Ask now."""
        try:
            waiting = await self._lists.run(lambda reader: reader.proposals(self._now_ms()))
        except QueryUnavailable:
            return  # the page of lists says why
        self._count = len(waiting)
