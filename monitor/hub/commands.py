"""Sends operators' commands to their topic and waits for the broker's word (I-3: commands are
synchronous).

In: a `WatchCommand`. Out: nothing, or `CommandLost`. Never: deciding who may.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bus.contracts.commands import WatchCommand
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import CONTROL_WATCHLIST, TOPICS

DELIVERY_SECONDS = 5.0  # an operator waits for it


class CommandLost(Exception):
    """The broker has not acknowledged the command; it may be sent again, the version makes it
    once.
    """


class CommandSender:
    """One producer, made with the first command; acks=all and idempotent."""

    def __init__(self, bootstrap_servers: str, site: str) -> None:
        self._servers = bootstrap_servers
        self._site = site
        self._producer: Any = None
        self._lock = asyncio.Lock()

    async def send(self, command: WatchCommand) -> None:
        """Returns when the command is on the topic. Raises `CommandLost`."""
        async with self._lock:
            await asyncio.to_thread(self._send, command)

    def _send(self, command: WatchCommand) -> None:
        outcome: list[KafkaError | None] = []

        def told(error: KafkaError | None, _: Message) -> None:
            outcome.append(error)

        try:
            self._connected().produce(
                CONTROL_WATCHLIST,
                key=command.rule_id.encode(),
                value=msgspec.json.encode(command),
                headers={SCHEMA: TOPICS[CONTROL_WATCHLIST].schema, SITE: self._site},
                on_delivery=told,
            )
            self._producer.flush(DELIVERY_SECONDS + 1)
        except (KafkaException, BufferError) as error:
            raise CommandLost(str(error)) from error
        if not outcome:
            raise CommandLost(f"{self._servers} did not answer")
        if outcome[0] is not None:
            raise CommandLost(outcome[0].str())

    def _connected(self) -> Any:
        if self._producer is None:
            self._producer = Producer(
                {
                    "bootstrap.servers": self._servers,
                    "client.id": "databus-console",
                    "enable.idempotence": True,
                    "partitioner": "murmur2_random",
                    "delivery.timeout.ms": int(DELIVERY_SECONDS * 1000),
                    "linger.ms": 0,
                    "log_level": 0,
                }
            )
        return self._producer
