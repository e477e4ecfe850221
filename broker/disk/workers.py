"""The threads that wait for the device, so that the loop does not.

Maps names of queues to executors, with a fixed limit of threads for any number of names.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

SHARED_THREADS = 2
"""For work that needs no order (deletions, cold reads): one may wait while the other goes on."""

MAX_NAMED = 32
"""Queues with a thread of their own. More log directories than that on one machine are rare; they
share, which costs them independence of each other, never the order of their calls."""


class Workers:
    """Invariant: a name always means the same executor, and each named one has a single thread."""

    def __init__(self) -> None:
        self._shared: ThreadPoolExecutor | None = None
        self._threads: list[ThreadPoolExecutor] = []
        self._by_name: dict[str, ThreadPoolExecutor] = {}

    def of(self, name: str) -> ThreadPoolExecutor:
        """The executor of a queue; an empty name stands for the shared one."""
        if name:
            return self._by_name.get(name) or self._assign(name)
        if self._shared is None:
            self._shared = ThreadPoolExecutor(SHARED_THREADS, thread_name_prefix="disk")
        return self._shared

    def _assign(self, name: str) -> ThreadPoolExecutor:
        if len(self._threads) < MAX_NAMED:
            self._threads.append(ThreadPoolExecutor(1, thread_name_prefix=f"disk-{name[-40:]}"))
            chosen = self._threads[-1]
        else:
            chosen = self._threads[len(self._by_name) % MAX_NAMED]
        self._by_name[name] = chosen
        return chosen
