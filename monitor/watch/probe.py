"""One question, asked again and again in a thread of its own: a slow one delays no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Probe(Generic[Answer]):
    """Invariant: at most one question is under way; one that hangs is waited for, not repeated."""

    def __init__(
        self,
        name: str,
        ask: Callable[[], Answer],
        on_answer: Callable[[Answer], None],
        on_fault: Callable[[str], None],
        *,
        interval_s: float,
        timeout_s: float,
    ) -> None:
        """`ask` runs in the thread; `on_answer` or `on_fault` on the loop, once per interval."""
        self.name = name
        self._ask = ask
        self._on_answer = on_answer
        self._on_fault = on_fault
        self._interval_s = interval_s
        self._timeout_s = timeout_s

    async def run(self) -> None:
        """Until cancelled."""
        pool = ThreadPoolExecutor(1, thread_name_prefix=f"probe {self.name}")
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[Answer] | None = None
        try:
            while True:
                if pending is None:
                    pending = loop.run_in_executor(pool, self._ask)
                done, _ = await asyncio.wait((pending,), timeout=self._timeout_s)
                if not done:
                    self._on_fault(f"no answer within {self._timeout_s:g} s")
                else:
                    self._report(pending)
                    pending = None
                await asyncio.sleep(self._interval_s)
        finally:
            if pending is not None:
                pending.add_done_callback(_is_too_late)
            pool.shutdown(wait=False, cancel_futures=True)

    def _report(self, done: asyncio.Future[Answer]) -> None:
        """Any exception of what was asked is its fault: a reader may raise what it likes."""
        error = done.exception()
        if error is None:
            self._on_answer(done.result())
        elif isinstance(error, Exception):
            self._on_fault(str(error) or type(error).__name__)
        else:
            raise error


def _is_too_late(answer: asyncio.Future[Answer]) -> None:
    """Takes the answer to a question that a stop has cut short, so that asyncio reports none."""
    if not answer.cancelled():
        answer.exception()
