"""What a recorder says on the bus of what it knows: who was notified, who has taken what in hand.

In: structs with their keys. Out: those that the brokers have acknowledged. Never: a wait beyond
`DELIVERY_TIMEOUT_S`; what is not acknowledged is to be said again, and readers take it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer, RecordHeaders
from bus.contracts.headers import SCHEMA
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings

DELIVERY_TIMEOUT_S = 3.0
_OVERRIDES = {"linger.ms": 0, "message.timeout.ms": int(DELIVERY_TIMEOUT_S * 1000)}

Event = TypeVar("Event", bound=msgspec.Struct)


class PublishedEvents:
    """One thread. `close` it."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        self._producer = Producer(bus, client_id=client_id, overrides=_OVERRIDES)

    def publish(
        self,
        topic: str,
        events: Iterable[tuple[str, Event]],
        headers: Mapping[str, RecordHeaders] = MappingProxyType({}),
    ) -> list[Event]:
        """Those that are on the topic now. `headers`: more of them, by the event's key."""
        there: list[Event] = []
        for key, event in events:
            self._producer.send(
                topic, msgspec.json.encode(event), key=key,
                headers=[(SCHEMA, TOPICS[topic].schema.encode()), *headers.get(key, ())],
                on_delivery=_adding(event, there),
            )  # fmt: skip
        self._producer.flush(DELIVERY_TIMEOUT_S)
        return list(there)

    def close(self) -> None:
        """Nothing is waited for."""
        self._producer.close(0)


def _adding(event: Event, there: list[Event]) -> Callable[[DeliveryReport], None]:
    def on_delivery(outcome: DeliveryReport) -> None:
        if not isinstance(outcome, DeliveryError):
            there.append(event)

    return on_delivery
