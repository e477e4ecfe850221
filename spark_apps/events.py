"""What a driver itself produces: candidates, incidents, meters.

In: contract structs. Out: acknowledged messages. Never: an unbounded wait, a lost error.
"""

from __future__ import annotations

import msgspec
from confluent_kafka import KafkaError, Message, Producer

from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import TOPICS

FLUSH_TIMEOUT_S = 30.0


class EventsLost(Exception):
    """Messages could not be delivered; the batch they belong to must be done again."""


class Events:
    """An idempotent producer of messages of our own making. `flush` is the moment of truth.

    Several queries share it; a failed delivery fails the flush of whoever comes next, and a failed
    query ends the driver, so that no error is lost.
    """

    def __init__(self, bootstrap_servers: str, site: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "client.id": "streams",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "message.timeout.ms": int(FLUSH_TIMEOUT_S * 1000),
                "log_level": 0,
            }
        )
        self._site = site.encode()
        self._encoder = msgspec.json.Encoder()
        self._failed: KafkaError | None = None

    def send(self, topic: str, key: str, message: msgspec.Struct) -> None:
        """Queue one message."""
        headers = [(SCHEMA, TOPICS[topic].schema.encode()), (SITE, self._site)]
        value = self._encoder.encode(message)
        while True:
            try:
                self._producer.produce(
                    topic, value, key, headers=headers, on_delivery=self._delivered
                )
                return
            except BufferError:  # the queue's bound; wait until the bus has taken some
                self._producer.poll(0.1)

    def poll(self) -> None:
        """Let deliveries be told without waiting."""
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until everything queued is acknowledged. Raises `EventsLost`."""
        waiting = self._producer.flush(FLUSH_TIMEOUT_S)
        if waiting or self._failed is not None:
            raise EventsLost(f"{waiting} messages unacknowledged; last error: {self._failed}")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed = error
