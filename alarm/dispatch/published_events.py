"""What a recorder publishes of what it knows: who was notified, who has acknowledged, what ended.

In: structs with their keys. Out: those that the brokers have acknowledged, when they have. Never: a
wait for brokers that are away, for alarms are recorded by the same thread; what is not acknowledged
within `DELIVERY_TIMEOUT_S` is to be sent again, and readers take it once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer, RecordHeaders
from bus.contracts.alarm_states import AlarmRequest, AlarmState
from bus.contracts.alarms import Acknowledged, Incident, Notified
from bus.contracts.headers import SCHEMA
from bus.contracts.topics import (
    CONTROL_ALARM,
    EVENT_ACKNOWLEDGED,
    EVENT_INCIDENT,
    EVENT_NOTIFIED,
    STATE_ALARM,
    TOPICS,
)
from bus.settings import BusSettings

DELIVERY_TIMEOUT_S = 3.0

Event = TypeVar("Event", bound=msgspec.Struct)


class StateTombstone(msgspec.Struct, frozen=True):
    """Of an alarm whose state `state.alarm` is to forget."""

    alarm_id: str


class EventSender(Generic[Event]):
    """Events of one kind. `send` and `take_acknowledged` are of one thread.

    Invariant: a key is in `_in_flight` from `send` until its delivery has failed or is taken.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        encode: Callable[[Event], bytes | None] = msgspec.json.encode,
    ) -> None:
        """`encode`: None makes a tombstone."""
        self._encode = encode
        self._producer = producer
        self._topic = topic
        self._schema = TOPICS[topic].schema.encode()
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()
        self._acknowledged: dict[str, Event] = {}

    def send(
        self,
        events: Iterable[tuple[str, Event]],
        headers: Mapping[str, RecordHeaders] = MappingProxyType({}),
    ) -> int:
        """How many are on their way from now on: all but those whose key still is, and what finds
        no room. `headers`: more of them, by the event's key."""
        count = 0
        for key, event in events:
            with self._lock:
                if key in self._in_flight:
                    continue
                self._in_flight.add(key)
            is_queued = self._producer.try_send(
                self._topic, self._encode(event), key=key,
                headers=[(SCHEMA, self._schema), *headers.get(key, ())],
                on_delivery=self._on_delivery(key, event),
            )  # fmt: skip
            if not is_queued:
                with self._lock:
                    self._in_flight.discard(key)
                break
            count += 1
        return count

    @property
    def in_flight(self) -> frozenset[str]:
        """Keys of those that are on their way, or acknowledged and not taken."""
        with self._lock:
            return frozenset(self._in_flight)

    def take_acknowledged(self) -> list[Event]:
        """Those that are on the topic now and have not been taken here."""
        with self._lock:
            taken, self._acknowledged = self._acknowledged, {}
            self._in_flight -= taken.keys()
        return list(taken.values())

    def _on_delivery(self, key: str, event: Event) -> Callable[[DeliveryReport], None]:
        def report(outcome: DeliveryReport) -> None:
            with self._lock:
                if isinstance(outcome, DeliveryError):
                    self._in_flight.discard(key)
                else:
                    self._acknowledged[key] = event

        return report


class PublishedEvents:
    """`close` it. `ends` are of incidents that the other site has raised."""

    def __init__(self, bus: BusSettings, client_id: str) -> None:
        limit_ms = int(DELIVERY_TIMEOUT_S * 1000)
        overrides = {"linger.ms": 0, "message.timeout.ms": limit_ms}
        self._producer = Producer(bus, client_id=client_id, overrides=overrides)
        self.notified = EventSender[Notified](self._producer, EVENT_NOTIFIED)
        self.acknowledged = EventSender[Acknowledged](self._producer, EVENT_ACKNOWLEDGED)
        self.incidents = EventSender[Incident](self._producer, EVENT_INCIDENT)
        self.ends = EventSender[Incident](self._producer, EVENT_INCIDENT)
        self.alarm_requests = EventSender[AlarmRequest](self._producer, CONTROL_ALARM)
        self.alarm_states = EventSender[AlarmState](self._producer, STATE_ALARM)
        self.alarm_tombstones = EventSender[StateTombstone](
            self._producer, STATE_ALARM, encode=lambda _: None
        )

    def close(self) -> None:
        """Nothing is waited for."""
        self._producer.close(0)
