"""Tracks each broker's last heartbeat and how much of the metadata it has read.

Pure. In: heartbeats with their time. Out: whose session has expired, who has read what. Kept by the
active controller only; a new one gives every broker a fresh session. Kafka: BrokerHeartbeatManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.metadata.image import MetadataImage

UNREAD = -1
"""The metadata offset of a broker that has not reported one."""


@dataclass(slots=True)
class BrokerHeartbeatState:
    """One broker under one broker epoch."""

    epoch: int
    seen_s: float
    metadata_offset: int = UNREAD
    shutdown_offset: int | None = None


class BrokerHeartbeatManager:
    """The brokers of the cluster.

    Invariant: a state belongs to the newest epoch of its broker that has sent a heartbeat.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._states: dict[int, BrokerHeartbeatState] = {}

    def begin(self, image: MetadataImage, now_s: float) -> None:
        """A new controller: every registered broker that is not fenced has a full session from
        now."""
        self._states = {
            broker.broker_id: BrokerHeartbeatState(
                broker.epoch,
                now_s,
                shutdown_offset=image.offset if broker.in_controlled_shutdown else None,
            )
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def touch(self, broker_id: int, epoch: int, now_s: float, offset: int = UNREAD) -> None:
        """A broker sent a heartbeat."""
        state = self._states.get(broker_id)
        if state is None or state.epoch != epoch:
            self._states[broker_id] = BrokerHeartbeatState(epoch, now_s, offset)
            return
        state.seen_s = max(state.seen_s, now_s)
        state.metadata_offset = max(state.metadata_offset, offset)

    def note_offset(self, broker_id: int, offset: int) -> None:
        """How far a broker has read, from another source than its heartbeat."""
        state = self._states.get(broker_id)
        if state is not None:
            state.metadata_offset = max(state.metadata_offset, offset)

    def drop(self, broker_id: int, epoch: int) -> None:
        """This broker epoch has ended."""
        state = self._states.get(broker_id)
        if state is not None and state.epoch == epoch:
            del self._states[broker_id]

    def is_valid(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Whether this broker epoch sent a heartbeat within the session timeout."""
        state = self._states.get(broker_id)
        return (
            state is not None
            and state.epoch == epoch
            and now_s - state.seen_s < self.timeout_s
        )

    def contact_since(self, broker_id: int, since_s: float) -> bool:
        """Whether a broker sent a heartbeat after a given time."""
        state = self._states.get(broker_id)
        return state is not None and state.seen_s > since_s

    def expired(self, now_s: float) -> list[tuple[int, int]]:
        """Id and epoch of every broker whose session has expired."""
        return [
            (broker_id, state.epoch)
            for broker_id, state in sorted(self._states.items())
            if now_s - state.seen_s >= self.timeout_s
        ]

    def extend(self, by_s: float) -> None:
        """This process itself stalled: the silence was its own."""
        for state in self._states.values():
            state.seen_s += by_s

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """The records up to `offset` move this broker's leaderships away."""
        state = self._states.get(broker_id)
        if state is not None:
            state.shutdown_offset = offset

    def others_caught_up(self, broker_id: int, unfenced: Iterable[int]) -> bool:
        """Whether all other brokers in service have read that this one leads nothing."""
        state = self._states.get(broker_id)
        if state is None or state.shutdown_offset is None:
            return False
        for other in unfenced:
            if other == broker_id:
                continue
            known = self._states.get(other)
            if known is not None and known.metadata_offset < state.shutdown_offset:
                return False
        return True
