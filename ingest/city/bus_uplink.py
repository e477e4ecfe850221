"""The smart cameras' line to the bus: Kafka producers without an edge (W-6).

In: records with key, id and topic. Out: acknowledgements, collected for `taken`. All simulated
cameras share one client; each record still carries its own device's id.
Never: giving a record up. One whose time ran out is produced again under the same id.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from bus.client.errors import ClientFailed, DeliveryError
from bus.client.producer import Outcome, Producer
from bus.contracts import headers
from bus.contracts.commands import WatchCommand
from bus.contracts.meters import Sent
from bus.contracts.topics import CONTROL_WATCHLIST, METER_SENT, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

QUEUE_KIB = 256 * 1024
ROOM_FOR_COUNTERS = 10_000  # beside the records, in librdkafka's queue


@dataclass(frozen=True, slots=True)
class Produced:
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
        self._taken: deque[int] = deque()
        self._again: deque[Produced] = deque()
        self._producer = Producer(
            bus,
            client_id="city",
            overrides={
                "message.timeout.ms": message_timeout_ms,
                "queue.buffering.max.messages": buffer_records + ROOM_FOR_COUNTERS,
                "queue.buffering.max.kbytes": QUEUE_KIB,
            },
        )

    @property
    def pending(self) -> int:
        """Records not acknowledged yet."""
        return self._handed - self._acknowledged

    @property
    def room(self) -> int:
        """How many more records fit into the buffer."""
        return self._capacity - self.pending

    def put(self, record: Produced) -> None:
        """Hand over one record; the caller has looked at `room`."""
        self._handed += 1
        self._produce(record)

    def tell(self, counters: list[Sent], on_told: Callable[[list[Sent]], None]) -> None:
        """Counters of smart devices go straight to `meter.sent`; untold ones stay due."""
        for message in counters:
            self._try(
                METER_SENT, msgspec.json.encode(message), message.producer, (),
                _told(message, on_told),
            )  # fmt: skip

    def command(self, command: WatchCommand, on_done: Callable[[Outcome], None]) -> None:
        """Put an operator's command on its topic; raises `BusError` when that cannot be tried."""
        self._producer.send(
            CONTROL_WATCHLIST,
            msgspec.json.encode(command),
            key=command.rule_id,
            headers=[(headers.SCHEMA, TOPICS[CONTROL_WATCHLIST].schema)],
            on_delivery=on_done,
        )

    def taken(self) -> list[int]:
        """Numbers acknowledged since the last call. Produces again what ran out of time."""
        for _ in range(len(self._again)):
            self._produce(self._again.popleft())
        return [self._taken.popleft() for _ in range(len(self._taken))]

    def flush(self, timeout_s: float) -> bool:
        """Whether everything was acknowledged within the time."""
        self._producer.close(timeout_s)
        return self.pending == 0

    def _produce(self, record: Produced) -> None:
        """Raises `ClientFailed` when this client is dead; the supervisor starts another city."""
        own_headers = ((headers.RECORD_ID, record.record_id),)
        queued = self._try(
            record.topic, record.body, record.key, own_headers,
            lambda outcome: self._delivered(record, outcome),
        )  # fmt: skip
        if not queued:
            self._again.append(record)

    def _try(
        self,
        topic: str,
        value: bytes,
        key: bytes | str | None,
        own_headers: tuple[tuple[str, str], ...],
        on_delivery: Callable[[Outcome], None],
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

    def _delivered(self, record: Produced, outcome: Outcome) -> None:
        """In the polling thread."""
        if isinstance(outcome, DeliveryError):
            log.warning("record %s: %s; again", record.record_id, outcome)
            self._again.append(record)
            return
        self._acknowledged += 1
        self._taken.append(record.n)


def _told(message: Sent, on_told: Callable[[list[Sent]], None]) -> Callable[[Outcome], None]:
    def on_delivery(outcome: Outcome) -> None:
        if not isinstance(outcome, DeliveryError):
            on_told([message])

    return on_delivery
