"""Refuses an epoch that no quorum can have come to: a peer that is damaged, or hostile, says it.

In: the epoch in a request or an answer, and ours. Out: whether it is refused, and a log line.
Never: a change of the epoch. Epochs are 32-bit numbers that only rise: a quorum that follows a peer
to the last of them can hold no election any more, and the number is on every voter's disk.

Apache Kafka follows such a peer, and its next election overflows.
"""

from __future__ import annotations

import logging

from broker.clock.port import Clock
from broker.peer.silence import Silence

log = logging.getLogger("broker.controller")

SUSPECT_FROM = 1 << 30
"""An election a second comes to this epoch in 34 years. Below it any jump is believed: a node may
have been away for all the elections there were."""

MOST_ELECTIONS_MISSED = 1024
"""In the suspect half a peer may still be this far ahead, so that the others' quorum goes on there;
a million such lies would be needed to come to the end."""


def is_out_of_reach(epoch: int, known: int) -> bool:
    """Whether a peer's epoch cannot be believed by a node that knows the epoch `known`."""
    return epoch >= SUSPECT_FROM and epoch - known > MOST_ELECTIONS_MISSED


class EpochLimit:
    """`is_out_of_reach` with a log line, at growing distances if it goes on."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._silence = Silence()

    def refuses(self, peer: str, epoch: int, known: int) -> bool:
        """Whether this epoch of `peer` is refused."""
        if not is_out_of_reach(epoch, known):
            return False
        if self._silence.worth_saying(self._clock.monotonic()):
            log.error(
                "%s says that the quorum is in epoch %d, here it is %d: no quorum comes so far, "
                "it is refused; that node is damaged, or no node of this cluster", peer, epoch,
                known,
            )  # fmt: skip
        return True
