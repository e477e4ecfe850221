"""Fair scheduling: no connection works for long while others wait, and brokers wait for no client.

In: connections that have whole requests, and the time. Out: whether one may work at once, else a
turn later. Never: sockets, or what a request means.

Two classes, brokers and clients, with the same share each, because on a shared listener any client
can claim to be a broker. Arriving requests are served at once, up to ROUND_S in one round of the
event loop; connections that must wait are in one of two queues: `fresh` were not served yet, `busy`
have used their TURN_S and have more. In a round fresh ones go first, then one busy one gets a turn.
Beside each class are unknown ones, whose clients have not finished their handshake of TLS or not
logged in: whatever arrives of them waits for the end of the round, in which one is served at least,
and others while they have taken less than UNKNOWN_ROUND_S.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Protocol

from broker.network.limits import ROUND_S, UNKNOWN_ROUND_S


class TurnTaker(Protocol):
    """A connection in a queue."""

    def run_turn(self, now: float) -> None:
        """Work for at most TURN_S from `now`, on at least one request."""


class ServiceClass:
    """The queues of one class, and how long it has worked in this round.

    Invariant: after `round_ends`, `is_measured` says that the loop has not started a new round.
    """

    __slots__ = ("busy", "fresh", "is_measured", "round_ends")

    busy: deque[TurnTaker]
    fresh: deque[TurnTaker]

    def __init__(self) -> None:
        self.fresh, self.busy = deque(), deque()
        self.round_ends = 0.0
        self.is_measured = False


class UnknownClients(ServiceClass):
    """Those who are not known yet: one queue, since all that is done for them is short.

    Invariant: `round_ends` is past and `is_measured` set, so that nothing is served as it arrives.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.busy = self.fresh
        self.round_ends, self.is_measured = -math.inf, True


class Turns:
    """Schedules all connections of one process, which one loop serves."""

    def __init__(
        self, monotonic: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.clients, self.brokers = ServiceClass(), ServiceClass()
        self.unknown_clients, self.unknown_brokers = UnknownClients(), UnknownClients()
        self._monotonic = monotonic
        self._call_soon = soon
        self._is_called = False

    def may_work(self, of: ServiceClass, now: float) -> bool:
        """Whether a connection that has just received bytes may process them at once.

        The loop reports a new round only every ROUND_S: most requests pay for one comparison.
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
        """Queue after those that were not served yet either."""
        of.fresh.append(connection)
        self._call()

    def wait_busy(self, of: ServiceClass, connection: TurnTaker) -> None:
        """Queue after those that have more to do."""
        of.busy.append(connection)
        self._call()

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            self._call_soon(self._next_round)

    def _next_round(self) -> None:
        self._is_called = False
        for of in (self.brokers, self.clients):
            of.is_measured = False
            if of.fresh or of.busy:
                self._serve(of)
        if self.unknown_brokers.fresh or self.unknown_clients.fresh:
            self._serve_unknown()

    def _serve(self, of: ServiceClass) -> None:
        """Schedule the next round first: an exception of one connection must not stop all
        others."""
        self._call()
        now = self._monotonic()
        ends = now + ROUND_S
        while of.fresh and now < ends:
            of.fresh.popleft().run_turn(now)
            now = self._monotonic()
        if of.busy:
            of.busy.popleft().run_turn(now)

    def _serve_unknown(self) -> None:
        """Whatever happens to one of them, the others go on in the next round."""
        try:
            for of in (self.unknown_brokers, self.unknown_clients):
                now = self._monotonic()
                ends = now + UNKNOWN_ROUND_S
                while of.fresh and now < ends:
                    of.fresh.popleft().run_turn(now)
                    now = self._monotonic()
        finally:
            if self.unknown_brokers.fresh or self.unknown_clients.fresh:
                self._call()
