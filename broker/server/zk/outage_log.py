"""Rate-limited logging of ZooKeeper outages: what an operator can do, and when the outage is over.

The session retries about once a second, for ever; nothing depends on these lines. While a broker
cannot learn that its session has ended, it serves on what it leads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.clock.port import Clock, TimerHandle
from broker.peer.log_limiter import FIRST_PAUSE_S, MAX_PAUSE_S

log = logging.getLogger("broker.server")


class OutageLog:
    """Invariant: a timer runs exactly while the connection is lost."""

    def __init__(self, clock: Clock, address: str, reason: Callable[[], str]) -> None:
        """`reason`: why the last attempt to connect failed; may be empty."""
        self._clock = clock
        self._address = address
        self._reason = reason
        self._since = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._has_logged = False
        self._timer: TimerHandle | None = None

    def begin(self) -> None:
        """The connection is lost. A short outage is not logged."""
        if self._timer is None:
            self._since, self._pause_s, self._has_logged = (
                self._clock.monotonic(),
                FIRST_PAUSE_S,
                False,
            )
            self._timer = self._clock.call_later(FIRST_PAUSE_S, self._log_outage)

    def end(self) -> None:
        """The connection is back, or no longer needed."""
        timer, self._timer = self._timer, None
        if timer is None:
            return
        timer.cancel()
        if self._has_logged:
            log.warning(
                "ZooKeeper at %s answers again after %d s", self._address, self._duration_s()
            )

    def _duration_s(self) -> int:
        return round(self._clock.monotonic() - self._since)

    def _log_outage(self) -> None:
        self._has_logged = True
        reason = self._reason()
        log.error(
            "ZooKeeper at %s has not answered for %d s%s: this broker serves what it leads, but no "
            "topic is made, no leader elected and no in-sync set changed until it is back; start "
            "the ensemble's servers until a majority runs, or repair the network to them; nothing "
            "has to be done here, the broker connects again by itself",
            self._address,
            self._duration_s(),
            f" ({reason})" if reason else "",
        )
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
        self._timer = self._clock.call_later(self._pause_s, self._log_outage)
