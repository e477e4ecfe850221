"""Whose turn it is: nobody works for long while others wait, and brokers wait for no client.

In: connections that have whole requests, and when. Out: whether one may work at once, else its turn
later. Never: sockets, or what a request means.

Two classes, brokers and clients, with the same share each, because on a shared listener anybody can
say that he is a broker. What arrives is served at once, up to ROUND_S in one round of the event
loop; what has to wait stands in one of two lines: `fresh` was not served yet, `busy` has used its
TURN_S and has more. In a round fresh ones go first, then one busy one gets a turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.network.limits import ROUND_S


class TurnTaker(Protocol):
    """A connection in a line."""

    def take_turn(self, now: float) -> None:
        """Work for at most TURN_S from `now`, on at least one request."""


class ServiceClass:
    """The lines of one class, and how long it has worked in this round.

    Invariant: after `round_ends`, `is_measured` says that the loop has not come round since.
    """

    __slots__ = ("busy", "fresh", "is_measured", "round_ends")

    def __init__(self) -> None:
        self.fresh: deque[TurnTaker] = deque()
        self.busy: deque[TurnTaker] = deque()
        self.round_ends = 0.0
        self.is_measured = False


class Turns:
    """All connections of one process, because one loop serves them."""

    def __init__(
        self, monotonic: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.clients = ServiceClass()
        self.brokers = ServiceClass()
        self._monotonic = monotonic
        self._soon = soon
        self._is_called = False

    def may_work(self, of: ServiceClass, now: float) -> bool:
        """Whether a connection that has just received something may work on it at once.

        Only every ROUND_S the loop is asked to tell that it has come round: most requests pay for
        one comparison.
        """
        if of.fresh:
            return False
        if now < of.round_ends:
            return True
        if of.is_measured:
            return False
        of.round_ends = now + ROUND_S
        of.is_measured = True
        self._call()
        return True

    def wait_fresh(self, of: ServiceClass, connection: TurnTaker) -> None:
        """Behind those that were not served yet either."""
        of.fresh.append(connection)
        self._call()

    def wait_busy(self, of: ServiceClass, connection: TurnTaker) -> None:
        """To the end of the line of those that have more to do."""
        of.busy.append(connection)
        self._call()

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._soon(self._next_round)

    def _next_round(self) -> None:
        self._is_called = False
        for of in (self.brokers, self.clients):
            of.is_measured = False
            if of.fresh or of.busy:
                self._serve(of)

    def _serve(self, of: ServiceClass) -> None:
        """Call for the next round first: what a connection raises must not end all others."""
        self._call()
        now = self._monotonic()
        ends = now + ROUND_S
        while of.fresh and now < ends:
            of.fresh.popleft().take_turn(now)
            now = self._monotonic()
        if of.busy:
            of.busy.popleft().take_turn(now)
