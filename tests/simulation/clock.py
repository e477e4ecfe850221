"""`broker.clock.port.Clock` in virtual time, for one life of one process.

Never: the machine's time or random numbers. The wall clock is the virtual time plus the machine's
own error, which the world may change while it runs (an operator sets the clock).
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from tests.simulation.loop import START_S, ProcessLife, VirtualLoop

EPOCH_MS = 1_790_000_000_000
"""The wall clock at the beginning of every world: some day of 2026."""


class SimClock:
    """Time, random numbers and tasks of one process."""

    def __init__(self, loop: VirtualLoop, life: ProcessLife, dice: random.Random) -> None:
        self._loop = loop
        self._life = life
        self._dice = dice
        self.wall_error_ms = 0
        self.tasks: list[asyncio.Task[Any]] = []
        self._prune_at = 64

    @property
    def random(self) -> random.Random:
        """The random generator of this process."""
        return self._dice

    def now_ms(self) -> int:
        """The wall clock."""
        return EPOCH_MS + int((self.monotonic() - START_S) * 1000) + self.wall_error_ms

    def monotonic(self) -> float:
        """Virtual seconds, plus what the current step has spent so far."""
        return max(self._loop.time(), self._life.busy_until)

    def spend(self, seconds: float) -> None:
        """Keeps this process's CPU busy for so long during the current step."""
        self._life.spend(self._loop.time(), seconds)

    async def sleep(self, seconds: float) -> None:
        """Waits in virtual time."""
        await asyncio.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Starts a task of this process; one that died during the current step starts none."""
        task = self._loop.create_task(coroutine, name=name, context=self._life.context)
        if self._life.dead:
            self._loop.keep_to_the_end(task)
        task.add_done_callback(self._report, context=self._life.context)
        self.tasks.append(task)
        if len(self.tasks) > self._prune_at:
            self.tasks = [one for one in self.tasks if not one.done()]
            self._prune_at = 2 * len(self.tasks) + 64
        return task

    def _report(self, task: asyncio.Task[Any]) -> None:
        """Does what `bus.runtime.tasks` does: an error of a task fails its process, awaited or not."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._loop.call_exception_handler(
                {
                    "message": f"task {task.get_name()} ended with an error",
                    "exception": error,
                    "life": self._life,
                }
            )

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Starts a timer of this process."""
        return self._loop.call_later(delay_s, callback, context=self._life.context)

    def secret_bytes(self, count: int) -> bytes:
        """Draws them from the random generator: a seed repeats them."""
        return self._dice.randbytes(count)

    def new_uuid(self) -> bytes:
        """Draws a UUID from the random generator."""
        return uuid.UUID(int=self._dice.getrandbits(128), version=4).bytes
