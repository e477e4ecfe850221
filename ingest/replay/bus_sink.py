"""Sends records straight to the bus, as a producer without an edge does.

In: topic, key, value, headers. Out: counts of what the brokers acknowledged. Never: dropping; when
librdkafka's queue is full the caller waits (D-3), and what could not be sent at all is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from bus.contracts import headers
from bus.contracts.meters import Sent
from bus.contracts.topics import METER_SENT, TOPICS
from ingest.replay.judged import Judged
from ingest.replay.lines import Recorded

QUEUE_RECORDS = 100_000
QUEUE_KIB = 256 * 1024
FULL_QUEUE_POLL_S = 0.1
FLUSH_POLL_S = 0.5


class NotSent(Exception):
    """The brokers did not take some records within their time."""


class BusSink:
    """Invariant: acknowledged + failed + waiting = handed over."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str,
        message_timeout_ms: int = 300_000,
        fixed_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.acknowledged = 0
        self.failed = 0
        self.last_error = ""
        self._fixed = [(name, text.encode()) for name, text in (fixed_headers or {}).items()]
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": client_id,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "batch.size": 256 * 1024,
                "message.timeout.ms": message_timeout_ms,
                "queue.buffering.max.messages": QUEUE_RECORDS,
                "queue.buffering.max.kbytes": QUEUE_KIB,
            }
        )

    def __len__(self) -> int:
        """Records that wait for their acknowledgement."""
        return len(self._producer)

    def send(self, recorded: Recorded, judged: Judged, now_ms: int) -> None:
        """Hand over one recorded message."""
        received = (headers.RECEIVED_AT, str(now_ms))
        self.put(judged.topic, judged.key, recorded.body, (*judged.headers, received))

    def put(
        self, topic: str, key: bytes | None, value: bytes, own_headers: Sequence[tuple[str, str]]
    ) -> None:
        """Hand over one record; waits while the queue is full."""
        record_headers = [
            (headers.SCHEMA, TOPICS[topic].schema.encode()),
            *((name, text.encode()) for name, text in own_headers),
            *self._fixed,
        ]
        while True:
            try:
                self._producer.produce(
                    topic, value, key, headers=record_headers, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(FULL_QUEUE_POLL_S)
            else:
                self._producer.poll(0)
                return

    def tell(self, counters: Sequence[Sent]) -> None:
        """Counters to `meter.sent`."""
        for message in counters:
            self.put(METER_SENT, message.producer.encode(), msgspec.json.encode(message), ())

    def flush(self) -> None:
        """Wait until everything is acknowledged; raises `NotSent`."""
        while len(self._producer):
            self._producer.flush(FLUSH_POLL_S)
        if self.failed:
            raise NotSent(f"{self.failed} records were not taken by the bus: {self.last_error}")

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
            self.last_error = str(error)
