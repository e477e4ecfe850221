"""The port for time, random numbers and concurrency.

In: nothing. Out: ``Clock``, the only way a package of the broker reads the time, draws a random
number, waits or starts a task. Never: a call of ``time``, ``random`` or ``threading`` outside the
implementations in this package; a simulated clock must be able to control all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Random(Protocol):
    """The part of ``random.Random`` the broker uses; a seed makes a run repeatable."""

    def random(self) -> float: ...
    def randrange(self, start: int, stop: int) -> int: ...
    def getrandbits(self, k: int, /) -> int: ...
    def shuffle(self, x: list[Any]) -> None: ...


class TimerHandle(Protocol):
    """What ``call_later`` returns; cancelling twice or after it ran does nothing."""

    def cancel(self) -> None: ...


class TaskHandle(Protocol):
    """A running task. Awaiting it gives its result or raises what it raised."""

    def cancel(self) -> bool: ...
    def done(self) -> bool: ...
    def __await__(self) -> Any: ...


class Clock(Protocol):
    """Time, random numbers and tasks of one process."""

    @property
    def random(self) -> Random:
        """The process' source of random numbers."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC; may jump when an operator sets the clock."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back. For timeouts and durations."""

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking other tasks."""

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> TaskHandle:
        """Run a coroutine beside the caller. The caller keeps the handle and ends the task.

        Production spawns through ``bus.runtime.tasks``: an error that escapes the coroutine is
        logged and ends the process, awaited or not. Expected errors are its result, or handled
        inside.
        """

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerHandle:
        """Call ``callback`` once after ``delay_s`` seconds, on the same thread. An error it raises
        ends the process."""

    def secret_bytes(self, count: int) -> bytes:
        """Random bytes that nobody can guess from those drawn before: nonces of logins."""

    def new_uuid(self) -> bytes:
        """Sixteen random bytes of a version 4 UUID (topic ids, directory ids, cluster ids)."""


def monotonic_ms(clock: Clock) -> int:
    """Whole milliseconds since some fixed moment; never goes back."""
    return int(clock.monotonic() * 1000)
