"""Work on one file in a thread of its own: a disk that hangs must not hold up an event loop.

In: calls. Out: their results, or an error of the caller's kind after a bound. Never: two calls at
once; one that hangs is waited for, and nothing is begun behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from bus.runtime.tasks import report

Result = TypeVar("Result")


class FileThread:
    """Invariant: `_free` is held while a call is under way, also one that was given up."""

    def __init__(self, name: str, timeout_s: float, unavailable: type[Exception]) -> None:
        """`unavailable` is raised, with a sentence, when a call takes too long."""
        self._name = name
        self._timeout_s = timeout_s
        self._unavailable = unavailable
        self._free = asyncio.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, call: Callable[..., Result], *args: Any) -> Result:
        """Raises what `call` raises."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._free.acquire()
                loop = asyncio.get_running_loop()
                future = loop.run_in_executor(self._pool, partial(call, *args))
                future.add_done_callback(self._release)
                try:
                    return await asyncio.shield(future)
                except asyncio.CancelledError:
                    future.add_done_callback(self._abandoned)
                    raise
        except TimeoutError:
            why = f"{self._name}: no answer within {self._timeout_s:g} s"
            raise self._unavailable(why) from None

    def close(self) -> None:
        """Begin nothing more; does not wait for a call that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _release(self, _: asyncio.Future[Any]) -> None:
        self._free.release()

    def _abandoned(self, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None and not isinstance(error, self._unavailable):
            report(f"{self._name}: a call that was given up ended with an error", error)
