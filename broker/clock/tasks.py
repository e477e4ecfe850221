"""Helpers for tasks: cancel and wait for them, run one whenever there is work, or in slices.

No error is swallowed, except the cancellation requested here. Every spawn goes through the clock,
and in production through `bus.runtime.tasks`, whose `TaskSupervisor` ends the process when a task
dies.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from broker.clock.port import Clock, TaskHandle

ResultT = TypeVar("ResultT")


async def cancel_and_wait(tasks: Iterable[TaskHandle]) -> None:
    """Cancel all of them, then wait until each is gone."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for task in ending:
        with suppress(CancelledError):
            await task


async def in_slices(steps: Generator[None, None, ResultT], clock: Clock) -> ResultT:
    """Run a long piece of work; the loop serves others wherever it yields."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        await clock.sleep(0)


class OnDemandTask:
    """Runs work until none is left, and starts again when there is more.

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

    def ensure_running(self) -> None:
        """Start the work unless it is running; a running task picks new work up by itself."""
        if not self._is_stopped and (self.task is None or self.task.done()):
            self.task = self._clock.spawn(self._work(), name=self._name)

    async def stop(self) -> None:
        """Stop permanently."""
        self._is_stopped = True
        task, self.task = self.task, None
        if task is not None:
            await cancel_and_wait([task])
