"""Requests that wait for something: until a key is woken and they are satisfied, or time is up.

In: keys, a time-out and two callables per request. Out: exactly one of "satisfied" or "expired"
per request. Never: knowledge of what is waited for. What has been answered is forgotten at once;
no list is ever searched or purged.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from broker.purgatory.timer import Timer, TimerEntry


class Watch:
    """One waiting request. Invariant: stands under each of its keys until ``done``."""

    __slots__ = ("done", "keys", "on_expire", "stays", "timer_entry", "try_complete")

    def __init__(
        self,
        keys: tuple[Hashable, ...],
        try_complete: Callable[[], bool],
        on_expire: Callable[[], None],
        stays: bool,
    ) -> None:
        self.keys = keys
        self.stays = stays
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
        self._watchers: dict[Hashable, dict[Watch, None]] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def has(self, key: Hashable) -> bool:
        """Whether anybody waits under ``key``; cheap enough to ask on every append."""
        return key in self._watchers

    def watch(
        self,
        keys: Iterable[Hashable],
        timeout_ms: int,
        try_complete: Callable[[], bool],
        on_expire: Callable[[], None],
        *,
        stays: bool = False,
    ) -> Watch:
        """Try at once; if that fails wait until a key is woken or ``timeout_ms`` have passed.

        ``try_complete`` answers the request itself and then returns true; it is never called again
        after that. ``on_expire`` answers in its place when time is up. One that ``stays`` hears of
        that, but keeps its place among those that wait and is tried until it is satisfied.
        """
        watch = Watch(tuple(dict.fromkeys(keys)), try_complete, on_expire, stays)
        if try_complete():
            self._release(watch)
            return watch
        for key in watch.keys:
            self._watchers.setdefault(key, {})[watch] = None
        self._size += 1
        watch.timer_entry = self._timer.add(timeout_ms, lambda: self._expire(watch))
        return watch

    def wake(self, key: Hashable) -> int:
        """Try everybody who waits under ``key``; how many were satisfied."""
        waiting = self._watchers.get(key)
        if waiting is None:
            return 0
        satisfied = 0
        for watch in list(waiting):
            satisfied += self._try(watch)
        return satisfied

    def cancel(self, watch: Watch) -> bool:
        """Forget a request (its client has gone); false if it was answered already."""
        if watch.done:
            return False
        self._forget(watch)
        return True

    def _try(self, watch: Watch) -> bool:
        try_complete, watch.try_complete = watch.try_complete, None  # answering may wake again
        if try_complete is None:
            return False
        if not try_complete():
            watch.try_complete = None if watch.done else try_complete
            return False
        if not watch.done:
            self._forget(watch)
        return True

    def _expire(self, watch: Watch) -> None:
        on_expire = watch.on_expire
        if watch.done or on_expire is None:
            return
        watch.on_expire = None
        if not watch.stays:
            self._forget(watch)
        self.expired += 1
        on_expire()

    def _forget(self, watch: Watch) -> None:
        for key in watch.keys:
            waiting = self._watchers[key]
            del waiting[watch]
            if not waiting:
                del self._watchers[key]
        self._size -= 1
        if watch.timer_entry is not None:
            watch.timer_entry.cancel()
        self._release(watch)

    @staticmethod
    def _release(watch: Watch) -> None:
        """Drop the callables, and with them the request and its buffers."""
        watch.done = True
        watch.try_complete = watch.on_expire = watch.timer_entry = None
