"""Carries what people and commands have made at the primary to the other site, as it comes.

In: both sites' addresses. Out: records with the header `mirror-origin` on the other site's topics;
a `StateStatus` of each kind. Core: `dr_mirror.state.plan.site_state`. Never: a wait of the copy for
it; a position of its own: what the other site holds says where it goes on.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.kafka.send_all import send_records
from bus.client.kafka.topic_follower import refreshed_follower
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin, parse_origin
from bus.contracts.mirror_status import StateStatus
from bus.contracts.topics import TOPICS
from bus.errors import BusError, ErrorCode
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from dr_mirror.state.plan.site_state import FLOOR, MAX_KEYS, STATE, Merge, NewestOfKeys, StateKind

log = logging.getLogger(__name__)

CLIENT_ID = "databus-mirror-state"
POLL_S = 0.2
MAX_POLLED = 1_000
RETRY_S = 3.0
AGAIN_S = 30.0
TIMEOUT_S = 10.0
LAST_PASS_S = 5.0
"""For what the former primary still says of alarms when another one has taken over."""
SCANNED = 20_000
"""The newest records of a topic of events among which the last one that was carried is looked for;
without one all are carried, and readers take each once."""
BY_TOPIC: Mapping[str, StateKind] = MappingProxyType({kind.topic: kind for kind in STATE})


class LastReplicated(NamedTuple):
    """A record of the source that the target has: its offset there, and what it says."""

    offset: int
    key: bytes | None
    value: bytes | None


class StateReplicator:
    """One thread, one direction. Invariant: `statuses` are those of its last round."""

    def __init__(
        self,
        source: BusSettings,
        target: BusSettings,
        source_cluster_id: str,
        fenced_ms: Callable[[], int | None],
    ) -> None:
        """Brokers of the primary and of the other site. `fenced_ms`: since when the
        source is no longer the primary; None: it is. What it raises then, the target notifies."""
        self._source = source
        self._target = target
        self._source_cluster_id = source_cluster_id
        self._fenced_ms = fenced_ms
        self._statuses = {
            kind.topic: StateStatus(kind=kind.name, topic=kind.topic) for kind in STATE
        }
        self._too_large: dict[str, str] = {}
        self._stopping = threading.Event()
        self._ends_at_s = 0.0
        self._thread = threading.Thread(target=self._run, name="state", daemon=True)

    @property
    def statuses(self) -> tuple[StateStatus, ...]:
        """In the order of the table."""
        return tuple(self._statuses.values())

    def start(self) -> StateReplicator:
        """Begin to carry."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End, after what the source has by now is carried or `LAST_PASS_S` are over. Returns at
        once: the thread ends by itself."""
        self._ends_at_s = time.monotonic() + LAST_PASS_S
        self._stopping.set()

    @property
    def _is_over(self) -> bool:
        return self._stopping.is_set() and time.monotonic() >= self._ends_at_s

    def _run(self) -> None:
        while not self._is_over:
            try:
                self._replicate()
            except BusError as error:
                log.info("what commands and people have made is carried later: %s", error)
                self._on_problem(str(error))
            if self._stopping.wait(RETRY_S):
                return

    def _replicate(self) -> None:
        """Until stopped, or until a topic of one side is another one, or for a while where the
        source lacks a topic, which may come. Raises BusError."""
        places = self._places()
        again_s = time.monotonic() + (AGAIN_S if len(places) < len(STATE) else math.inf)
        if not places:
            return
        producer = Producer(self._target, client_id=CLIENT_ID, overrides={"linger.ms": 0})
        try:
            names = [place.topic for place in places]
            with (
                closing(refreshed_follower(self._source, names)) as at_source,
                closing(refreshed_follower(self._target, names)) as at_target,
                Consumer(self._target, client_id=CLIENT_ID, timeout_s=TIMEOUT_S) as ours,
                Consumer(self._source, client_id=CLIENT_ID, timeout_s=TIMEOUT_S) as theirs,
            ):
                renewed = at_source.renewals(), at_target.renewals()
                known = {
                    place.topic: NewestOfKeys(BY_TOPIC[place.topic])
                    for place in places if BY_TOPIC[place.topic].merge is Merge.NEWEST
                }  # fmt: skip
                replicated = self._read_replicated(ours, places, known)
                theirs.assign(
                    {place: _start(theirs, place, replicated.get(place.topic)) for place in places}
                )
                is_compared = False
                while not self._is_over and time.monotonic() < again_s:
                    if recreated := renewed[0]() | renewed[1]():
                        log.warning("made anew, carried from the start: %s", sorted(recreated))
                        return
                    for record in ours.poll(MAX_POLLED, 0):
                        _observe(known, record)
                    records = theirs.poll(MAX_POLLED, POLL_S)
                    for due in _floors_last(self._due(records, known)):
                        self._send(producer, due)
                    if theirs.at_end and not is_compared:
                        self._send(producer, _tombstones(known))
                        is_compared = True
                    self._on_round(known, is_caught_up=theirs.at_end)
                    if self._stopping.is_set() and theirs.at_end:
                        return
        finally:
            producer.close(TIMEOUT_S)

    def _places(self) -> list[TopicPartition]:
        """Of the topics that the source has; those that the target lacks are made there."""
        source = Admin(self._source, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        target = Admin(self._target, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        try:
            there = set(source.topic_names())
            found = [
                kind.topic
                for kind in STATE
                if kind.topic in there and kind.topic not in self._too_large
            ]
            target.ensure_topics([TOPICS[name] for name in found])
        finally:
            source.close()
            target.close()
        return [TopicPartition(name, 0) for name in found]

    def _read_replicated(
        self, ours: Consumer, places: list[TopicPartition], known: Mapping[str, NewestOfKeys]
    ) -> dict[str, LastReplicated]:
        """Read what the target has; what was carried last of each topic of events. `ours` goes on
        behind it."""
        ends, begins = {}, {}
        for place in places:
            first, ends[place] = ours.bounds(place)
            is_state = place.topic in known
            begins[place] = first if is_state else max(first, ends[place] - SCANNED)
        ours.assign(begins)
        replicated: dict[str, LastReplicated] = {}
        position = dict(begins)
        deadline = time.monotonic() + TIMEOUT_S
        while any(position[place] < ends[place] for place in places):
            records = ours.poll(MAX_POLLED, POLL_S)
            if not records and ours.at_end:
                break  # the last offsets are markers, or were compacted away
            if records:
                deadline = time.monotonic() + TIMEOUT_S
            elif time.monotonic() > deadline:
                raise BusError(ErrorCode.REQUEST_TIMED_OUT, "the topics of the other site's state")
            for record in records:
                position[TopicPartition(record.topic, record.partition)] = record.offset + 1
                _observe(known, record)
                origin = parse_origin(record.header(MIRROR_ORIGIN))
                is_ours = origin is not None and origin.cluster_id == self._source_cluster_id
                if origin is not None and is_ours and record.topic not in known:
                    found = LastReplicated(origin.offset, record.key, record.value)
                    replicated[record.topic] = found
        return replicated

    def _due(
        self, records: Iterable[ConsumedRecord], known: Mapping[str, NewestOfKeys]
    ) -> list[ConsumedRecord]:
        due = []
        for record in records:
            state, fenced_ms = known.get(record.topic), self._fenced_ms()
            if state is None:
                is_before = fenced_ms is None or record.timestamp_ms < fenced_ms
                is_late_due = BY_TOPIC[record.topic].after_fence
                is_due = (is_before or is_late_due) and record.header(MIRROR_ORIGIN) is None
            else:
                is_due = state.is_due(record, self._source_cluster_id)
            if is_due:
                due.append(self._with_origin(record))
                _observe(known, due[-1])
        return due

    def _with_origin(self, record: ConsumedRecord) -> ConsumedRecord:
        origin = MirrorOrigin(self._source_cluster_id, record.offset)
        return record._replace(headers=[*record.headers, (MIRROR_ORIGIN, origin.value)])

    def _send(self, producer: Producer, due: list[ConsumedRecord]) -> None:
        """All, in their order. Raises BusError: then everything begins again from what is there."""
        send_records(producer, due, TIMEOUT_S)
        for record in due:
            before = self._statuses[record.topic]
            self._statuses[record.topic] = msgspec.structs.replace(
                before, carried=before.carried + 1
            )

    def _on_round(self, known: Mapping[str, NewestOfKeys], *, is_caught_up: bool) -> None:
        """What was read is at the other site. Raises BusError for a topic that is too large, which
        the next pass leaves out."""
        at_ms = now_ms()
        for topic, before in self._statuses.items():
            state = known.get(topic)
            if state is not None and len(state) > MAX_KEYS:
                self._too_large[topic] = f"{topic} has over {MAX_KEYS} keys"
                raise BusError(ErrorCode.POLICY_VIOLATION, self._too_large[topic])
            if topic in self._too_large:
                continue
            newer = len(state.newer_there) if state is not None else 0
            self._statuses[topic] = msgspec.structs.replace(
                before, problem="", newer_there=newer,
                caught_up_ms=at_ms if is_caught_up else before.caught_up_ms,
            )  # fmt: skip

    def _on_problem(self, problem: str) -> None:
        for topic, before in self._statuses.items():
            reason = self._too_large.get(topic, problem)
            self._statuses[topic] = msgspec.structs.replace(before, problem=reason)


def _start(theirs: Consumer, place: TopicPartition, last: LastReplicated | None) -> int:
    """Where to go on at the source: behind what was carried last, if that is what stands there. A
    topic that was made anew has another record at that offset, or ends before it. Raises
    BusError."""
    if last is None:
        return BEGINNING
    theirs.assign({place: last.offset})
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := theirs.poll(1, POLL_S)) and not theirs.at_end:
        if time.monotonic() > deadline:
            raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"what was carried of {place.topic}")
    if not found or found[0].offset < last.offset:  # the client begins anew where nothing stands
        return BEGINNING
    there = LastReplicated(found[0].offset, found[0].key, found[0].value)
    is_same = there.offset > last.offset or there == last  # or its time was over at the source
    return last.offset + 1 if is_same else BEGINNING


def _tombstones(known: Mapping[str, NewestOfKeys]) -> list[ConsumedRecord]:
    """Of what the primary names no longer."""
    found = [
        ConsumedRecord(topic, 0, -1, -1, key, None, [])
        for topic, state in known.items()
        for key in state.not_named()
    ]
    for record in found:
        _observe(known, record)
    return found


def _floors_last(due: list[ConsumedRecord]) -> Iterator[list[ConsumedRecord]]:
    """A version floor only when all before it is acknowledged: what the other site lacks below its
    floor is taken for removed and never carried again."""
    yield [record for record in due if record.key != FLOOR]
    yield [record for record in due if record.key == FLOOR]


def _observe(known: Mapping[str, NewestOfKeys], record: ConsumedRecord) -> None:
    state = known.get(record.topic)
    if state is not None:
        state.on_target(record)
