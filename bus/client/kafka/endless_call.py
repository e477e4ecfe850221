"""A call of librdkafka that may not return: it works in a thread, and is waited for with a limit.

librdkafka repeats a commit for as long as the coordinator is away, and closes no consumer before
it has ended.
In: a call. Out: a future of its result. Never: an end of the call; one that is given up keeps its
daemon thread until it ends by itself or the process does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


def begin(call: Callable[[], Result], name: str) -> Future[Result]:
    """Begin the call; `result(timeout)` waits for it and raises what it raises."""
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # whoever waits gets it, as from the call itself
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
