"""New replicas that wait for their turn: a topic of thousands is made a few per turn of the loop.

In: how each is made, in the order in which the metadata names them. Out: calls. Never: two that
wait for one partition; nor a replica that was asked for and is not made at once.

To make a log is work of the file system. A thousand of them in one turn would keep whoever asks
this broker, and the quorum it may be a voter of, waiting for a good part of a second.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from broker.log.checkpoint import TopicPartition

PER_TURN = 50
"""Replicas made in one turn at most. All of `__consumer_offsets` are one turn's."""

TURN_S = 0.002
"""No more are begun in a turn after it, as whoever asks this broker waits for the turn's end: where
the disk is busy a single one takes a millisecond."""

REST_S = 0.001
MAX_RESTS = 50
"""Turns in a row that are left to the quorum: an election uses the disk and the network several
times, and would wait for a turn of ours each time. A quorum keeps replicas waiting no longer."""

PER_GREETING = 500
"""Replicas made before their leaders are asked for them. A leader that is asked while it keeps a
request waiting must be asked all anew, which for every fifty would cost more than to make them."""


class NewReplicas:
    """The queue. Invariant: it holds no partition that is made; while `is_spread` is not set, no
    partition at all. While `is_in_turn` is set, replicas are made that nobody has asked for.
    """

    def __init__(self, clock: Clock, on_made: Callable[[], None]) -> None:
        """`on_made` hears when none is left, and now and then before."""
        self.is_spread = False
        self.is_quorum_storing: Callable[[], bool] = lambda: False
        self.is_in_turn = False
        self._clock = clock
        self._on_made = on_made
        self._waiting: dict[TopicPartition, Callable[[], None]] = {}
        self._left = PER_TURN
        self._untold = 0
        self._rests = 0
        self._next: TimerHandle | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._waiting

    def put(self, key: TopicPartition, make: Callable[[], None]) -> None:
        """Have one made in its turn. News of one that waits already takes its place."""
        if not self._is_stopped:
            self._waiting[key] = make

    def drop(self, key: TopicPartition) -> None:
        """It is wanted no more."""
        self._waiting.pop(key, None)

    def make(self, key: TopicPartition) -> bool:
        """Make one now, for somebody asks for it; whether it was waiting."""
        make = self._waiting.pop(key, None)
        if make is None:
            return False
        was_in_turn, self.is_in_turn = self.is_in_turn, False
        try:
            make()
        finally:
            self.is_in_turn = was_in_turn
        return True

    def go_on(self) -> None:
        """Make what this turn has left to make."""
        if not self._waiting:
            return
        self.is_in_turn = True
        end = self._clock.monotonic() + TURN_S
        try:
            while self._waiting and self._left:
                self._left -= 1
                self._untold += 1
                self._waiting.pop(next(iter(self._waiting)))()
                if self._clock.monotonic() >= end:
                    self._left = 0
        finally:
            self.is_in_turn = False
            if self._next is None and not self._is_stopped:
                self._next = self._clock.call_later(0, self._on_turn)
        if not self._waiting or self._untold >= PER_GREETING:
            self._untold = 0
            self._on_made()

    def _on_turn(self) -> None:
        self._next = None
        if self.is_quorum_storing() and self._rests < MAX_RESTS:
            self._rests += 1
            self._next = self._clock.call_later(REST_S, self._on_turn)
            return
        self._rests = 0
        self._left = PER_TURN
        self.go_on()

    def stop(self) -> None:
        """Make none any more: the next start makes what the metadata names then."""
        self._is_stopped = True
        self._waiting.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None
