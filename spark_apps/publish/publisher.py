"""Publishes what a driver itself produces: candidates, incidents, meters."""

from __future__ import annotations

import msgspec

from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings

FLUSH_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 1.0  # what had to arrive was flushed; meters are cumulative


class DeliveryFailed(Exception):
    """Messages could not be delivered; the batch they belong to must be done again."""


class EventPublisher:
    """An idempotent producer of messages of our own making. `flush` is the moment of truth.

    Several queries share it; a failed delivery fails the next flush, whichever query calls it, and
    a failed query ends the driver, so that no error is lost.
    """

    def __init__(self, bus: BusSettings, site: str) -> None:
        timeout_ms = int(FLUSH_TIMEOUT_S * 1000)
        changes = {
            **FOLLOWS_LEADERS, "linger.ms": 0, "message.timeout.ms": timeout_ms, "log_level": 0,
        }  # fmt: skip
        self._producer = Producer(bus, client_id="streams", overrides=changes)
        self._site = site.encode()
        self._encoder = msgspec.json.Encoder()
        self._failed: DeliveryError | None = None

    def send(self, topic: str, key: str, message: msgspec.Struct) -> None:
        """Queue one message. Raises `BusError` when the queue stays full."""
        headers = [(SCHEMA, TOPICS[topic].schema.encode()), (SITE, self._site)]
        value = self._encoder.encode(message)
        self._producer.send(topic, value, key=key, headers=headers, on_delivery=self._on_delivery)

    def flush(self) -> None:
        """Wait until everything queued is acknowledged. Raises `DeliveryFailed`."""
        waiting = self._producer.flush(FLUSH_TIMEOUT_S)
        if waiting or self._failed is not None:
            raise DeliveryFailed(f"{waiting} messages unacknowledged; last error: {self._failed}")

    def close(self) -> None:
        """End its thread and its connections."""
        self._producer.close(CLOSE_TIMEOUT_S)

    def _on_delivery(self, outcome: DeliveryReport) -> None:
        if isinstance(outcome, DeliveryError):
            self._failed = outcome
