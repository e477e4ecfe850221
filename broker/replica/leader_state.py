"""The state of one partition's leader: followers, in-sync set, pending proposal. Pure.

In: fetches of followers, the controller's in-sync sets, the time as a value (monotonic
milliseconds). Out: the high watermark, proposals for another in-sync set, whether a follower is
caught up. Never: I/O; never a change of the in-sync set itself, which only the controller makes
(AlterPartition, KIP-497).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

UNKNOWN_OFFSET = -1
UNKNOWN_EPOCH = -1
NOT_CLAIMED = -1


class ReplicaState:
    """One follower of one partition, as of its last fetch.

    Invariant: ``caught_up_ms`` is the newest moment known at which it had all the leader had.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_at_fetch",
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
        self._leader_end_at_fetch = 0

    def on_fetch(
        self,
        offset: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
        broker_epoch: int,
    ) -> None:
        """It fetches from ``offset``, so it has everything below.

        A follower under a steady stream is never at the leader's end; it keeps up if it has what
        the leader had at its previous fetch (as Kafka's Replica.updateFetchStateOrThrow).
        """
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif offset >= self._leader_end_at_fetch and self._fetched_ms > self.caught_up_ms:
            self.caught_up_ms = self._fetched_ms
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._leader_end_at_fetch = leader_end

    def on_leader_append(self, end_before: int, now_ms: int) -> None:
        """The leader's log grows: a follower that had all of it was caught up until now.

        Sessions do not repeat the offset of an idle partition, so its last fetch may be old.
        """
        if self.end_offset >= end_before:
            self.caught_up_ms = now_ms

    def is_caught_up(self, leader_end: int, now_ms: int, lag_time_ms: int) -> bool:
        """Whether it has everything, or had it within ``replica.lag.time.max.ms``."""
        return self.end_offset == leader_end or now_ms - self.caught_up_ms <= lag_time_ms


NEVER_CAUGHT_UP_MS = -(1 << 40)
"""Never caught up: before any moment of a clock that may begin at zero."""

Eligible = Callable[[int, int], bool]
"""``(broker id, broker epoch of its fetch)``: whether it may be in an in-sync set (KIP-841)."""


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """A proposed in-sync set; in force once the controller confirms it."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    expands: bool


class PartitionLeader:
    """The leader's view of its followers.

    Invariant: ``maximal_isr`` is ``isr`` plus the follower a pending proposal would add (KIP-497):
    while one is pending the watermark must hold under both outcomes. Invariant:
    ``mirror_generation`` is the newest generation of a mirror that has claimed the partition in
    this epoch, and only rises. ``truncating``: the followers when a mirror cut the log, until it
    has claimed the partition again.
    """

    __slots__ = (
        "_broker_id",
        "epoch",
        "epoch_start_offset",
        "followers",
        "isr",
        "maximal_isr",
        "mirror_generation",
        "pending",
        "truncating",
    )

    def __init__(self, broker_id: int, epoch: int, epoch_start_offset: int) -> None:
        self._broker_id = broker_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.followers: dict[int, ReplicaState] = {}
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.pending: IsrProposal | None = None
        self.mirror_generation = NOT_CLAIMED
        self.truncating: tuple[int, ...] | None = None

    def assign(self, replicas: Sequence[int], isr: Sequence[int], now_ms: int) -> None:
        """Apply the controller's replicas and in-sync set; a pending proposal is void."""
        self.isr = self.maximal_isr = tuple(isr)
        self.pending = None
        known = self.followers
        # A follower the controller counts as in sync gets the full lag time from now.
        self.followers = {
            replica: known.get(replica)
            or ReplicaState(now_ms if replica in isr else NEVER_CAUGHT_UP_MS)
            for replica in replicas
            if replica != self._broker_id
        }

    # --- the high watermark ----------------------------------------------------------------------

    def high_watermark(self, end: int, now_ms: int, lag_time_ms: int, eligible: Eligible) -> int:
        """The smallest end over the maximal in-sync set, ``end`` being the leader's own.

        A follower outside the set that is about to join holds the watermark back too; otherwise it
        would chase a rising watermark and never join.
        """
        followers, maximal = self.followers, self.maximal_isr
        for replica in maximal:
            if replica != self._broker_id:
                follower = followers.get(replica)
                theirs = -1 if follower is None else follower.end_offset
                if theirs < end:
                    end = theirs
        if len(followers) >= len(maximal):
            for replica, follower in followers.items():
                if (
                    follower.end_offset < end
                    and replica not in maximal
                    and now_ms - follower.caught_up_ms <= lag_time_ms
                    and eligible(replica, follower.broker_epoch)
                ):
                    end = follower.end_offset
        return end

    def on_append(self, end_before: int, now_ms: int) -> None:
        """The log grew beyond ``end_before``."""
        for follower in self.followers.values():
            follower.on_leader_append(end_before, now_ms)

    def begin_truncation(self) -> None:
        """The log is cut in the midst of this epoch: what followers have is unknown until they
        fetch again."""
        self.truncating = tuple(self.followers)
        for follower in self.followers.values():
            follower.end_offset = UNKNOWN_OFFSET

    def untruncated_followers(self) -> list[int]:
        """The followers that may have what was cut off: they have not fetched since."""
        return [
            replica
            for replica in self.truncating or ()
            if replica in self.followers and self.followers[replica].end_offset == UNKNOWN_OFFSET
        ]

    def low_watermark(self, own_start: int, alive: Callable[[int], bool]) -> int:
        """The smallest log start over the replicas that are alive; what DeleteRecords waits for."""
        starts = [f.log_start_offset for r, f in self.followers.items() if alive(r)]
        return min([own_start, *starts])

    # --- the in-sync set -------------------------------------------------------------------------

    def propose_expand(
        self, replica: int, high_watermark: int, partition_epoch: int, eligible: Eligible
    ) -> IsrProposal | None:
        """The set with ``replica`` added, if it caught up and no other proposal is pending.

        It must have reached the watermark *and* the offset at which this leader began: below that
        its log may still differ (KAFKA-7128).
        """
        follower = self.followers.get(replica)
        if self.pending is not None or follower is None or replica in self.isr:
            return None
        if follower.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not eligible(replica, follower.broker_epoch):
            return None
        return self._propose((*self.isr, replica), partition_epoch, expands=True)

    def propose_shrink(
        self, leader_end: int, now_ms: int, lag_time_ms: int, partition_epoch: int
    ) -> IsrProposal | None:
        """The set without followers that have not kept up, if there are any; never without us."""
        if self.pending is not None:
            return None
        remaining = tuple(
            replica
            for replica in self.isr
            if replica == self._broker_id
            or (
                replica in self.followers
                and self.followers[replica].is_caught_up(leader_end, now_ms, lag_time_ms)
            )
        )
        if len(remaining) == len(self.isr):
            return None
        return self._propose(remaining, partition_epoch, expands=False)

    def _propose(self, isr: tuple[int, ...], partition_epoch: int, *, expands: bool) -> IsrProposal:
        proposal = IsrProposal(
            isr=isr,
            broker_epochs=tuple(
                -1 if replica == self._broker_id else self.followers[replica].broker_epoch
                for replica in isr
            ),
            leader_epoch=self.epoch,
            partition_epoch=partition_epoch,
            expands=expands,
        )
        self.pending = proposal
        if expands:
            self.maximal_isr = isr
        return proposal

    def clear_pending(self) -> None:
        """The controller refused; the set in force is unchanged."""
        self.pending = None
        self.maximal_isr = self.isr
