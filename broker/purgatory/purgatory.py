"""Delayed operations: requests that wait until a key is woken and they complete, or time out.

In: keys, a time-out and two callables per request. Out: exactly one of "completed" or "expired" per
request. Never: knowledge of what a request waits for. A completed request is removed at once; no
list is ever searched or purged.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from broker.purgatory.timer import Timer, TimerEntry


class DelayedOperation:
    """One waiting request. Invariant: stands under each of its keys until ``done``."""

    __slots__ = ("done", "keep_after_timeout", "keys", "on_expire", "timer_entry", "try_complete")

    def __init__(
        self,
        keys: tuple[Hashable, ...],
        try_complete: Callable[[], bool],
        on_expire: Callable[[], None],
        keep_after_timeout: bool,
    ) -> None:
        self.keys = keys
        self.keep_after_timeout = keep_after_timeout
        self.try_complete: Callable[[], bool] | None = try_complete
        self.on_expire: Callable[[], None] | None = on_expire
        self.timer_entry: TimerEntry | None = None
        self.done = False


class Purgatory:
    """The waiting requests of one kind (produce, fetch, join, ...)."""

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self.expired = 0
        self._timer = timer
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def has(self, key: Hashable) -> bool:
        """Whether a request waits under ``key``; cheap enough to call on every append."""
        return key in self._watchers

    def watch(
        self,
        keys: Iterable[Hashable],
        timeout_ms: int,
        try_complete: Callable[[], bool],
        on_expire: Callable[[], None],
        *,
        keep_after_timeout: bool = False,
    ) -> DelayedOperation:
        """Try at once; if that fails wait until a key is woken or ``timeout_ms`` have passed.

        ``try_complete`` answers the request itself and then returns true; it is never called again
        after that. ``on_expire`` answers instead when time is up. With ``keep_after_timeout``, it
        stays registered after ``on_expire`` and is tried until it completes.
        """
        operation = DelayedOperation(
            tuple(dict.fromkeys(keys)), try_complete, on_expire, keep_after_timeout
        )
        if try_complete():
            self._release(operation)
            return operation
        for key in operation.keys:
            self._watchers.setdefault(key, {})[operation] = None
        self._size += 1
        operation.timer_entry = self._timer.add(timeout_ms, lambda: self._expire(operation))
        return operation

    def wake(self, key: Hashable) -> int:
        """Try every request that waits under ``key``; how many completed."""
        waiting = self._watchers.get(key)
        if waiting is None:
            return 0
        satisfied = 0
        for operation in list(waiting):
            satisfied += self._try(operation)
        return satisfied

    def cancel(self, operation: DelayedOperation) -> bool:
        """Forget a request (its client has gone); false if it was answered already."""
        if operation.done:
            return False
        self._forget(operation)
        return True

    def _try(self, operation: DelayedOperation) -> bool:
        # Taken out during the call: answering may wake the same key.
        try_complete, operation.try_complete = operation.try_complete, None
        if try_complete is None:
            return False
        if not try_complete():
            operation.try_complete = None if operation.done else try_complete
            return False
        if not operation.done:
            self._forget(operation)
        return True

    def _expire(self, operation: DelayedOperation) -> None:
        on_expire = operation.on_expire
        if operation.done or on_expire is None:
            return
        operation.on_expire = None
        if not operation.keep_after_timeout:
            self._forget(operation)
        self.expired += 1
        on_expire()

    def _forget(self, operation: DelayedOperation) -> None:
        for key in operation.keys:
            waiting = self._watchers[key]
            del waiting[operation]
            if not waiting:
                del self._watchers[key]
        self._size -= 1
        if operation.timer_entry is not None:
            operation.timer_entry.cancel()
        self._release(operation)

    @staticmethod
    def _release(operation: DelayedOperation) -> None:
        """Drop the callables, and with them the request and its buffers."""
        operation.done = True
        operation.try_complete = operation.on_expire = operation.timer_entry = None
