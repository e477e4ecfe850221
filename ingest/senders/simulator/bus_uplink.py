"""The smart cameras' Kafka producers, without an edge (W-6).

All simulated cameras share one client; each record still carries its own device's id. A record
whose time ran out is produced again under the same id.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from bus.client.kafka.errors import ClientFailed, DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.contracts import headers
from bus.contracts.meters import Sent
from bus.contracts.topics import METER_SENT, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

QUEUE_KIB = 256 * 1024
MOVE_S = 5.0
ROOM_FOR_COUNTERS = 10_000  # beside the records, in librdkafka's queue


@dataclass(frozen=True, slots=True)
class BusRecord:
    """One record for the bus. `n` is its number in the truth."""

    n: int
    topic: str
    key: bytes | None
    record_id: str
    body: bytes


class BusUplink:
    """Invariant: every record handed over is acknowledged once, or still pending.

    `_handed` belongs to the caller's thread, `_acknowledged` to the client's polling thread.
    """

    def __init__(self, bus: BusSettings, *, buffer_records: int, message_timeout_ms: int) -> None:
        self._capacity = buffer_records
        self._handed = 0
        self._acknowledged = 0
        self._acknowledged_ns: deque[int] = deque()
        self._retries: deque[BusRecord] = deque()
        self._overrides = {
            "message.timeout.ms": message_timeout_ms,
            "queue.buffering.max.messages": buffer_records + ROOM_FOR_COUNTERS,
            "queue.buffering.max.kbytes": QUEUE_KIB,
        }
        self._producer = Producer(bus, client_id="city", overrides=self._overrides)

    @property
    def pending(self) -> int:
        """Records not acknowledged yet."""
        return self._handed - self._acknowledged

    @property
    def acknowledged(self) -> int:
        """Records acknowledged so far."""
        return self._acknowledged

    @property
    def room(self) -> int:
        """How many more records fit into the buffer."""
        return self._capacity - self.pending

    def move(self, bus: BusSettings) -> None:
        """Send to other brokers from now on, first what these have not acknowledged: what an
        operator does who changes the bootstrap servers of a device and restarts it, if the device
        keeps what it has. A record that came to both has one id."""
        former = self._producer
        self._producer = Producer(bus, client_id="city", overrides=self._overrides)
        left = former.give_up(MOVE_S)
        if left:
            log.error("%d records were not reported by the former producer", left)

    def put(self, record: BusRecord) -> None:
        """Hand over one record; the caller has looked at `room`."""
        self._handed += 1
        self._produce(record)

    def send_counters(
        self, counters: list[Sent], on_acknowledged: Callable[[list[Sent]], None]
    ) -> None:
        """Counters of smart devices go straight to `meter.sent`; unacknowledged ones stay due."""
        for message in counters:
            self._try_send(
                METER_SENT, msgspec.json.encode(message), message.producer, (),
                _on_counter_delivery(message, on_acknowledged),
            )  # fmt: skip

    def poll_acknowledged(self) -> list[int]:
        """Numbers acknowledged since the last call. Produces again what ran out of time."""
        for _ in range(len(self._retries)):
            self._produce(self._retries.popleft())
        return [self._acknowledged_ns.popleft() for _ in range(len(self._acknowledged_ns))]

    def flush(self, timeout_s: float) -> bool:
        """Whether everything was acknowledged within the time."""
        self._producer.close(timeout_s)
        return self.pending == 0

    def _produce(self, record: BusRecord) -> None:
        """Raises `ClientFailed` when this client is dead; the supervisor starts another city."""
        own_headers = ((headers.RECORD_ID, record.record_id),)
        queued = self._try_send(
            record.topic, record.body, record.key, own_headers,
            lambda outcome: self._on_delivery(record, outcome),
        )  # fmt: skip
        if not queued:
            self._retries.append(record)

    def _try_send(
        self,
        topic: str,
        value: bytes,
        key: bytes | str | None,
        own_headers: tuple[tuple[str, str], ...],
        on_delivery: Callable[[DeliveryReport], None],
    ) -> bool:
        try:
            return self._producer.try_send(
                topic,
                value,
                key=key,
                headers=[(headers.SCHEMA, TOPICS[topic].schema), *own_headers],
                on_delivery=on_delivery,
            )
        except ClientFailed:
            raise
        except BusError as error:  # the topic is not there yet
            log.warning("%s: %s; again", topic, error)
            return False

    def _on_delivery(self, record: BusRecord, outcome: DeliveryReport) -> None:
        """In the polling thread."""
        if isinstance(outcome, DeliveryError):
            log.warning("record %s: %s; again", record.record_id, outcome)
            self._retries.append(record)
            return
        self._acknowledged += 1
        self._acknowledged_ns.append(record.n)


def _on_counter_delivery(
    message: Sent, on_acknowledged: Callable[[list[Sent]], None]
) -> Callable[[DeliveryReport], None]:
    def on_delivery(outcome: DeliveryReport) -> None:
        if not isinstance(outcome, DeliveryError):
            on_acknowledged([message])

    return on_delivery
