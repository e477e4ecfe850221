"""Proof that this broker still leads a partition: its in-sync followers fetch from it.

In: partitions in doubt, requests of followers. Out: whether every in-sync follower has asked us
again since. Never: a clock; requests are counted, because milliseconds do not tell them apart.

A new leader would be one of those followers, and a leader does not fetch. So what we knew when the
doubt arose was all there was.
"""

from __future__ import annotations

from broker.log.checkpoint import TopicPartition
from broker.purgatory.purgatory import Purgatory
from broker.replica.fetch_sessions import Entry, FetchSession
from broker.replica.partition import Partition


class Proofs:
    """Invariant: a session's ``round`` is that of its follower's last request."""

    def __init__(self, produces: Purgatory, fetches: Purgatory) -> None:
        self.round = 0
        self._produces = produces
        self._fetches = fetches
        self._wanted: dict[TopicPartition, None] = {}

    def want(self, partition: Partition) -> int:
        """Have the followers ask again at once; the round after which that proves something."""
        self._wanted[partition.key] = None
        for session in _sessions(partition):
            session.poked = True
            self._fetches.wake(session.key)
        return self.round

    def on_request(self, session: FetchSession) -> None:
        """A follower asks in its session."""
        self.round += 1
        session.round = self.round
        for key in list(self._wanted):
            self._produces.wake(key)
            if not self._produces.has(key):
                del self._wanted[key]

    @staticmethod
    def is_proved(partition: Partition, since: int) -> bool:
        """Whether every in-sync follower has asked since, in the present epoch."""
        leadership = partition.leadership
        if leadership is None:
            return False
        asked = {
            entry.session.reader[0]
            for entry in partition.watchers
            if isinstance(entry, Entry)
            and entry.session is not None
            and entry.session.round > since
            and entry.current_leader_epoch == partition.leader_epoch
        }
        followers = set(leadership.maximal_isr) & set(leadership.followers)
        return followers <= asked


def _sessions(partition: Partition) -> list[FetchSession]:
    return [
        entry.session
        for entry in partition.watchers
        if isinstance(entry, Entry) and entry.session is not None and entry.session.is_follower
    ]
