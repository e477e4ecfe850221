"""Reads topics whole: to their ends, again and again, or what comes.

In: topics, where reading begins. Out: every record from there, each once; of a topic that was made
anew, those of the new one. Never: a group, a stored position, a wait without a limit.

Where the ends are asked often, they are asked over connections of our own (`PartitionLeaders`): on
the consumer's, the question would wait behind the fetch that waits for new records (up to half a
second), and librdkafka's admin client asks a leader that has died until it is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from bus.client.kafka.cluster import (
    AdminClient,
    ClusterUnavailable,
    admin_client,
    end_offsets,
)
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicAndPartition, TopicPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

CATCH_UP_TIMEOUT_S = 60.0  # a million records take ten seconds; a broker may restart meanwhile
MAX_POLLED = 1000
MAX_POLLS = 100  # of what came in one call; the rest waits for the next one
ELECTION_S = 0.02  # between two questions who leads now, while an election is under way

log = logging.getLogger(__name__)

Offsets = dict[TopicAndPartition, int]
FirstOffsets = Callable[[AdminClient, Sequence[TopicAndPartition]], Offsets]


class CatchUpTimeout(Exception):
    """The topic could not be read to its end; what waits for it must wait."""


class TopicMissing(CatchUpTimeout):
    """The brokers answer, and there is no such topic."""


class TopicReader:
    """A reader of some topics. One thread at a time. A topic that was made anew is read from its
    start, one that is gone has nothing to read.

    Invariant: `_positions` holds the next offset of each partition of `_known`.
    """

    def __init__(
        self,
        bus: BusSettings,
        topics: Collection[str],
        first_offsets: FirstOffsets | None,
        *,
        client_id: str,
        leaders: PartitionLeaders | None = None,
        overrides: Mapping[str, object] | None = None,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`first_offsets` says where reading begins; None: at the beginning, and nobody is asked
        where that is. `on_replaced` is called before a topic that was made anew is read from its
        start. `leaders` are closed with it. Raises `CatchUpTimeout` where the topics cannot be
        had in time, BusError for a setting."""
        self._stopping = stopping or threading.Event()
        self._timeout_s = timeout_s
        self._on_replaced = on_replaced
        self._leaders = leaders
        self._bus = bus
        self._admin: AdminClient | None = None
        self._topics = sorted(topics)
        self._follower = TopicFollower(bus, self._topics, with_ends=False)
        self._begun = False
        try:
            self._known = self._identity()
            self._positions = self._first(first_offsets)
            self._begun = True
            self._consumer = Consumer(bus, client_id=client_id, overrides=overrides)
        except BaseException:
            self._ask_no_more()
            raise
        self._assign()
        self._follower.start()

    def read_to_end(self) -> Iterator[ConsumedRecord]:
        """Every record that was on the topic when this was called and has not been given yet.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile.
        """
        wanted = self._wanted()
        deadline = time.monotonic() + self._timeout_s
        while any(self._positions.get(place, end) < end for place, end in wanted.items()):
            if self._renew() or self._is_gone():
                wanted = self._wanted()
                continue
            if time.monotonic() > deadline or self._stopping.is_set():
                raise CatchUpTimeout(f"read to {self._positions}, wanted {wanted}")
            yield from self._given(self._consumer.poll(MAX_POLLED, 0.5))

    def read_what_came(self, timeout_s: float = 0.0) -> Iterator[ConsumedRecord]:
        """What has been fetched by now, or comes first in that time, and no question to anybody: it
        may not be all there is."""
        self._renew()
        for number in range(MAX_POLLS):
            records = self._consumer.poll(MAX_POLLED, 0.0 if number else timeout_s)
            yield from self._given(records)
            if not records:
                return

    @property
    def at_end(self) -> bool:
        """Whether every partition was read to its end, when last looked at."""
        return self._consumer.at_end

    def close(self) -> None:
        """Leave."""
        self._ask_no_more()
        self._consumer.close()

    def _ask_no_more(self) -> None:
        self._follower.close()
        if self._leaders is not None:
            self._leaders.close()

    def _first(self, first_offsets: FirstOffsets | None) -> Offsets:
        if first_offsets is None:
            return dict.fromkeys(self._known.partitions, BEGINNING)
        return self._ask(first_offsets)

    def _given(self, records: Sequence[ConsumedRecord]) -> Iterator[ConsumedRecord]:
        for record in records:
            self._positions[record.topic, record.partition] = record.offset + 1
            yield record
        # Behind the last record may stand what is none: the mark of a transaction, or what a
        # compaction has left.
        for place, end in self._consumer.ends_met.items():
            if place in self._positions:
                self._positions[place] = max(end, self._positions[place])

    def _assign(self) -> None:
        self._consumer.assign({TopicPartition(*p): at for p, at in self._positions.items()})

    def _wanted(self) -> Offsets:
        """How far to read; nowhere while the topic is gone."""
        ends = self._ends_now()
        if any(end < self._positions.get(place, 0) for place, end in ends.items()):
            self._refresh()  # another topic already, or its log was cut
            if self._renew():
                return self._ends_now()
        return ends

    def _ends_now(self) -> Offsets:
        """Of all partitions. A partition without a leader is asked for until it has one."""
        deadline, found = time.monotonic() + self._timeout_s, Offsets()
        while self._leaders is not None:
            if self._renew():
                found = Offsets()
            if self._is_gone():
                return {}
            try:
                found |= self._leaders.end_offsets([p for p in self._positions if p not in found])
            except BusError as error:
                log.info("%s; ends are asked by librdkafka", error)
                self._leaders = None  # that one logs in by more mechanisms than our own client
                break
            if len(found) == len(self._positions):
                return found
            if time.monotonic() > deadline or self._stopping.wait(ELECTION_S):
                raise CatchUpTimeout(f"ends of {list(self._positions)}: {self._leaders.failure}")
        self._renew()
        return self._ask(end_offsets)

    def _renew(self) -> bool:
        """Read topics from their start that are other ones, and partitions that are new."""
        renewed, now = self._follower.renewed(self._known, self._topics), self._follower.identity
        if not renewed or now is None:
            return False
        before = self._known
        self._known = before.with_topics_of(now, renewed)
        replaced = {t for t in renewed if before.topic_ids.get(t) != now.topic_ids[t]}
        kept = {place: at for place, at in self._positions.items() if place[0] not in replaced}
        self._positions = {place: kept.get(place, 0) for place in self._known.partitions}
        self._assign()
        if replaced:
            log.error("%s: made anew, and read from its start", ", ".join(sorted(replaced)))
            self._on_replaced()
        return True

    def _is_gone(self) -> bool:
        now = self._follower.identity
        changed = self._follower.changed(self._known, self._topics)
        return now is not None and not changed <= now.topic_ids.keys()

    def _identity(self) -> ClusterIdentity:
        """The topics as reading begins. Raises `CatchUpTimeout`."""
        deadline = time.monotonic() + self._timeout_s
        while True:
            why = self._refresh()
            if (found := self._follower.identity) is not None and found.topic_ids:
                return found
            if time.monotonic() > deadline or self._stopping.wait(0.1):
                error = CatchUpTimeout if why else TopicMissing
                raise error(f"{', '.join(self._topics)}: {why or 'not there'}")

    def _refresh(self) -> str:
        """Why the topics are not known just now; what was known last holds."""
        try:
            self._follower.refresh()
        except ClusterUnavailable as error:
            return str(error)
        return ""

    def _ask(self, offsets: FirstOffsets) -> Offsets:
        """Raises `CatchUpTimeout`."""
        deadline = time.monotonic() + self._timeout_s
        if self._admin is None:
            self._admin = _admin(self._bus)
        while True:
            try:
                return offsets(self._admin, self._known.partitions)
            except ClusterUnavailable as error:
                if self._begun and self._is_gone():
                    return {}
                if time.monotonic() > deadline or self._stopping.wait(0.1):
                    raise CatchUpTimeout(str(error)) from error


def _admin(bus: BusSettings) -> AdminClient:
    """Raises BusError where librdkafka refuses a setting."""
    try:
        return admin_client(bus)
    except ClusterUnavailable as error:
        raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error
