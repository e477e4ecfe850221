"""The producer of our applications: sends a record and reports whether it is on the bus.

In: records. Out: a `RecordMetadata` per record, or a DeliveryError; to a callback (`send`, any
thread) or to an `await` (`AsyncProducer.produce`). Never: unbounded queues. When the queue is full,
sending waits, and then raises QueueFull.

librdkafka calls back only from its `poll`; a thread of our own does nothing else, so callbacks come
in time even if the application is busy. They run in that thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import confluent_kafka

from bus.client.kafka.config import producer_config
from bus.client.kafka.errors import ClientFailed, DeliveryError, QueueFull, bus_error, code_of
from bus.client.kafka.message import KafkaMessage
from bus.settings import BusSettings

POLL_S = 0.1
QUEUE_WAIT_S = 30.0
"""How long sending waits for room: longer than a broker takes to restart."""

RecordHeaders = Sequence[tuple[str, bytes | str | None]]


class RecordMetadata(NamedTuple):
    """Where a record ended up."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


DeliveryReport = RecordMetadata | DeliveryError
OnDelivery = Callable[[DeliveryReport], None]


class Producer:
    """A producer for threads. `close` it; records that are still queued are sent first."""

    def __init__(
        self,
        bus: BusSettings,
        *,
        client_id: str,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        config = producer_config(bus, client_id, overrides)
        self._failure: ClientFailed | None = None
        self._producer = confluent_kafka.Producer({**config, "error_cb": self._on_error})
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, name=f"{client_id}-poll", daemon=True)
        self._poller.start()

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: RecordHeaders = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
        wait_s: float = QUEUE_WAIT_S,
    ) -> None:
        """Queue a record; waits up to `wait_s` for room in the queue.

        Raises QueueFull, ClientFailed, or BusError for a record that cannot be sent at all.
        """
        arguments = _arguments(key, headers, timestamp_ms, partition, on_delivery)
        deadline = time.monotonic() + wait_s
        while not self._try_produce(topic, value, arguments):
            if time.monotonic() >= deadline:
                raise QueueFull(topic)
            self._closing.wait(0.01)

    def try_send(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: RecordHeaders = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> bool:
        """Queue a record if there is room; False otherwise. Never waits."""
        arguments = _arguments(key, headers, timestamp_ms, partition, on_delivery)
        return self._try_produce(topic, value, arguments)

    def _try_produce(
        self, topic: str, value: bytes | str | None, arguments: dict[str, object]
    ) -> bool:
        if self._failure is not None:
            raise self._failure
        try:
            self._producer.produce(topic, value, **arguments)
        except BufferError:
            return False
        except confluent_kafka.KafkaException as failure:
            raise bus_error(failure) from failure
        return True

    @property
    def queued(self) -> int:
        """About how many records are not acknowledged yet; librdkafka counts its events too."""
        return len(self._producer)

    def flush(self, timeout_s: float = QUEUE_WAIT_S) -> int:
        """Wait until everything is acknowledged; how many records are not when the time is up."""
        return int(self._producer.flush(timeout_s))

    def give_up(self, timeout_s: float = QUEUE_WAIT_S) -> int:
        """Stop; every record that is not acknowledged is reported as failed, though its broker may
        have it. How many were not reported in time."""
        self._producer.purge()
        return self.close(timeout_s)

    def close(self, timeout_s: float = QUEUE_WAIT_S) -> int:
        """Flush and stop; how many records were given up (their callbacks were not called)."""
        left = self.flush(timeout_s)
        self._closing.set()
        self._poller.join(timeout=10 * POLL_S)
        return left

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(POLL_S)

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        """Only fatal errors matter here; all others librdkafka retries and logs."""
        if error.fatal():
            self._failure = ClientFailed(code_of(error), error.str())


def _arguments(
    key: bytes | str | None,
    headers: RecordHeaders,
    timestamp_ms: int | None,
    partition: int | None,
    on_delivery: OnDelivery | None,
) -> dict[str, object]:
    """Arguments of confluent-kafka's produce; it takes no None for those not given."""
    arguments: dict[str, object] = {"key": key}
    if headers:
        arguments["headers"] = list(headers)
    if timestamp_ms is not None:
        arguments["timestamp"] = timestamp_ms
    if partition is not None:
        arguments["partition"] = partition
    if on_delivery is not None:
        arguments["on_delivery"] = _delivery_callback(on_delivery)
    return arguments


def _delivery_callback(
    on_delivery: OnDelivery,
) -> Callable[[confluent_kafka.KafkaError | None, KafkaMessage], None]:
    """confluent-kafka's callback that reports an Outcome."""

    def report(error: confluent_kafka.KafkaError | None, message: KafkaMessage) -> None:
        on_delivery(_delivery_report(error, message))

    return report


def _delivery_report(
    error: confluent_kafka.KafkaError | None, message: KafkaMessage
) -> DeliveryReport:
    if error is not None:
        return DeliveryError(code_of(error), error.str(), message.topic())
    _, timestamp_ms = message.timestamp()
    return RecordMetadata(message.topic(), message.partition(), message.offset(), timestamp_ms)


class AsyncProducer:
    """A producer for one asyncio loop: `await produce(...)` returns when the record is on the bus.

    Outcomes cross from the polling thread in bulk: one wake-up of the loop serves all that came.
    """

    def __init__(
        self,
        bus: BusSettings,
        *,
        client_id: str,
        overrides: Mapping[str, object] | None = None,
    ) -> None:
        self._producer = Producer(bus, client_id=client_id, overrides=overrides)
        self._loop = asyncio.get_running_loop()
        self._reports: deque[tuple[asyncio.Future[RecordMetadata], DeliveryReport]] = deque()
        self._wakeup_scheduled = False

    @property
    def queued(self) -> int:
        """About how many records are not acknowledged yet; librdkafka counts its events too."""
        return self._producer.queued

    async def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: RecordHeaders = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> RecordMetadata:
        """Send and wait for the acknowledgement. Raises DeliveryError, QueueFull, ClientFailed."""
        queued = await self.enqueue(
            topic,
            value,
            key=key,
            headers=headers,
            timestamp_ms=timestamp_ms,
            partition=partition,
        )
        return await queued

    async def enqueue(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        headers: RecordHeaders = (),
        timestamp_ms: int | None = None,
        partition: int | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Queue in the order of calls, waiting for room if need be; the future is the outcome."""
        future: asyncio.Future[RecordMetadata] = self._loop.create_future()
        deadline = self._loop.time() + QUEUE_WAIT_S
        while not self._producer.try_send(
            topic,
            value,
            key=key,
            headers=headers,
            timestamp_ms=timestamp_ms,
            partition=partition,
            on_delivery=lambda outcome: self._on_delivery_report(future, outcome),
        ):
            if self._loop.time() >= deadline:
                raise QueueFull(topic)
            await asyncio.sleep(0.01)
        return future

    def _on_delivery_report(
        self, future: asyncio.Future[RecordMetadata], outcome: DeliveryReport
    ) -> None:
        """In the polling thread."""
        self._reports.append((future, outcome))
        if not self._wakeup_scheduled and not self._loop.is_closed():
            self._wakeup_scheduled = True
            self._loop.call_soon_threadsafe(self._resolve_futures)

    def _resolve_futures(self) -> None:
        """In the loop. The flag falls first, so that an outcome coming now wakes the loop again."""
        self._wakeup_scheduled = False
        while self._reports:
            future, outcome = self._reports.popleft()
            if future.done():
                continue
            if isinstance(outcome, RecordMetadata):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

    async def flush(self, timeout_s: float = QUEUE_WAIT_S) -> int:
        """Wait until everything is acknowledged; how many records are not when the time is up."""
        return await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float = QUEUE_WAIT_S) -> int:
        """Flush and stop; how many records were given up."""
        return await asyncio.to_thread(self._producer.close, timeout_s)
