"""The one consumer of the console: tails the data, event and watch-list topics in a thread of its
own.

In: a broker's address. Out: batches handed to the loop by `call_soon_threadsafe`; at most
`MAX_BATCHES_UNDERWAY` wait there. Never: a group, a commit, a position that matters; whoever
needs every
record is not a console.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from bus.contracts.alarms import Alarm, Incident
from bus.contracts.commands import WatchCommand
from bus.contracts.headers import RECORD_ID
from bus.contracts.topics import CONTROL_WATCHLIST, EVENT_ALARM, EVENT_INCIDENT
from monitor.hub.rules import decode_command
from monitor.hub.sighting import DATA_TOPICS, Sighting, sighting

log = logging.getLogger(__name__)

MAX_BATCHES_UNDERWAY = 8  # towards a busy loop; then records are counted and dropped, events wait
MAX_MESSAGES = 1000  # of one poll
POLL_SECONDS = 0.1
LOOK_SECONDS = 5.0  # between two looks at which partitions there are
SKIP_BEHIND = 20_000  # messages behind the end of a data partition: jump, a live page has no past
DATA_BACK = 20  # records per partition shown when a console starts
EVENTS_BACK = 300  # alarms and incidents read back when a console starts
METADATA_TIMEOUT_SECONDS = 3.0
_TOPICS = (*DATA_TOPICS, EVENT_ALARM, EVENT_INCIDENT, CONTROL_WATCHLIST)


class TailBatch(msgspec.Struct, kw_only=True):
    """What one poll brought, parsed. `commands` pairs rule id with the command, None for a
    tombstone.
    """

    counts: dict[str, int] = {}
    sightings: list[Sighting] = []
    alarms: list[Alarm] = []
    incidents: list[Incident] = []
    commands: list[tuple[str, WatchCommand | None]] = []


class Tail:
    """Invariant: `_next` holds the next offset of every assigned partition."""

    def __init__(
        self,
        bootstrap_servers: str,
        zone: ZoneInfo,
        deliver: Callable[[TailBatch], None],
        *,
        decoded_per_second: int,
    ) -> None:
        self.away = "not connected yet"  # empty = the broker answers
        self._servers = bootstrap_servers
        self._zone = zone
        self._deliver = deliver
        self._budget_per_second = decoded_per_second
        self._budget = float(decoded_per_second)
        self._budget_at = time.monotonic()
        self._next: dict[tuple[str, int], int] = {}
        self._skipped: dict[str, int] = {}
        self._new_from: dict[tuple[str, int], int] = {}
        self._stop = threading.Event()
        self._underway = threading.BoundedSemaphore(MAX_BATCHES_UNDERWAY)
        self._thread: threading.Thread | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name="console-tail", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Stop and wait for the thread."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10)

    # -- in the thread -------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "console-tail",  # librdkafka wants one; nothing is committed under it
                "client.id": "databus-console",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": 8192,
                "fetch.wait.max.ms": 100,
                "reconnect.backoff.max.ms": 2000,
                "error_cb": self._on_error,
                "log_level": 0,
            }
        )
        looked_at = -LOOK_SECONDS
        try:
            while not self._stop.is_set():
                if time.monotonic() - looked_at >= LOOK_SECONDS:
                    self._look(consumer)
                    looked_at = time.monotonic()
                if not self._next:
                    self._stop.wait(0.5)
                    looked_at = -LOOK_SECONDS
                    continue
                try:
                    self._poll(consumer, loop)
                except KafkaException as error:
                    self._note(f"{self._servers}: {error.args[0].str()}")
                    self._stop.wait(0.5)
        finally:
            consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._note(f"{self._servers}: {error.str()}")

    def _note(self, away: str) -> None:
        if bool(away) != bool(self.away):
            log.info("the bus is away: %s", away) if away else log.info("the bus answers")
        self.away = away

    def _look(self, consumer: Any) -> None:
        """Assign partitions that are new, jump where a data partition is too far behind."""
        try:
            metadata = consumer.list_topics(timeout=METADATA_TIMEOUT_SECONDS)
            there = {
                (name, number)
                for name in _TOPICS
                if name in metadata.topics and metadata.topics[name].error is None
                for number in metadata.topics[name].partitions
            }
            self._forget_lost(there)
            changed = [key for key in sorted(there) if key not in self._next]
            for key in changed:
                self._next[key] = self._first_offset(consumer, *key)
            jumped = self._jumps(consumer)
            if changed or jumped:
                consumer.assign(
                    [
                        TopicPartition(topic, number, offset)
                        for (topic, number), offset in self._next.items()
                    ]
                )
            self._note("")
        except KafkaException as error:
            self._note(f"{self._servers}: {error.args[0].str()}")

    def _forget_lost(self, there: set[tuple[str, int]]) -> None:
        for key in [key for key in self._next if key not in there]:
            del self._next[key]

    def _first_offset(self, consumer: Any, topic: str, number: int) -> int:
        if topic == CONTROL_WATCHLIST:
            return int(OFFSET_BEGINNING)  # the state is the whole topic
        low, end = self._bounds(consumer, topic, number)
        self._new_from[topic, number] = end  # what is shown from before is not counted as passing
        return max(low, end - (DATA_BACK if topic in DATA_TOPICS else EVENTS_BACK))

    def _bounds(self, consumer: Any, topic: str, number: int) -> tuple[int, int]:
        bounds: tuple[int, int] = consumer.get_watermark_offsets(
            TopicPartition(topic, number), timeout=METADATA_TIMEOUT_SECONDS
        )
        return bounds

    def _jumps(self, consumer: Any) -> bool:
        """Skip what nobody can watch any more; it is counted all the same."""
        jumped = False
        for (topic, number), offset in self._next.items():
            if topic not in DATA_TOPICS:
                continue
            low, end = self._bounds(consumer, topic, number)
            if end < offset or offset < low or end - offset > SKIP_BEHIND:
                target = max(low, end - DATA_BACK)
                self._skipped[topic] = self._skipped.get(topic, 0) + max(0, target - offset)
                self._next[topic, number] = target
                jumped = True
        return jumped

    def _poll(self, consumer: Any, loop: asyncio.AbstractEventLoop) -> None:
        messages = consumer.consume(MAX_MESSAGES, POLL_SECONDS)
        batch = self._parse(messages)
        if not (
            batch.counts or batch.sightings or batch.alarms or batch.incidents or batch.commands
        ):
            return
        while not self._underway.acquire(timeout=0.5):
            if self._stop.is_set():
                return
        try:
            loop.call_soon_threadsafe(self._hand_over, batch)
        except RuntimeError:  # the loop has closed before us
            self._stop.set()

    def _hand_over(self, batch: TailBatch) -> None:
        self._underway.release()
        self._deliver(batch)

    def _parse(self, messages: list[Any]) -> TailBatch:
        batch = TailBatch(counts=self._skipped)
        self._skipped = {}
        records: list[Any] = []
        for message in messages:
            if message.error() is not None:
                continue
            topic = message.topic()
            self._next[topic, message.partition()] = message.offset() + 1
            if topic in DATA_TOPICS:
                if message.offset() >= self._new_from.get((topic, message.partition()), 0):
                    batch.counts[topic] = batch.counts.get(topic, 0) + 1
                records.append(message)
            else:
                _event(batch, topic, message)
        for message in records[-self._affordable(len(records)) :] if records else ():
            seen = self._sighting(message)
            if seen is not None:
                batch.sightings.append(seen)
        return batch

    def _affordable(self, wanted: int) -> int:
        """How many of these records may be looked into (a token bucket of one second)."""
        now = time.monotonic()
        gained = (now - self._budget_at) * self._budget_per_second
        self._budget = min(float(self._budget_per_second), self._budget + gained)
        self._budget_at = now
        granted = max(1, min(wanted, int(self._budget)))
        self._budget -= granted
        return granted

    def _sighting(self, message: Any) -> Sighting | None:
        headers = dict(message.headers() or ())
        record_id = headers.get(RECORD_ID) or b""
        coordinates = f"{message.topic()}-{message.partition()}-{message.offset()}"
        return sighting(
            message.topic(),
            message.value(),
            record_id=record_id.decode("utf-8", "replace") or coordinates,
            received_at_ms=message.timestamp()[1],
            zone=self._zone,
        )


def _event(batch: TailBatch, topic: str, message: Any) -> None:
    value = message.value()
    if topic == CONTROL_WATCHLIST:
        rule_id = (message.key() or b"").decode("utf-8", "replace")
        command = decode_command(value) if value is not None else None
        if value is None or command is not None:
            batch.commands.append((rule_id, command))
        return
    try:
        if topic == EVENT_ALARM:
            batch.alarms.append(msgspec.json.decode(value or b"", type=Alarm))
        else:
            batch.incidents.append(msgspec.json.decode(value or b"", type=Incident))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s at %d is no event: %s", topic, message.offset(), error)
