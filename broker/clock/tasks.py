"""Tasks of services: ended and waited for; begun anew whenever there is work.

In: the clock, coroutines. Out: nothing that still runs after `end`. Never: an error swallowed other
than the cancellation asked for here.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from broker.clock.port import Clock, TaskHandle


async def end(tasks: Iterable[TaskHandle]) -> None:
    """Cancel all of them, then wait until each is gone."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for task in ending:
        with suppress(CancelledError):
            await task


class Errand:
    """Work that is done until none is left and begun anew when there is more.

    Invariant: at most one task runs, and `task` is it; none does after `stop`.
    """

    __slots__ = ("_clock", "_is_stopped", "_name", "_work", "task")

    def __init__(
        self, clock: Clock, name: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._clock = clock
        self._name = name
        self._work = work
        self.task: TaskHandle | None = None
        self._is_stopped = False

    def begin(self) -> None:
        """There is work; one that is under way sees it by itself."""
        if not self._is_stopped and (self.task is None or self.task.done()):
            self.task = self._clock.spawn(self._work(), name=self._name)

    async def stop(self) -> None:
        """End for good."""
        self._is_stopped = True
        task, self.task = self.task, None
        if task is not None:
            await end([task])
