"""Retries each session's waiting fetch at most once per loop iteration, so pipelined produces reach
followers in one response.
"""

from __future__ import annotations

from broker.clock.port import Clock
from broker.purgatory.purgatory import Purgatory
from broker.replica.fetch.session_cache import CachedPartition, FetchSession
from broker.replica.partition import Partition
from broker.replica.quotas import ReplicationQuotas


class FetchWakeups:
    """Invariant: while ``_woken`` holds anything a call is scheduled."""

    def __init__(self, fetch_purgatory: Purgatory, quotas: ReplicationQuotas, clock: Clock) -> None:
        self._fetch_purgatory = fetch_purgatory
        self._quotas = quotas
        self._clock = clock
        self._marked: dict[tuple[str, int], None] = {}

    def mark(self, partition: Partition) -> None:
        """Mark the partition dirty in every session, and schedule a retry of their waiting
        fetches."""
        waiting = self._fetch_purgatory
        for entry in partition.watchers:
            session: FetchSession | None = entry.session  # type: ignore[attr-defined]
            if session is None:
                continue
            session.dirty[entry] = None  # type: ignore[index]
            if waiting.has(session.key) and self._should_wake(entry, session):  # type: ignore[arg-type]
                if not self._marked:
                    self._clock.call_later(0, self._wake_marked)
                self._marked[session.key] = None

    def _should_wake(self, entry: CachedPartition, session: FetchSession) -> bool:
        """A follower learns a new watermark with its next data; that alone does not retry its
        fetch, unless consumers may read from followers (KAFKA-9731)."""
        partition = entry.partition
        if partition is None or not session.is_follower or not partition.is_leader:
            return True
        if self._quotas.serves_from_followers:
            return True
        return (
            entry.fetch_offset != partition.log.end_offset
            or entry.current_leader_epoch != partition.leader_epoch
            or entry.sent_log_start != partition.log.log_start_offset
        )

    def _wake_marked(self) -> None:
        woken, self._marked = self._marked, {}
        for key in woken:
            self._fetch_purgatory.wake(key)
