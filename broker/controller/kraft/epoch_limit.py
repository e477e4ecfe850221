"""Rejects epochs that no quorum can have reached: such a peer is damaged or hostile.

Epochs are 32-bit numbers that only increase: a quorum that follows a peer to the last of them can
hold no election any more, and the number is on every voter's disk. Apache Kafka follows such a
peer, and its next election overflows.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock
from broker.peer.log_limiter import LogRateLimiter

log = logging.getLogger("broker.controller")

SUSPECT_FROM = 1 << 30
"""One election per second reaches this epoch in 34 years. Below it any jump is believed: a node may
have missed all of the elections."""

MAX_MISSED_ELECTIONS = 1024
"""In the upper half a peer may still be this far ahead, so that a quorum goes on there; a million
such lies would be needed to reach the end."""


def is_implausible(epoch: int, known: int) -> bool:
    """Whether a node that knows the epoch `known` must not believe a peer's epoch."""
    return epoch >= SUSPECT_FROM and epoch - known > MAX_MISSED_ELECTIONS


class EpochLimit:
    """`is_implausible` with a rate-limited log line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silence = LogRateLimiter()

    def rejects(self, peer: str, epoch: int, known: int) -> bool:
        """Whether this epoch of `peer` is rejected."""
        if not is_implausible(epoch, known):
            return False
        if self._silence.should_log(self._clock.monotonic()):
            log.error(
                "%s says that the quorum is in epoch %d, here it is %d: no quorum comes so far, "
                "it is refused; that node is damaged, or no node of this cluster", peer, epoch,
                known,
            )  # fmt: skip
        return True
