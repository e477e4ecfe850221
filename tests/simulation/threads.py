"""`threading` of the standard library in a world: threads that are greenlets on the virtual loop.

In: what the product's threads do: start, join, events, conditions. Out: waits in virtual time, in an
order that only the seed decides. Never: a thread of the machine. A lock is free whenever it is asked:
nobody waits while he holds one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from tests.simulation import blocking

Report = Callable[[str], None]


class VirtualEvent:
    """`threading.Event`."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[asyncio.Future[None]] = []

    def set(self) -> None:
        """From any thread, and from the loop itself."""
        self._is_set = True
        for one in self._waiting:
            if not one.done():
                one.set_result(None)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            blocking.wait_for(self._until_set(timeout))
        return self._is_set

    async def _until_set(self, timeout_s: float | None) -> None:
        one = asyncio.get_running_loop().create_future()
        self._waiting.append(one)
        try:
            async with asyncio.timeout(timeout_s):
                await one
        except TimeoutError:
            pass
        finally:
            self._waiting.remove(one)


class VirtualCondition:
    """`threading.Condition`, for those who look again after a wait."""

    def __init__(self) -> None:
        self._moved = VirtualEvent()

    def __enter__(self) -> VirtualCondition:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was held."""

    def wait(self, timeout: float | None = None) -> bool:
        self._moved.clear()
        return self._moved.wait(timeout)

    def notify(self) -> None:
        self._moved.set()

    notify_all = notify


class VirtualThread:
    """`threading.Thread` with a target; an error that ends it is a complaint."""

    report: Report = print

    def __init__(self, *, target: Callable[[], None], name: str, daemon: bool) -> None:
        self._target, self._name = target, name
        self._ended = VirtualEvent()
        self._is_begun = False

    def start(self) -> None:
        self._is_begun = True
        blocking.wait_for(self._start())

    async def _start(self) -> None:
        """In the life of the process that asks."""
        blocking.begin(asyncio.get_running_loop(), self._run)  # type: ignore[arg-type]

    def _run(self) -> None:
        try:
            self._target()
        except Exception as error:
            self.report(f"thread {self._name} ended: {error!r}")
        self._ended.set()

    def join(self, timeout: float | None = None) -> None:
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        return self._is_begun and not self._ended.is_set()


class VirtualThreading:
    """The module, as far as an edge uses it."""

    Event, Condition, Thread = VirtualEvent, VirtualCondition, VirtualThread
    Lock = threading.Lock
