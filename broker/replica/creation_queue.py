"""Queue of new replicas: those of a topic of thousands are created a few per loop iteration.

Calls the creation functions in the order in which the metadata name the partitions. At most one
waits per partition, and a replica that a request asks for is created at once.

Creating a log is work of the file system. A thousand of them in one iteration would delay clients,
and the quorum this broker may be a voter of, by a good part of a second.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from broker.log.checkpoint import TopicPartition

PER_ITERATION = 50
"""Replicas created per iteration at most. All of `__consumer_offsets` fit into one."""

ITERATION_S = 0.002
"""After this time no further one is begun in an iteration, because clients wait for its end: on a
busy disk a single one takes a millisecond."""

REST_S = 0.001
MAX_RESTS = 50
"""Consecutive iterations left to the quorum at most: an election uses the disk and the network
several times, and would wait for an iteration of ours each time."""

FETCHER_REFRESH_EVERY = 500
"""Refreshing a fetcher aborts its long poll; refresh every 500 creations. Every fifty would cost
more than creating them."""


class ReplicaCreationQueue:
    """The queue. Invariant: it holds no partition that exists; while `is_spread` is not set, no
    partition at all. `is_draining`: the queue creates replicas by itself, not for a request.
    """

    def __init__(self, clock: Clock, on_created: Callable[[], None]) -> None:
        """`on_created`: called when the queue is empty, and every FETCHER_REFRESH_EVERY before."""
        self.is_spread = False
        self.is_quorum_storing: Callable[[], bool] = lambda: False
        self.is_draining = False
        self._clock = clock
        self._on_created = on_created
        self._waiting: dict[TopicPartition, Callable[[], None]] = {}
        self._left = PER_ITERATION
        self._unannounced = 0
        self._rests = 0
        self._next: TimerHandle | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._waiting

    def put(self, key: TopicPartition, make: Callable[[], None]) -> None:
        """Queue one. A newer function for a partition that waits already replaces the older one."""
        if not self._is_stopped:
            self._waiting[key] = make

    def drop(self, key: TopicPartition) -> None:
        """Remove it from the queue."""
        self._waiting.pop(key, None)

    def create_now(self, key: TopicPartition) -> bool:
        """Create one now, for a request; false if it was not waiting."""
        make = self._waiting.pop(key, None)
        if make is None:
            return False
        was_draining, self.is_draining = self.is_draining, False
        try:
            make()
        finally:
            self.is_draining = was_draining
        return True

    def drain(self) -> None:
        """Create what this iteration still allows."""
        if not self._waiting and not self._unannounced:  # requests may have had the last ones made
            return
        self.is_draining = True
        end = self._clock.monotonic() + ITERATION_S
        try:
            while self._waiting and self._left:
                self._left -= 1
                self._unannounced += 1
                self._waiting.pop(next(iter(self._waiting)))()
                if self._clock.monotonic() >= end:
                    self._left = 0
        finally:
            self.is_draining = False
            if self._next is None and not self._is_stopped:
                self._next = self._clock.call_later(0, self._on_iteration)
        if not self._waiting or self._unannounced >= FETCHER_REFRESH_EVERY:
            self._unannounced = 0
            self._on_created()

    def _on_iteration(self) -> None:
        self._next = None
        if self.is_quorum_storing() and self._rests < MAX_RESTS:
            self._rests += 1
            self._next = self._clock.call_later(REST_S, self._on_iteration)
            return
        self._rests = 0
        self._left = PER_ITERATION
        self.drain()

    def stop(self) -> None:
        """Create no further one: the next start creates what the metadata name then."""
        self._is_stopped = True
        self._waiting.clear()
        self._unannounced = 0
        if self._next is not None:
            self._next.cancel()
            self._next = None
