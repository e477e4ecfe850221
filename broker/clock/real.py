"""The clock of production: the system's time and random numbers, the running asyncio loop."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from bus import tasks, wall_clock


class RealClock:
    """Implements ``clock.port.Clock`` on the running event loop."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.Random(seed) if seed is not None else random.SystemRandom()

    @property
    def random(self) -> random.Random:
        return self._random

    now_ms = staticmethod(wall_clock.now_ms)

    monotonic = staticmethod(time.monotonic)
    """The functions themselves: every request reads the clock four times."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        return tasks.spawn(coroutine, name=name)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_s, callback)

    def new_uuid(self) -> bytes:
        return uuid.UUID(int=self._random.getrandbits(128), version=4).bytes
