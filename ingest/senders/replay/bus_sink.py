"""Sends records straight to the bus, as a producer without an edge does.

Drops nothing: the caller waits while the client's queue is full (D-3), and what could not be sent
at all is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.contracts import headers
from bus.contracts.meters import Sent
from bus.contracts.topics import METER_SENT, TOPICS
from bus.settings import BusSettings
from ingest.senders.replay.lines import Recorded
from ingest.senders.replay.routing import RoutedRecord

MESSAGE_TIMEOUT_MS = 300_000  # longer than a broker takes to come back
BATCH_BYTES = 256 * 1024  # a file is in no hurry record by record


class RecordsNotSent(Exception):
    """The brokers did not take some records within their time."""


class BusSink:
    """Invariant: acknowledged + failed + queued = handed over."""

    def __init__(
        self, bus: BusSettings, *, client_id: str, fixed_headers: Mapping[str, str] | None = None
    ) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.last_error = ""
        self._fixed = tuple((fixed_headers or {}).items())
        self._producer = Producer(
            bus,
            client_id=client_id,
            overrides={
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "linger.ms": 20,
                "batch.size": BATCH_BYTES,
            },
        )

    def send(self, recorded: Recorded, routed: RoutedRecord, now_ms: int) -> None:
        """Hand over one recorded message."""
        received = (headers.RECEIVED_AT, str(now_ms))
        self.put(routed.topic, routed.key, recorded.body, (*routed.headers, received))

    def put(
        self, topic: str, key: bytes | None, value: bytes, own_headers: Sequence[tuple[str, str]]
    ) -> None:
        """Hand over one record; waits while the queue is full."""
        self._producer.send(
            topic,
            value,
            key=key,
            headers=[(headers.SCHEMA, TOPICS[topic].schema), *own_headers, *self._fixed],
            on_delivery=self._on_delivery,
            wait_s=MESSAGE_TIMEOUT_MS / 1000,
        )

    def send_counters(self, counters: Sequence[Sent]) -> None:
        """Counters to `meter.sent`."""
        for message in counters:
            self.put(METER_SENT, message.producer.encode(), msgspec.json.encode(message), ())

    def flush(self) -> None:
        """Wait until everything is acknowledged; raises `RecordsNotSent`."""
        while self._producer.flush():
            pass  # each record's own time-out ends this
        if self.failed:
            raise RecordsNotSent(
                f"{self.failed} records were not taken by the bus: {self.last_error}"
            )

    def close(self) -> None:
        """End the client."""
        self._producer.close()

    def _on_delivery(self, outcome: DeliveryReport) -> None:
        """In the polling thread."""
        if isinstance(outcome, DeliveryError):
            self.failed += 1
            self.last_error = str(outcome)
        else:
            self.acknowledged += 1
