"""Waking the fetches of sessions: once per turn of the loop, whatever came in it.

In: partitions that moved. Out: the sessions' waiting fetches tried again. Never: at once; the
requests of a producer that come in one piece are then answered to each follower in one piece too.
"""

from __future__ import annotations

from broker.clock.port import Clock
from broker.purgatory.purgatory import Purgatory
from broker.replica.fetch_sessions import Entry, FetchSession
from broker.replica.partition import Partition
from broker.replica.throttles import Throttles


class Waking:
    """Invariant: while ``_woken`` holds anything a call is scheduled."""

    def __init__(self, fetch_purgatory: Purgatory, throttles: Throttles, clock: Clock) -> None:
        self._fetch_purgatory = fetch_purgatory
        self._throttles = throttles
        self._clock = clock
        self._woken: dict[tuple[str, int], None] = {}

    def touch(self, partition: Partition) -> None:
        """Note for every session that the partition has something for it, perhaps."""
        waiting = self._fetch_purgatory
        for entry in partition.watchers:
            session: FetchSession | None = entry.session  # type: ignore[attr-defined]
            if session is None:
                continue
            session.touched[entry] = None  # type: ignore[index]
            if waiting.has(session.key) and self._is_worth_it(entry, session):  # type: ignore[arg-type]
                if not self._woken:
                    self._clock.call_later(0, self._wake)
                self._woken[session.key] = None

    def _is_worth_it(self, entry: Entry, session: FetchSession) -> bool:
        """A follower learns a new watermark with its next data; that alone does not wake it,
        unless consumers may read from followers (KAFKA-9731)."""
        partition = entry.partition
        if partition is None or not session.is_follower or not partition.is_leader:
            return True
        if self._throttles.serves_from_followers:
            return True
        return (
            entry.fetch_offset != partition.log.end_offset
            or entry.current_leader_epoch != partition.leader_epoch
            or entry.sent_log_start != partition.log.log_start_offset
        )

    def _wake(self) -> None:
        woken, self._woken = self._woken, {}
        for key in woken:
            self._fetch_purgatory.wake(key)
