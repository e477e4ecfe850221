"""Says that the ensemble cannot be reached, and what to do; seldom, and once more when it is back.

In: that the connection was lost, that it stands. Out: lines in the log. Never: a retry (the
session makes them, about one a second, for ever), nor a consequence: while nobody can tell a broker
that its session has ended, it serves on what it leads.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock, TimerHandle
from broker.peer.silence import FIRST_S, MOST_S

log = logging.getLogger("broker.server")


class Absence:
    """Invariant: a timer runs exactly while the connection is lost."""

    def __init__(self, clock: Clock, address: str) -> None:
        self._clock = clock
        self._address = address
        self._since = 0.0
        self._pause_s = FIRST_S
        self._has_said = False
        self._timer: TimerHandle | None = None

    def begin(self) -> None:
        """The connection is lost. A short one is not worth a word of its own."""
        if self._timer is None:
            self._since, self._pause_s, self._has_said = self._clock.monotonic(), FIRST_S, False
            self._timer = self._clock.call_later(FIRST_S, self._say)

    def end(self) -> None:
        """It stands again, or nobody waits for it any more."""
        timer, self._timer = self._timer, None
        if timer is None:
            return
        timer.cancel()
        if self._has_said:
            log.warning("ZooKeeper at %s answers again after %d s", self._address, self._for_s())

    def _for_s(self) -> int:
        return round(self._clock.monotonic() - self._since)

    def _say(self) -> None:
        self._has_said = True
        log.error(
            "ZooKeeper at %s has not answered for %d s: this broker serves what it leads, but no "
            "topic is made, no leader elected and no in-sync set changed until it is back; start "
            "the ensemble's servers until a majority runs, or mend the network to them; nothing "
            "has to be done here, the broker connects again by itself",
            self._address,
            self._for_s(),
        )
        self._pause_s = min(2 * self._pause_s, MOST_S)
        self._timer = self._clock.call_later(self._pause_s, self._say)
