"""Forwards the spool to the bus: in the order of arrival, idempotent, acknowledged only when the
brokers have it.

It never gives up. What a producer had in flight when it failed for good is read again for the next
one, so a message may arrive twice (its identity makes that harmless), but always arrives.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, OnDelivery, Producer
from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from ingest.spool import Queued, Spool, SpoolEntry

log = logging.getLogger(__name__)

_READ_MESSAGES = 500
# The spool and every delivery wake us earlier; this bounds how late a stop is noticed
_IDLE_WAIT_S = 0.5
_RETRY_PAUSE_S = 1.0  # between two producers, so that a refusing cluster is not hammered
_CLOSE_S = 3.0  # at a stop, for what is in flight; the rest is sent after the next start
_KEPT_OF_TOO_LARGE_BYTES = 64 * 1024
# The broker will never take such a message, however often it is asked.
_PERMANENT = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD})


class SpoolForwarder:
    """The shell around one spool and a succession of producers; one thread."""

    def __init__(self, spool: Spool, bus: BusSettings, max_in_flight: int) -> None:
        self._spool = spool
        self._bus = bus
        self._max_in_flight = max_in_flight
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)
        self.failures = 0

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def stop(self) -> None:
        """Wait a little for what is in flight, then end."""
        self._stopping.set()
        self._spool.wake()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._run_session()
            except OSError as error:
                # The spool's own disk: read or written again later, as the records stay there.
                self.failures += 1
                log.error("the spool cannot be read or marked, again soon: %s", error)
                self._stopping.wait(_RETRY_PAUSE_S)

    def _run_session(self) -> None:
        """One producer's life."""
        flight = ProducerSession(self._spool, self._producer(), self._max_in_flight)
        try:
            flight.run(self._stopping.is_set)
        except BusError as error:
            self.failures += 1
            log.warning("the producer failed, the next one goes on: %s", error)
            self._stopping.wait(_RETRY_PAUSE_S)
        finally:
            flight.close()
        self._spool.rewind()

    def _producer(self) -> Producer:
        # The spool is the patience: a message that timed out would only come again, out of order.
        return Producer(self._bus, client_id="databus-edge", overrides={"message.timeout.ms": 0})


class ProducerSession:
    """One producer's life.

    Invariant: `_unsettled` holds, ascending, the sequences that were handed to the producer and are
    not below the acknowledged position; deliveries only add to `_settled` and `_refusals` (from the
    producer's thread).
    """

    def __init__(self, spool: Spool, producer: Producer, max_in_flight: int) -> None:
        self._spool = spool
        self._producer = producer
        self._max_in_flight = max_in_flight
        self._unsettled: deque[int] = deque()
        self._settled: set[int] = set()
        self._refusals: deque[tuple[Queued, DeliveryError]] = deque()
        self._next = spool.drained_sequence
        self._failure: BusError | None = None

    def run(self, stopping: Callable[[], bool]) -> None:
        """Run until `stopping`; raises `BusError` when this producer has failed for good."""
        while not stopping():
            room = self._max_in_flight - len(self._unsettled)
            queued = self._spool.read(min(room, _READ_MESSAGES)) if room > 0 else []
            for message in queued:
                self._produce(message)
            self._handle_deliveries()
            if not queued:
                self._spool.wait(_IDLE_WAIT_S)

    def close(self) -> None:
        """Let what is in flight arrive and take note of it; the rest is read again."""
        self._producer.close(0 if self._failure else _CLOSE_S)
        self._acknowledge_settled()

    def _produce(self, message: Queued) -> None:
        self._unsettled.append(message.sequence)
        self._next = message.sequence + 1
        try:
            self._send(message.entry, lambda outcome: self._on_delivery(message, outcome))
        except BusError as error:
            self._on_refusal(message, error)

    def _send(self, entry: SpoolEntry, on_delivery: OnDelivery) -> None:
        self._producer.send(
            entry.topic,
            entry.value,
            key=entry.key,
            headers=entry.headers,
            timestamp_ms=entry.timestamp_ms,
            on_delivery=on_delivery,
        )

    def _on_delivery(self, message: Queued, outcome: DeliveryReport) -> None:
        """In the producer's thread. It alone makes room in the producer's queue, so it sends
        nothing: it would wait for itself."""
        if isinstance(outcome, DeliveryError):
            self._refusals.append((message, outcome))
        else:
            self._settled.add(message.sequence)
        self._spool.wake()

    def _on_refusal(self, message: Queued, error: BusError) -> None:
        """What is refused for ever goes to the quarantine; anything else ends this producer."""
        if error.code not in _PERMANENT or len(message.entry.value) <= _KEPT_OF_TOO_LARGE_BYTES:
            raise error
        log.error("refused for ever, so quarantined: %s", error)
        shortened = Queued(message.sequence, _quarantine_entry(message.entry))
        self._send(shortened.entry, lambda outcome: self._on_delivery(shortened, outcome))

    def _handle_deliveries(self) -> None:
        self._acknowledge_settled()
        while self._refusals:
            try:
                self._on_refusal(*self._refusals.popleft())
            except BusError as error:
                self._failure = error
                raise

    def _acknowledge_settled(self) -> None:
        """Move the position up to the first message that is still under way."""
        while self._unsettled and self._unsettled[0] in self._settled:
            self._settled.remove(self._unsettled.popleft())
        self._spool.acknowledge(self._unsettled[0] if self._unsettled else self._next)


def _quarantine_entry(entry: SpoolEntry) -> SpoolEntry:
    """What the brokers' own limit refuses is kept as far as it fits."""
    added = [
        (headers.REASON, Reason.TOO_LARGE.value.encode()),
        (headers.FIELD, b""),
        (headers.KIND, entry.topic.removeprefix("data.").encode()),
        (headers.TRUNCATED, str(len(entry.value)).encode()),
    ]
    return SpoolEntry(
        topic=topics.QUARANTINE_RECORDS,
        key=None,
        value=entry.value[:_KEPT_OF_TOO_LARGE_BYTES],
        headers=[*entry.headers, *added],
        timestamp_ms=entry.timestamp_ms,
        tally=entry.tally,
    )
