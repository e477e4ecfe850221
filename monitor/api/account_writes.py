"""Changes of accounts, sessions and links, off the event loop.

In: a function that writes. Out: its result. Never: a read; those take no longer than a look at a
file that is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from monitor.accounts.errors import AccountsUnavailable

MAX_WAITING = 64  # writes in line; more means that another process holds the file's lock

T = TypeVar("T")


class AccountWrites:
    """Runs one change after the other in a thread of its own, because a change waits for the disk
    and for the transactions of other processes.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-accounts")
        self._waiting = 0

    async def run(self, write: Callable[[], T]) -> T:
        """The result of `write`. Raises `AccountsUnavailable` and what `write` raises. A write that
        has begun ends even if its request is cancelled.
        """
        if self._waiting >= MAX_WAITING:
            raise AccountsUnavailable(
                f"{MAX_WAITING} changes of the accounts are waiting already; try again later"
            )
        self._waiting += 1
        work = asyncio.get_running_loop().run_in_executor(self._thread, write)
        work.add_done_callback(self._on_done)  # not when the request ends: it may be cancelled
        return await asyncio.shield(work)

    def close(self) -> None:
        """Wait for the write in progress; drop those behind it."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _on_done(self, _: asyncio.Future[T]) -> None:
        self._waiting -= 1
