"""The smart cameras' line to the bus: Kafka producers without an edge (W-6).

In: records with key, id and topic. Out: acknowledgements, called back by `poll`. All simulated
cameras share one librdkafka instance; each record still carries its own device's id.
Never: giving a record up. One whose time ran out is produced again under the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bus.contracts import headers
from bus.contracts.commands import WatchCommand
from bus.contracts.meters import Sent
from bus.contracts.topics import CONTROL_WATCHLIST, METER_SENT, TOPICS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Produced:
    """One record for the bus. `n` is its number in the truth."""

    n: int
    topic: str
    key: bytes | None
    record_id: str
    body: bytes


class BusUplink:
    """Invariant: every record handed over is either reported to `on_sent` or still in `pending`."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        buffer_records: int,
        message_timeout_ms: int,
        on_sent: Callable[[int], None],
    ) -> None:
        self._capacity = buffer_records
        self._on_sent = on_sent
        self.pending = 0
        self._again: list[Produced] = []
        self._producer = Producer(
            producer_config(bootstrap_servers, buffer_records, message_timeout_ms)
        )

    @property
    def room(self) -> int:
        """How many more records fit into the buffer."""
        return self._capacity - self.pending

    def put(self, record: Produced) -> None:
        """Hand over one record; the caller has looked at `room`."""
        self.pending += 1
        self._produce(record)

    def tell(self, counters: list[Sent], on_told: Callable[[list[Sent]], None]) -> None:
        """Counters of smart devices go straight to `meter.sent`."""
        for message in counters:
            self._producer.produce(
                METER_SENT,
                msgspec.json.encode(message),
                message.producer.encode(),
                headers=[(headers.SCHEMA, TOPICS[METER_SENT].schema.encode())],
                on_delivery=_told(message, on_told),
            )

    def command(self, command: WatchCommand, on_done: Callable[[KafkaError | None], None]) -> None:
        """Put an operator's command on its topic."""
        self._producer.produce(
            CONTROL_WATCHLIST,
            msgspec.json.encode(command),
            command.rule_id.encode(),
            headers=[(headers.SCHEMA, TOPICS[CONTROL_WATCHLIST].schema.encode())],
            on_delivery=lambda error, _message: on_done(error),
        )

    def poll(self) -> None:
        """Serve acknowledgements; produce again what ran out of time."""
        self._producer.poll(0)
        again, self._again = self._again, []
        for record in again:
            self._produce(record)

    def flush(self, timeout_s: float) -> bool:
        """Whether everything was acknowledged within the time."""
        self._producer.flush(timeout_s)
        return self.pending == 0

    def _produce(self, record: Produced) -> None:
        try:
            self._producer.produce(
                record.topic,
                record.body,
                record.key,
                headers=[
                    (headers.RECORD_ID, record.record_id.encode()),
                    (headers.SCHEMA, TOPICS[record.topic].schema.encode()),
                ],
                on_delivery=self._delivered(record),
            )
        except BufferError:
            self._again.append(record)
        except KafkaException as error:
            log.warning("record %s: %s; again", record.record_id, error)
            self._again.append(record)

    def _delivered(self, record: Produced) -> Callable[[KafkaError | None, Message], None]:
        def on_delivery(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                self.pending -= 1
                self._on_sent(record.n)
                return
            if error.fatal():
                raise KafkaException(error)  # this producer is dead; the supervisor starts another
            log.warning("record %s: %s; again", record.record_id, error)
            self._again.append(record)

        return on_delivery


def producer_config(
    bootstrap_servers: str, buffer_records: int, message_timeout_ms: int
) -> dict[str, Any]:
    """librdkafka's settings for a device that loses nothing: idempotent, patient, lz4, murmur2."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": "city",
        "enable.idempotence": True,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "linger.ms": 20,
        "message.timeout.ms": message_timeout_ms,
        "queue.buffering.max.messages": buffer_records + 10_000,
        "queue.buffering.max.kbytes": 512 * 1024,
        "reconnect.backoff.max.ms": 2000,
        "retry.backoff.max.ms": 1000,
    }


def _told(
    message: Sent, on_told: Callable[[list[Sent]], None]
) -> Callable[[KafkaError | None, Message], None]:
    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is None:
            on_told([message])

    return on_delivery
