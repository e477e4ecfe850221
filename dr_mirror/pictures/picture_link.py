"""The share of the link that pictures may take: what records and state leave of it.

In: sizes, from the copier's threads. Out: a return when more may come. Core:
`dr_mirror.copy.plan.pace`. Never: a picture begun on a limited link while records wait; a wait
beyond `LONGEST_WAIT_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from dr_mirror.copy.plan.pace import CopyClass, LinkLimit, allowed_classes

POLL_S = 0.1
LONGEST_WAIT_S = 60.0
"""On a link that is too narrow for the records alone, each thread brings a picture a minute."""


class PictureLink:
    """Callable from any thread but that of `loop`, which owns the limit."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit: LinkLimit, lag_bytes: Callable[[], int]
    ) -> None:
        """`lag_bytes()`: of records that the target lacks."""
        self._loop, self._limit, self.lag_bytes = loop, limit, lag_bytes

    def __call__(self, size: int) -> None:
        """So many bytes of pictures came; returns when more may."""
        if not self._limit.is_limited:
            return
        waiting = asyncio.run_coroutine_threadsafe(self._spend(size), self._loop)
        with suppress(TimeoutError):
            waiting.result(LONGEST_WAIT_S)
        waiting.cancel()

    async def _spend(self, size: int) -> None:
        self._limit.spend(size, time.monotonic())
        while True:
            waiting = {CopyClass.RECORDS: self.lag_bytes()}
            is_allowed = CopyClass.PICTURES in allowed_classes(waiting, is_limited=True)
            wait_s = self._limit.wait_s(time.monotonic())
            if is_allowed and not wait_s:
                return
            await asyncio.sleep(max(wait_s, POLL_S))
