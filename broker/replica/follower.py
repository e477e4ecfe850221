"""What a leader knows of one follower: how far it has come, and since when it has not kept up.

In: the follower's fetches, the leader's appends, the time as a value (monotonic milliseconds).
Out: whether it counts as caught up. Never: whether it is in sync; that is the controller's word.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1


class Follower:
    """One follower of one partition, as of its last fetch.

    Invariant: ``caught_up_ms`` is the newest moment known at which it had all the leader had.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_then",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch = UNKNOWN_EPOCH
        self.caught_up_ms = caught_up_ms
        self._fetched_ms = -1
        self._leader_end_then = 0

    def on_fetch(
        self,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
        broker_epoch: int,
    ) -> None:
        """It asks for ``offset``, so it has everything below.

        A follower under a steady stream is never at the leader's end; it keeps up if it has what
        the leader had when it asked the last time (as Kafka's Replica.updateFetchStateOrThrow).
        """
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end_then and self._fetched_ms > self.caught_up_ms:
            self.caught_up_ms = self._fetched_ms
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._leader_end_then = leader_end

    def on_leader_append(self, end_before: int, now_ms: int) -> None:
        """The leader's log grows: whoever had all of it was caught up until now.

        Sessions do not repeat the offset of an idle partition, so its last fetch may be old.
        """
        if self.end_offset >= end_before:
            self.caught_up_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_ms: int) -> bool:
        """Whether it has everything, or had it within ``replica.lag.time.max.ms``."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_time_ms
