"""Forwards the spool to the bus: in the order of arrival, idempotent, acknowledged only when the
brokers have it.

It never gives up. What a producer had in flight when it failed for good is read again for the next
one, so a message may arrive twice (its identity makes that harmless), but always arrives. On a move
to the other site it first sends, in order, what that one lacks of what this one has.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import DeliveryReport, OnDelivery, Producer, RecordMetadata
from bus.contracts import headers, topics
from bus.contracts.headers import Reason
from bus.contracts.sent_again import SentAgain
from bus.errors import BusError, ErrorCode
from bus.runtime import wall_clock
from ingest.edge.sites.other_site import NO_EDGE, SecondEdge, ask_ends
from ingest.edge.sites.sent_again_file import write_sent_again
from ingest.edge.sites.site_route import Site, SiteRoute
from ingest.spool import Delivered, Queued, RetainedReader, Spool, SpoolEntry

log = logging.getLogger(__name__)

_READ_MESSAGES = 500
# The spool and every delivery wake us earlier; this bounds how late a stop is noticed
_IDLE_WAIT_S = 0.5
_RETRY_PAUSE_S = 1.0  # between two producers, so that a refusing cluster is not hammered
_CLOSE_S = 3.0  # at a stop, for what is in flight; the rest is sent after the next start
_RETAINED_OF_TOO_LARGE_BYTES = 64 * 1024
# The broker will never take such a message, however often it is asked.
_PERMANENT = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD})


class SpoolForwarder:
    """The shell around one spool and a succession of producers; one thread."""

    def __init__(
        self, spool: Spool, route: SiteRoute, max_in_flight: int, second_edge: SecondEdge = NO_EDGE
    ) -> None:
        self._spool = spool
        self._route = route
        self._max_in_flight = max_in_flight
        self._second_edge = second_edge
        self._handed_end: int | None = None  # behind what a producer of this process was handed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="forwarder", daemon=True)
        self.failures = 0
        self.resent = 0

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
        """One producer's life, or a move."""
        try:
            moving_to = self._route.moving_to
            if moving_to is not None:
                self._move(moving_to)
                return
            self._forward()
        except BusError as error:
            self.failures += 1
            log.warning("the producer failed, the next one goes on: %s", error)
            self._stopping.wait(_RETRY_PAUSE_S)

    def _forward(self) -> None:
        """What the bus does not have yet."""
        session = ProducerSession(
            self._spool, self._producer(self._route.active), self._max_in_flight
        )
        try:
            session.run(lambda: self._stopping.is_set() or self._route.moving_to is not None)
        finally:
            session.close()
            self._handed_end = max(self._handed_end or 0, session.handed_end)
            self._spool.rewind()

    def _move(self, to: Site) -> None:
        """Send what that site lacks of what is kept; from then on everything goes there."""
        ends = ask_ends(self._route, to, self._second_edge)
        log.warning("the site %s has said what it holds of %d partitions", to, len(ends.partitions))
        retained = self._spool.retained_reader(ends.ends)
        session = ProducerSession(retained, self._producer(to), self._max_in_flight)
        try:
            session.run(
                lambda: (
                    self._stopping.is_set()
                    or self._route.moving_to != to
                    or (retained.exhausted and session.is_idle)
                )
            )
        finally:
            session.close()
            retained.close()
        if retained.exhausted and session.is_idle and self._route.moving_to == to:
            self._complete(to, retained)

    def _complete(self, to: Site, retained: RetainedReader) -> None:
        """What was sent is written down before it counts as done, so that no report misses it."""
        now_ms = wall_clock.now_ms()
        write_sent_again(self._route.folder, SentAgain(
            former_cluster_id=self._route.cluster_id(self._route.active),
            new_cluster_id=self._route.cluster_id(to), at_ms=now_ms, records=retained.resent,
            unacknowledged=self._unacknowledged(), partitions=retained.sent_again,
        ))  # fmt: skip
        self._spool.release_retained()
        self._route.complete(now_ms)
        self._handed_end = None
        self.resent += retained.resent
        log.warning("records go to the site %s; it was sent %d kept ones", to, retained.resent)

    def _unacknowledged(self) -> int:
        """At most so many messages a producer of the site that is left was handed and has not
        confirmed; of an earlier process that is its bound."""
        drained = self._spool.drained_sequence
        if self._handed_end is None:
            return min(self._max_in_flight, self._spool.end_sequence - drained)
        return max(0, self._handed_end - drained)

    def _producer(self, site: Site) -> Producer:
        # The spool is the patience: a message that timed out would only come again, out of order.
        return Producer(
            self._route.bus(site), client_id="databus-edge", overrides={"message.timeout.ms": 0}
        )


class MessageSource(Protocol):
    """What a session sends: the spool, or what is kept of it."""

    @property
    def drained_sequence(self) -> int:
        """Where it begins."""

    def read(self, max_messages: int) -> list[Queued]:
        """The next messages; none: there are none now."""

    def wait(self, timeout_s: float) -> object:
        """Return when more may be read or was delivered."""

    def wake(self) -> None:
        """End a `wait` from another thread."""

    def acknowledge(self, end_sequence: int, rows: Sequence[Delivered]) -> None:
        """The bus has everything before `end_sequence`, the new ones where `rows` say."""


class ProducerSession:
    """One producer's life.

    Invariant: `_unsettled` holds, ascending, the sequences that were handed to the producer and are
    not below the acknowledged position; deliveries only add to `_settled` and `_refusals` (from the
    producer's thread).
    """

    def __init__(self, source: MessageSource, producer: Producer, max_in_flight: int) -> None:
        self._source = source
        self._producer = producer
        self._max_in_flight = max_in_flight
        self._unsettled: deque[int] = deque()
        self._settled: dict[int, RecordMetadata] = {}
        self._refusals: deque[tuple[Queued, DeliveryError]] = deque()
        self._next = source.drained_sequence
        self._failure: BusError | None = None

    @property
    def handed_end(self) -> int:
        """Behind the last message that the producer was handed."""
        return self._next

    @property
    def is_idle(self) -> bool:
        """Whether everything it was given is on the bus."""
        return not self._unsettled

    @property
    def _room(self) -> int:
        return self._max_in_flight - len(self._unsettled)

    def run(self, stopping: Callable[[], bool]) -> None:
        """Run until `stopping`; raises `BusError` when this producer has failed for good."""
        while not stopping():
            room = self._room
            queued = self._source.read(min(room, _READ_MESSAGES)) if room > 0 else []
            for message in queued:
                self._produce(message)
            self._handle_deliveries()
            may_read_now = room <= 0 < self._room
            if not queued and not may_read_now:
                self._source.wait(_IDLE_WAIT_S)

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
            self._settled[message.sequence] = outcome
        self._source.wake()

    def _on_refusal(self, message: Queued, error: BusError) -> None:
        """What is refused for ever goes to the quarantine; anything else ends this producer."""
        if error.code not in _PERMANENT or len(message.entry.value) <= _RETAINED_OF_TOO_LARGE_BYTES:
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
        rows = []
        while self._unsettled and self._unsettled[0] in self._settled:
            sequence = self._unsettled.popleft()
            found = self._settled.pop(sequence)
            rows.append(Delivered(sequence, found.topic, found.partition, found.offset))
        self._source.acknowledge(self._unsettled[0] if self._unsettled else self._next, rows)


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
        value=entry.value[:_RETAINED_OF_TOO_LARGE_BYTES],
        headers=[*entry.headers, *added],
        timestamp_ms=entry.timestamp_ms,
        tally=entry.tally,
    )
