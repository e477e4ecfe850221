"""When each broker was last heard of, and how much of the metadata it has read.

In: heartbeats with their time. Out: whose session has expired, who knows what. Never: a clock of
its own, a record. Kept by the active controller only; a new one gives everybody a fresh session.
Kafka: BrokerHeartbeatManager.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.metadata.image import MetadataImage

UNREAD = -1
"""The metadata offset of a broker that has not said how far it has read."""


@dataclass(slots=True)
class Contact:
    """One broker in one of its lives."""

    epoch: int
    seen_s: float
    metadata_offset: int = UNREAD
    shutdown_offset: int | None = None


class Sessions:
    """The brokers of the cluster.

    Invariant: a contact belongs to the newest life of its broker that was heard of.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._contacts: dict[int, Contact] = {}

    def begin(self, image: MetadataImage, now_s: float) -> None:
        """A new controller: whoever is registered and not fenced has a full session from now."""
        self._contacts = {
            broker.broker_id: Contact(
                broker.epoch,
                now_s,
                shutdown_offset=image.offset if broker.in_controlled_shutdown else None,
            )
            for broker in image.brokers.values()
            if not broker.fenced
        }

    def touch(self, broker_id: int, epoch: int, now_s: float, offset: int = UNREAD) -> None:
        """A broker was heard of."""
        contact = self._contacts.get(broker_id)
        if contact is None or contact.epoch != epoch:
            self._contacts[broker_id] = Contact(epoch, now_s, offset)
            return
        contact.seen_s = max(contact.seen_s, now_s)
        contact.metadata_offset = max(contact.metadata_offset, offset)

    def note_offset(self, broker_id: int, offset: int) -> None:
        """How far a broker has read, from another source than its heartbeat."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.metadata_offset = max(contact.metadata_offset, offset)

    def drop(self, broker_id: int, epoch: int) -> None:
        """This life of a broker is over."""
        contact = self._contacts.get(broker_id)
        if contact is not None and contact.epoch == epoch:
            del self._contacts[broker_id]

    def is_valid(self, broker_id: int, epoch: int, now_s: float) -> bool:
        """Whether this life of a broker was heard of within the session's time."""
        contact = self._contacts.get(broker_id)
        return (
            contact is not None
            and contact.epoch == epoch
            and now_s - contact.seen_s < self.timeout_s
        )

    def heard_since(self, broker_id: int, since_s: float) -> bool:
        """Whether a broker was heard of after a moment."""
        contact = self._contacts.get(broker_id)
        return contact is not None and contact.seen_s > since_s

    def expired(self, now_s: float) -> list[tuple[int, int]]:
        """Id and epoch of every broker that was silent for too long."""
        return [
            (broker_id, contact.epoch)
            for broker_id, contact in sorted(self._contacts.items())
            if now_s - contact.seen_s >= self.timeout_s
        ]

    def extend(self, by_s: float) -> None:
        """This process itself stood still: the silence was its own."""
        for contact in self._contacts.values():
            contact.seen_s += by_s

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """The records up to `offset` take this broker's leaderships away."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.shutdown_offset = offset

    def others_know(self, broker_id: int, unfenced: Iterable[int]) -> bool:
        """Whether all other brokers in service have read that this one leads nothing."""
        contact = self._contacts.get(broker_id)
        if contact is None or contact.shutdown_offset is None:
            return False
        for other in unfenced:
            if other == broker_id:
                continue
            known = self._contacts.get(other)
            if known is not None and known.metadata_offset < contact.shutdown_offset:
                return False
        return True
