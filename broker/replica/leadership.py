"""One partition's leader: its followers, the in-sync set, the change of it that is under way.

In: fetches of followers, what the controller says, the time as a value. Out: the high watermark
that may stand, proposals for another in-sync set. Never: I/O; never a change of the in-sync set
itself, which only the controller makes (AlterPartition, KIP-497).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.replica.follower import Follower

LONG_AGO_MS = -(1 << 40)
"""Caught up never; before any moment of a clock that may begin at zero."""

Eligible = Callable[[int, int], bool]
"""``(broker id, broker epoch of its fetch)``: whether it may be in an in-sync set (KIP-841)."""


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """An in-sync set that the controller has been asked for; it is in force when that says so."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    grows: bool


class Leadership:
    """What a leader knows.

    Invariant: ``maximal_isr`` is ``isr`` with whoever a pending proposal would add (KIP-497): while
    one is under way the watermark must hold under both outcomes.
    """

    __slots__ = (
        "_broker_id",
        "epoch",
        "epoch_start_offset",
        "followers",
        "isr",
        "maximal_isr",
        "pending",
    )

    def __init__(self, broker_id: int, epoch: int, epoch_start_offset: int) -> None:
        self._broker_id = broker_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.pending: IsrProposal | None = None

    def assign(self, replicas: Sequence[int], isr: Sequence[int], now_ms: int) -> None:
        """The controller's word on replicas and in-sync set; what was proposed is void."""
        self.isr = self.maximal_isr = tuple(isr)
        self.pending = None
        known = self.followers
        # Whoever is in sync by the controller's word has from now the full time to prove it.
        self.followers = {
            replica: known.get(replica) or Follower(now_ms if replica in isr else LONG_AGO_MS)
            for replica in replicas
            if replica != self._broker_id
        }

    # --- the high watermark ----------------------------------------------------------------------

    def watermark(self, end: int, now_ms: int, lag_time_ms: int, eligible: Eligible) -> int:
        """The smallest end over the maximal in-sync set, ``end`` being the leader's own.

        A follower outside the set that is about to join holds the watermark back too; else it
        would run after a moving mark and never get in.
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

    def low_watermark(self, own_start: int, alive: Callable[[int], bool]) -> int:
        """The smallest log start over the replicas that are alive; what DeleteRecords waits for."""
        starts = [f.log_start_offset for r, f in self.followers.items() if alive(r)]
        return min([own_start, *starts])

    # --- the in-sync set -------------------------------------------------------------------------

    def growth(
        self, replica: int, high_watermark: int, partition_epoch: int, eligible: Eligible
    ) -> IsrProposal | None:
        """The set with ``replica`` in it, if it has earned that and nothing else is under way.

        It must have reached the watermark *and* what this leader began with: below that its log
        may still differ (KAFKA-7128).
        """
        follower = self.followers.get(replica)
        if self.pending is not None or follower is None or replica in self.isr:
            return None
        if follower.end_offset < max(high_watermark, self.epoch_start_offset):
            return None
        if not eligible(replica, follower.broker_epoch):
            return None
        return self._propose((*self.isr, replica), partition_epoch, grows=True)

    def shrinkage(
        self, leader_end: int, now_ms: int, lag_time_ms: int, partition_epoch: int
    ) -> IsrProposal | None:
        """The set without those that have not kept up, if there are any; never without us."""
        if self.pending is not None:
            return None
        kept = tuple(
            replica
            for replica in self.isr
            if replica == self._broker_id
            or (
                replica in self.followers
                and self.followers[replica].is_caught_up(leader_end, now_ms, lag_time_ms)
            )
        )
        if len(kept) == len(self.isr):
            return None
        return self._propose(kept, partition_epoch, grows=False)

    def _propose(self, isr: tuple[int, ...], partition_epoch: int, *, grows: bool) -> IsrProposal:
        proposal = IsrProposal(
            isr=isr,
            broker_epochs=tuple(
                -1 if replica == self._broker_id else self.followers[replica].broker_epoch
                for replica in isr
            ),
            leader_epoch=self.epoch,
            partition_epoch=partition_epoch,
            grows=grows,
        )
        self.pending = proposal
        if grows:
            self.maximal_isr = isr
        return proposal

    def withdraw(self) -> None:
        """The controller refused; the set in force is what it was."""
        self.pending = None
        self.maximal_isr = self.isr
