"""Days of a broker's logs in minutes: a loop that waits for nothing, and what belongs to it.

In: a step. Out: a clock of this loop, a disk without threads, a cleaner without a process. Whoever
sleeps until the end of a step wakes as soon as all others sleep, too. Never: another decision than
the product's: logs, their maintenance and the cleaner are as they are.
"""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import AsyncGenerator, Callable
from typing import Any

from broker.clock.real import RealClock
from broker.disk.port import Disk, Result
from broker.disk.real import RealDisk
from broker.log.cleaner.order_runner import run_order
from bus.errors import check

START_MS = 1_790_000_000_000
STEP_S = 60.0
"""How exactly time is told: whoever waits for less wakes at the end of the step, so that what the
broker does once a second costs a month no hour."""
SEED = 28


class BenchSelector(selectors.SelectSelector):
    """Invariant: `now` is what was waited for so far; nothing comes from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Time goes on at once."""
        check(timeout is not None, "somebody waits for a moment")
        self.now += max(timeout or 0.0, 0.0)
        return []


class BenchLoop(asyncio.SelectorEventLoop):
    """Invariant: between two moments at which somebody wakes no time passes."""

    def __init__(self) -> None:
        self._virtual = BenchSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Seconds since its beginning."""
        return self._virtual.now


class BenchClock(RealClock):
    """Implements `broker.clock.port.Clock` on a virtual loop, in steps."""

    def __init__(self, loop: BenchLoop, step_s: float = STEP_S) -> None:
        super().__init__(SEED)
        self._loop, self._step_s = loop, step_s
        self.monotonic = loop.time
        self.now_ms = self._now_ms

    def _now_ms(self) -> int:
        return START_MS + round(self._loop.time() * 1000)

    async def sleep(self, seconds: float) -> None:
        """Until the end of the step in which so many seconds end."""
        await asyncio.sleep(self._until_step(seconds))

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """At the end of the step in which so many seconds end."""
        return self._loop.call_later(self._until_step(delay_s), callback)

    def _until_step(self, seconds: float) -> float:
        now = self._loop.time()
        if seconds <= 0:
            return 0.0
        return max(math.ceil(round((now + seconds) / self._step_s, 6)) * self._step_s - now, 0.0)


class BenchDisk(RealDisk):
    """Work for a worker is done at once: nobody else waits meanwhile. Of a folder in memory no
    flush takes any time."""

    async def run(
        self, function: Callable[..., Result], *arguments: Any, worker: str = ""
    ) -> Result:
        await asyncio.sleep(0)
        return function(*arguments)


class BenchCleaner:
    """Implements `broker.cleaner_process.port.CleanerProcess`: the child's own function, here."""

    def __init__(self, disk: Disk, on_bytes: Callable[[int], None]) -> None:
        """`on_bytes`: read or written by a pass."""
        self._disk, self._on_bytes = disk, on_bytes

    async def run(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """See the port."""
        for report in run_order(self._disk, request, self._on_bytes):
            yield report
            await asyncio.sleep(0)

    def limit_rate(self, bytes_per_second: float) -> None:
        """No time passes."""

    async def stop(self) -> None:
        """See the port."""


def new_random() -> random.Random:
    """The same in each run."""
    return random.Random(SEED)
