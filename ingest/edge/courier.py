"""Carries the spool to the bus: in order, idempotent, acknowledged only when the brokers have it.

In: a spool, the brokers' addresses. Out: messages on their topics. Never: giving up. One thread owns the
producer; what a producer had in flight when it failed for good is read again by its successor, so a message
may arrive twice (the identity makes that harmless) but never zero times, and never after a later one of its
key that was acknowledged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from ingest.spool import Entry, Queued, Spool

log = logging.getLogger(__name__)

_READ_MESSAGES = 500
_IDLE_WAIT_S = 0.5  # the spool wakes us earlier; this only bounds how late a stop is noticed
_BUSY_POLL_S = 0.002  # with messages in flight: how long the newest may wait while we serve callbacks
_RETRY_PAUSE_S = 1.0  # between two producers, so that a refusing cluster is not hammered
_CLOSE_S = 3.0  # at a stop, for what is in flight; the rest is sent after the next start
_KEPT_OF_TOO_LARGE_BYTES = 64 * 1024
# The broker will never take such a message, however often it is asked.
_NEVER = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})


def producer_config(bootstrap_servers: str, max_in_flight: int) -> dict[str, Any]:
    """librdkafka's settings of the edge (design: lz4, murmur2, idempotent)."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": "databus-edge",
        "enable.idempotence": True,
        "compression.type": "lz4",
        # Java's hash; null keys are spread (librdkafka's plain "murmur2" would put them all on one).
        "partitioner": "murmur2_random",
        "linger.ms": 5,
        "message.timeout.ms": 0,  # the spool is the patience; a time-out would only reorder
        "queue.buffering.max.messages": max_in_flight + 1,
        "queue.buffering.max.kbytes": 256 * 1024,
        "message.max.bytes": 1_000_000,
        "reconnect.backoff.max.ms": 2_000,
        "topic.metadata.refresh.interval.ms": 30_000,
        "log_level": 3,
    }


class Failed(Exception):
    """This producer is of no more use; the next one begins at the acknowledged position."""


class Courier:
    """The shell around one spool and a succession of producers."""

    def __init__(self, spool: Spool, bootstrap_servers: str, max_in_flight: int) -> None:
        self._spool = spool
        self._config = producer_config(bootstrap_servers, max_in_flight)
        self._max_in_flight = max_in_flight
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="courier", daemon=True)
        self.failures = 0

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def stop(self) -> None:
        """Carry on a little for what is in flight, then end."""
        self._stopping.set()
        self._spool.wake()
        self._thread.join()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping.is_set():
            flight = Flight(self._spool, Producer(self._config), self._max_in_flight)
            try:
                flight.carry(self._stopping.is_set)
            except (Failed, KafkaException) as error:
                self.failures += 1
                log.warning("the producer failed, the next one goes on: %s", error)
                self._stopping.wait(_RETRY_PAUSE_S)
            finally:
                flight.close()
            self._spool.rewind()


class Flight:
    """One producer's life.

    Invariant: `_unsettled` holds, in order, the sequences produced and not yet below the acknowledged position.
    """

    def __init__(self, spool: Spool, producer: Producer, max_in_flight: int) -> None:
        self._spool = spool
        self._producer = producer
        self._max_in_flight = max_in_flight
        self._unsettled: deque[int] = deque()
        self._settled: set[int] = set()
        self._next = spool.drained_sequence
        self._failure: Failed | None = None

    def carry(self, stopping: Callable[[], bool]) -> None:
        """Until told to stop; raises `Failed`."""
        while not stopping():
            room = self._max_in_flight - len(self._unsettled)
            queued = self._spool.read(min(room, _READ_MESSAGES)) if room > 0 else []
            for message in queued:
                self._produce(message)
            self._settle(0 if queued else _BUSY_POLL_S if self._unsettled else None)

    def close(self) -> None:
        """Let what is in flight arrive, take note of it, and forget the rest."""
        until = time.monotonic() + _CLOSE_S
        while self._unsettled and self._failure is None and time.monotonic() < until:
            self._producer.poll(0.05)
            self._acknowledge()
        self._producer.purge()
        self._producer.poll(0)

    def _produce(self, message: Queued) -> None:
        self._unsettled.append(message.sequence)
        self._next = message.sequence + 1
        self._send(message.entry, partial(self._delivered, message))

    def _send(self, entry: Entry, told: Callable[[KafkaError | None, Message], None]) -> None:
        while True:
            try:
                self._producer.produce(
                    entry.topic,
                    value=entry.value,
                    key=entry.key,
                    headers=list(entry.headers),
                    timestamp=entry.timestamp_ms,
                    on_delivery=told,
                )
                return
            except BufferError:
                self._settle(0.05)

    def _settle(self, wait_s: float | None) -> None:
        """Serve callbacks, move the position; without anything in flight wait for the spool."""
        if wait_s is None:
            self._spool.wait(_IDLE_WAIT_S)
            wait_s = 0
        self._producer.poll(wait_s)
        self._acknowledge()
        if self._failure is not None:
            raise self._failure

    def _delivered(self, message: Queued, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._settled.add(message.sequence)
        elif error.code() in _NEVER and message.entry.topic != topics.QUARANTINE_RECORDS:
            log.error("%s refuses %s for ever: quarantined", message.entry.topic, error)
            self._send(_quarantined(message.entry), partial(self._delivered, message))
        else:
            self._failure = Failed(str(error))

    def _acknowledge(self) -> None:
        """Up to the first message that is still under way."""
        if not self._settled:
            return
        while self._unsettled and self._unsettled[0] in self._settled:
            self._settled.remove(self._unsettled.popleft())
        self._spool.acknowledge(self._unsettled[0] if self._unsettled else self._next)


def _quarantined(entry: Entry) -> Entry:
    """What the brokers' own limit refuses is kept as far as it fits."""
    added = [
        (headers.REASON, Reason.TOO_LARGE.value.encode()),
        (headers.FIELD, b""),
        (headers.KIND, entry.topic.removeprefix("data.").encode()),
        (headers.TRUNCATED, str(len(entry.value)).encode()),
    ]
    return Entry(
        topic=topics.QUARANTINE_RECORDS,
        key=None,
        value=entry.value[:_KEPT_OF_TOO_LARGE_BYTES],
        headers=[*entry.headers, *added],
        timestamp_ms=entry.timestamp_ms,
        tally=entry.tally,
    )
