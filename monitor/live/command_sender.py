"""Sends operators' commands to their topic and waits for the broker's acknowledgement (I-3:
commands are synchronous)."""

from __future__ import annotations

import asyncio

import msgspec

from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

DELIVERY_SECONDS = 5.0  # an operator waits for it


class CommandNotAcknowledged(Exception):
    """The broker has not acknowledged the command; it may be sent again, the version makes it
    once.
    """


class CommandSender:
    """One producer, made with the first command; acks=all and idempotent."""

    def __init__(self, bus: BusSettings, site: str) -> None:
        self._bus = bus
        self._site = site
        self._producer: Producer | None = None
        self._lock = asyncio.Lock()

    async def send(self, topic: str, key: str, command: msgspec.Struct) -> None:
        """Returns when the command is on its topic; the newest one of a key counts there. Raises
        `CommandNotAcknowledged`."""
        async with self._lock:
            await asyncio.to_thread(self._send, topic, key, command)

    def close(self) -> None:
        """End the producer's thread and its connections."""
        if self._producer is not None:
            self._producer.close(0)
            self._producer = None

    def _send(self, topic: str, key: str, command: msgspec.Struct) -> None:
        outcomes: list[DeliveryReport] = []
        try:
            producer = self._connected()
            producer.send(
                topic,
                msgspec.json.encode(command),
                key=key.encode(),
                headers=[(SCHEMA, TOPICS[topic].schema), (SITE, self._site)],
                on_delivery=outcomes.append,
                wait_s=DELIVERY_SECONDS,
            )
            producer.flush(DELIVERY_SECONDS + 1)
        except BusError as error:
            raise CommandNotAcknowledged(str(error)) from error
        if not outcomes:
            raise CommandNotAcknowledged(f"{self._bus.bootstrap_servers} did not answer")
        if isinstance(outcomes[0], DeliveryError):
            raise CommandNotAcknowledged(str(outcomes[0]))

    def _connected(self) -> Producer:
        if self._producer is None:
            timeout_ms = int(DELIVERY_SECONDS * 1000)
            changes = {
                **FOLLOWS_LEADERS, "message.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0,
            }  # fmt: skip
            self._producer = Producer(self._bus, client_id="databus-console", overrides=changes)
        return self._producer
