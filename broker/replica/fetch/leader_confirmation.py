"""Confirms that this broker still leads a partition: its in-sync followers fetch from it. Pure.

In: partitions to confirm, requests of followers. Out: whether every in-sync follower has fetched
again since. Never: a clock; requests are counted, because two may fall into one millisecond.

A new leader would be one of those followers, and a leader does not fetch. So if all have fetched,
what we knew at the time of the request was complete.
"""

from __future__ import annotations

from broker.log.checkpoint import TopicPartition
from broker.purgatory.purgatory import Purgatory
from broker.replica.fetch.session_cache import CachedPartition, FetchSession
from broker.replica.partition import Partition


class LeaderConfirmation:
    """Invariant: a session's ``round`` is that of its follower's last request."""

    def __init__(self, produces: Purgatory, fetches: Purgatory) -> None:
        self.round = 0
        self._produces = produces
        self._fetches = fetches
        self._wanted: dict[TopicPartition, None] = {}

    def request(self, partition: Partition) -> int:
        """Make the followers fetch again at once; returns the round that must be exceeded."""
        self._wanted[partition.key] = None
        for session in _sessions(partition):
            session.force_response = True
            self._fetches.wake(session.key)
        return self.round

    def on_request(self, session: FetchSession) -> None:
        """A follower's request arrived in its session."""
        self.round += 1
        session.round = self.round
        for key in list(self._wanted):
            self._produces.wake(key)
            if not self._produces.has(key):
                del self._wanted[key]

    @staticmethod
    def is_confirmed(partition: Partition, since: int) -> bool:
        """Whether every in-sync follower has fetched since, in the present epoch."""
        leader = partition.leader_state
        if leader is None:
            return False
        asked = {
            entry.session.reader[0]
            for entry in partition.watchers
            if isinstance(entry, CachedPartition)
            and entry.session is not None
            and entry.session.round > since
            and entry.current_leader_epoch == partition.leader_epoch
        }
        followers = set(leader.maximal_isr) & set(leader.followers)
        return followers <= asked


def _sessions(partition: Partition) -> list[FetchSession]:
    return [
        entry.session
        for entry in partition.watchers
        if isinstance(entry, CachedPartition)
        and entry.session is not None
        and entry.session.is_follower
    ]
