"""One of the console's two consumers, each in a thread of its own: `RECORDS` reads the data topics,
and may skip records; `EVENTS` reads alarms, incidents, watch list and tails, and skips none.

They are two because brokers answer the requests of a connection one after the other: an alarm
would wait for an answer that waits for records, and for each look at where the data topics end
(ADR 0099). Hands batches to the loop by `call_soon_threadsafe`; at most `MAX_BATCHES_UNDERWAY` wait
there. It uses no group and no commit.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import msgspec

from bus.client.followed_topics import renewed_positions
from bus.client.kafka.cluster import ClusterUnavailable
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.message import KafkaMessage
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, TopicAndPartition, TopicPartition
from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.commands import DecidedRule
from bus.contracts.diverged_ranges import DivergedRange, decode_diverged_range
from bus.contracts.headers import RECORD_ID
from bus.contracts.proposals import BesideRules, beside_rules
from bus.contracts.topics import (
    CONTROL_MIRROR_TAILS,
    EVENT_ALARM,
    EVENT_INCIDENT,
    STATE_ALARM,
    STATE_WATCHLIST,
)
from bus.domain.alarm_life import alarm_state
from bus.domain.kinds import KIND_OF_TOPIC
from bus.errors import BusError
from bus.settings import BusSettings
from monitor.live.live_record import LiveRecord, parse_live_record
from monitor.live.recent_reads import RecentReads
from monitor.live.rule_table import decode_command

log = logging.getLogger(__name__)

MAX_BATCHES_UNDERWAY = 8  # towards a busy loop; then records are counted and dropped, events wait
MAX_MESSAGES = 1000  # of one poll
POLL_SECONDS = 0.1
REFRESH_SECONDS = 5.0  # between two looks at which partitions there are
SKIP_BEHIND = 20_000  # messages behind the end of a data partition: jump, a live page has no past
DATA_BACK = 20  # records per partition shown when a console starts
EVENTS_BACK = 300  # alarms and incidents read back when a console starts
METADATA_TIMEOUT_SECONDS = 3.0
_WHOLE = (STATE_WATCHLIST, CONTROL_MIRROR_TAILS)  # the state is the whole topic
_OVERRIDES = {
    **FOLLOWS_LEADERS,
    "enable.partition.eof": False,
    "queued.max.messages.kbytes": 8192,
    "fetch.message.max.bytes": 1 << 20,  # the page shows the newest records, not a backlog
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 2000,
    "log_level": 0,
}


@dataclass(frozen=True)
class LiveSource:
    """What one consumer reads, and how. `is_awaited`: somebody waits for each message, so that it
    is handed on as soon as it is there."""

    name: str
    topics: tuple[str, ...]
    is_awaited: bool
    overrides: Mapping[str, object] = field(default_factory=dict)


RECORDS = LiveSource(
    "records",
    tuple(KIND_OF_TOPIC),
    is_awaited=False,
    overrides={
        "fetch.queue.backoff.ms": 1000,
        # A page is told four times a second. An answer for each record that arrives, instead of
        # ten a second, took a tenth of a core from the brokers at 500 records a second.
        "fetch.min.bytes": 1 << 16,
    },
)
EVENTS = LiveSource(
    "events", (EVENT_ALARM, EVENT_INCIDENT, STATE_ALARM, *_WHOLE), is_awaited=True
)


class LiveBatch(msgspec.Struct, kw_only=True):
    """What one poll brought, parsed. `commands` pairs rule id with the command, None for a
    tombstone. `recreated`: topics whose former state holds no longer.
    """

    counts: dict[str, int] = {}
    records: list[LiveRecord] = []
    alarms: list[Alarm] = []
    incidents: list[Incident] = []
    alarm_states: list[AlarmState] = []
    commands: list[tuple[str, DecidedRule | None]] = []
    beside_rules: list[BesideRules] = []
    diverged_ranges: list[DivergedRange] = []
    recreated: list[str] = []

    @property
    def is_empty(self) -> bool:
        """Nothing to deliver."""
        events = (
            self.alarms or self.incidents or self.commands or self.beside_rules
            or self.alarm_states
        )  # fmt: skip
        states = self.diverged_ranges or self.recreated
        return not (self.counts or self.records or events or states)


class LiveConsumer:
    """Invariant: `_next` holds the next offset of every assigned partition, `_gone` that of those
    whose topic was not there when last looked at."""

    def __init__(
        self,
        bus: BusSettings,
        source: LiveSource,
        zone: ZoneInfo,
        deliver: Callable[[LiveBatch], None],
        *,
        decoded_per_second: int,
    ) -> None:
        self.unavailable = "not connected yet"  # empty = the broker answers
        self._bus, self._servers = bus, bus.bootstrap_servers
        self._source = source
        self._zone = zone
        self._deliver = deliver
        self._budget_per_second = decoded_per_second
        self._budget = float(decoded_per_second)
        self._budget_at = time.monotonic()
        self._next: dict[TopicPartition, int] = {}
        self._gone: dict[TopicPartition, int] = {}
        self._skipped: dict[str, int] = {}
        self._new_from: dict[TopicPartition, int] = {}
        self._recent = RecentReads()
        self._recreated: list[str] = []
        self._stop = threading.Event()
        self._underway = threading.BoundedSemaphore(MAX_BATCHES_UNDERWAY)
        self._thread: threading.Thread | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread."""
        self._thread = threading.Thread(
            target=self._run, args=(loop,), name=f"console-{self._source.name}", daemon=True
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
            self._bus,
            client_id=f"databus-console-{self._source.name}",
            group="console-tail",  # librdkafka wants one; nothing is committed under it
            timeout_s=METADATA_TIMEOUT_SECONDS,
            overrides={**_OVERRIDES, **self._source.overrides},
            on_all_brokers_down=lambda text: self._set_unavailable(f"{self._servers}: {text}"),
        )
        refreshed_at = -REFRESH_SECONDS
        topics = TopicFollower(self._bus, self._source.topics).start()
        known: ClusterIdentity | None = None
        try:
            while not self._stop.is_set():
                known = self._restart_recreated(consumer, topics, known)
                if time.monotonic() - refreshed_at >= REFRESH_SECONDS:
                    self._refresh_assignment(consumer, topics, known)
                    refreshed_at = time.monotonic()
                if not self._next:
                    self._stop.wait(0.5)
                    refreshed_at = -REFRESH_SECONDS
                    continue
                try:
                    self._poll(consumer, loop)
                except BusError as error:
                    self._set_unavailable(f"{self._servers}: {error.detail}")
                    self._stop.wait(0.5)
        finally:
            topics.close()
            consumer.close()

    def _restart_recreated(
        self, consumer: Consumer, topics: TopicFollower, known: ClusterIdentity | None
    ) -> ClusterIdentity | None:
        """Topics that were made anew are read from their start, and counted from there; of those
        that are a state, nothing of the former one holds; of all others it is said what was not
        read. Returns what is read by now."""
        now = topics.identity
        self._recent.on_identity(now)
        if known is None or now is None:
            return known or now
        for topic, since_s in self._recent.reread_since.items():
            read: dict[TopicAndPartition, int] = dict(self._next.items())
            if topics.is_read(topic, known.topic_ids.get(topic, ""), read, since_s):
                self._recent.on_end_reached(topic)
        if not (renewed := topics.renewed(known, self._source.topics)):
            return known
        before, self._next = self._next, renewed_positions(
            self._next, known, now, renewed, TopicPartition
        )
        self._new_from = {
            place: first for place, first in self._new_from.items()
            if before.get(place) == self._next.get(place)
        }  # fmt: skip
        recreated = [
            topic for topic in sorted(renewed)
            if known.topic_ids.get(topic, now.topic_ids[topic]) != now.topic_ids[topic]
        ]  # fmt: skip
        self._recreated += [topic for topic in recreated if topic in _WHOLE]
        self._note_unread(topics, known, recreated, self._recent.furthest(before))
        self._recent.on_recreated(recreated, time.monotonic())
        consumer.assign(self._next)
        return known.with_topics_of(now, renewed)

    def _note_unread(
        self,
        topics: TopicFollower,
        known: ClusterIdentity,
        recreated: Iterable[str],
        positions: dict[TopicPartition, int],
    ) -> None:
        """Once for each topic that is gone."""
        read: dict[TopicAndPartition, int] = {
            at: max(n, self._gone.get(at, 0)) for at, n in (self._gone | positions).items()
        }
        for topic in recreated:
            if topic in _WHOLE:
                log.warning("console: %s was made anew: it says its state again", topic)
                continue
            unread = topics.unread(topic, known.topic_ids[topic], read)
            read_before = self._recent.read_beyond(topic, read)
            count = max(0, sum(unread.counts.values()) - read_before)
            is_exact = unread.is_all and not read_before
            if count or not is_exact:
                log.warning(
                    "console: %s was made anew: %s%d records of the former one were not shown",
                    topic, "" if is_exact else "at least ", count,
                )  # fmt: skip
        self._gone = {at: n for at, n in self._gone.items() if at.topic not in recreated}

    def _set_unavailable(self, away: str) -> None:
        if bool(away) != bool(self.unavailable):
            log.info("the bus is away: %s", away) if away else log.info("the bus answers")
        self.unavailable = away

    def _refresh_assignment(
        self, consumer: Consumer, topics: TopicFollower, known: ClusterIdentity | None
    ) -> None:
        """Assign partitions to begin with, jump where a data partition is too far behind. What has
        come since is `_restart_recreated`'s."""
        try:
            there = consumer.partitions_of_all(self._source.topics)
            self._drop_deleted(there)
            missing = there - self._next.keys()
            recreated = self._recreated_since(topics, known, missing)
            changed = [
                key for key in sorted(missing)
                if key.topic not in recreated and (known is None or key in known.partitions)
            ]  # fmt: skip
            for key in changed:
                back = self._gone.pop(key, None)
                self._next[key] = self._first_offset(consumer, key) if back is None else back
            jumped = self._jumps(consumer)
            if changed or jumped:
                consumer.assign(self._next)
            self._set_unavailable("")
        except BusError as error:
            self._set_unavailable(f"{self._servers}: {error.detail}")

    def _recreated_since(
        self, topics: TopicFollower, known: ClusterIdentity | None, missing: set[TopicPartition]
    ) -> frozenset[str]:
        """Of topics that were gone and are there, those that are other ones; all of them where
        nobody says so just now."""
        back = frozenset(key.topic for key in missing if key in self._gone)
        if not back or known is None:
            return frozenset()
        try:
            topics.refresh()
        except ClusterUnavailable:
            return back
        return topics.renewed(known, back)

    def _drop_deleted(self, there: set[TopicPartition]) -> None:
        for key in [key for key in self._next if key not in there]:
            self._gone[key] = self._next.pop(key)

    def _first_offset(self, consumer: Consumer, place: TopicPartition) -> int:
        if place.topic in _WHOLE:
            return BEGINNING
        low, end = consumer.bounds(place)
        self._new_from[place] = end  # what is shown from before is not counted as passing
        return max(low, end - (DATA_BACK if place.topic in KIND_OF_TOPIC else EVENTS_BACK))

    def _jumps(self, consumer: Consumer) -> bool:
        """Skip what is too old for a live page; it is counted all the same."""
        jumped = False
        for place, offset in self._next.items():
            topic = place.topic
            if topic not in KIND_OF_TOPIC:
                continue
            low, end = consumer.bounds(place)
            if end < offset or offset < low or end - offset > SKIP_BEHIND:
                target = max(low, end - DATA_BACK)
                self._skipped[topic] = self._skipped.get(topic, 0) + max(0, target - offset)
                self._next[place] = target
                jumped = True
        return jumped

    def _poll(self, consumer: Consumer, loop: asyncio.AbstractEventLoop) -> None:
        messages = consumer.poll_messages(
            MAX_MESSAGES, POLL_SECONDS, fills=not self._source.is_awaited
        )
        batch = self._parse(messages)
        if batch.is_empty:
            return
        while not self._underway.acquire(timeout=0.5):
            if self._stop.is_set():
                return
        try:
            loop.call_soon_threadsafe(self._deliver_batch, batch)
        except RuntimeError:  # the loop has closed before us
            self._stop.set()

    def _deliver_batch(self, batch: LiveBatch) -> None:
        self._underway.release()
        self._deliver(batch)

    def _parse(self, messages: list[KafkaMessage]) -> LiveBatch:
        batch = LiveBatch(counts=self._skipped, recreated=self._recreated)
        self._skipped, self._recreated = {}, []
        records: list[KafkaMessage] = []
        for message in messages:
            if message.error() is not None:
                continue
            topic = message.topic()
            place = TopicPartition(topic, message.partition())
            self._next[place] = message.offset() + 1
            if not self._recent.is_first(place, message.offset(), message.timestamp()[1]):
                continue
            if topic in KIND_OF_TOPIC:
                if message.offset() >= self._new_from.get(place, 0):
                    batch.counts[topic] = batch.counts.get(topic, 0) + 1
                records.append(message)
            else:
                _event(batch, topic, message)
        for message in records[-self._take_budget(len(records)) :] if records else ():
            seen = self._live_record(message)
            if seen is not None:
                batch.records.append(seen)
        return batch

    def _take_budget(self, wanted: int) -> int:
        """How many of these records may be looked into (a token bucket of one second)."""
        now = time.monotonic()
        gained = (now - self._budget_at) * self._budget_per_second
        self._budget = min(float(self._budget_per_second), self._budget + gained)
        self._budget_at = now
        granted = max(1, min(wanted, int(self._budget)))
        self._budget -= granted
        return granted

    def _live_record(self, message: KafkaMessage) -> LiveRecord | None:
        headers = dict(message.headers() or ())
        record_id = headers.get(RECORD_ID) or b""
        coordinates = f"{message.topic()}-{message.partition()}-{message.offset()}"
        return parse_live_record(
            message.topic(),
            message.value(),
            record_id=record_id.decode("utf-8", "replace") or coordinates,
            received_at_ms=message.timestamp()[1],
            zone=self._zone,
        )


def _event(batch: LiveBatch, topic: str, message: KafkaMessage) -> None:
    value = message.value()
    if topic == STATE_WATCHLIST:
        rule_id = (message.key() or b"").decode("utf-8", "replace")
        command = decode_command(value) if value is not None else None
        if value is None or command is not None:
            batch.commands.append((rule_id, command))
        elif (beside := beside_rules(value)) is not None:
            batch.beside_rules.append(beside)
        return
    if topic == STATE_ALARM:
        state = alarm_state(value or b"")
        if state is not None:
            batch.alarm_states.append(state)
        return
    if topic == CONTROL_MIRROR_TAILS:
        part = decode_diverged_range(value)
        if part is not None:
            batch.diverged_ranges.append(part)
        return
    try:
        if topic == EVENT_ALARM:
            batch.alarms.append(msgspec.json.decode(value or b"", type=Alarm))
        else:
            batch.incidents.append(msgspec.json.decode(value or b"", type=Incident))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        log.warning("%s at %d is no event: %s", topic, message.offset(), error)
