"""Reads a topic to its end, again and again: for what must be known before something is decided.

Uses no group and stores no positions. The end is asked over connections of our own: on the
consumer's, the question would wait behind the fetch that waits for new records (up to half a
second), and librdkafka's admin client asks a leader that has died until it is back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bus.client.kafka.cluster import AdminClient, ClusterUnavailable, end_offsets
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, ConsumedRecord, TopicAndPartition, TopicPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.errors import BusError
from bus.settings import BusSettings

CATCH_UP_TIMEOUT_S = 60.0  # a million records take ten seconds; a broker may restart meanwhile
MAX_POLLED = 1000
ELECTION_S = 0.02  # between two questions who leads now, while an election is under way

log = logging.getLogger(__name__)

Offsets = dict[TopicAndPartition, int]


class CatchUpTimeout(Exception):
    """The topic could not be read to its end; what waits for it must wait."""


class TopicReader:
    """A reader of some topics. One thread at a time. A topic that was made anew is read from its
    start, one that is gone has nothing to read.

    Invariant: `_ends` holds the next offset of each partition of `_known`.
    """

    def __init__(
        self,
        bus: BusSettings,
        admin: AdminClient,
        partitions: Sequence[TopicAndPartition],
        first_offsets: Callable[[AdminClient, Sequence[TopicAndPartition]], Offsets],
        *,
        client_id: str,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
        on_replaced: Callable[[], None] = lambda: None,
    ) -> None:
        """`first_offsets` says where reading begins; `on_replaced` is called before a topic that
        was made anew is read from its start. Raises `CatchUpTimeout`."""
        self._stopping = stopping or threading.Event()
        self._timeout_s = timeout_s
        self._admin = admin
        self._partitions = list(partitions)
        self._on_replaced = on_replaced
        self._begun = False
        self._ends = self._ask(first_offsets)
        self._leaders: PartitionLeaders | None = PartitionLeaders(bus, f"{client_id}-ends")
        self._topics = sorted({topic for topic, _ in partitions})
        self._follower = TopicFollower(bus, self._topics, with_ends=False)
        self._known = self._identity()
        self._follower.start()
        self._begun = True
        self._consumer = Consumer(bus, client_id=client_id, overrides=FOLLOWS_LEADERS)
        self._consumer.assign(
            {TopicPartition(*partition): end for partition, end in self._ends.items()}
        )

    def read_to_end(self) -> Iterator[ConsumedRecord]:
        """Every record that was on the topic when this was called and has not been given yet.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile.
        """
        wanted = self._wanted()
        deadline = time.monotonic() + self._timeout_s
        while any(self._ends.get(partition, end) < end for partition, end in wanted.items()):
            if self._renew() or self._is_gone():
                wanted = self._wanted()
                continue
            if time.monotonic() > deadline or self._stopping.is_set():
                raise CatchUpTimeout(f"read to {self._ends}, wanted {wanted}")
            for record in self._consumer.poll(MAX_POLLED, 0.5):
                self._ends[record.topic, record.partition] = record.offset + 1
                yield record

    def read_what_came(self) -> Iterator[ConsumedRecord]:
        """What has been fetched by now, and no question to anybody: it may not be all there is."""
        self._renew()
        while records := self._consumer.poll(MAX_POLLED, 0):
            for record in records:
                self._ends[record.topic, record.partition] = record.offset + 1
                yield record

    def close(self) -> None:
        """Leave."""
        self._follower.close()
        if self._leaders is not None:
            self._leaders.close()
        self._consumer.close()

    def _wanted(self) -> Offsets:
        """How far to read; nowhere while the topic is gone."""
        ends = self._ends_now()
        if any(end < self._ends.get(place, 0) for place, end in ends.items()):
            self._look()  # another topic already, or its log was cut
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
                found |= self._leaders.end_offsets([p for p in self._partitions if p not in found])
            except BusError as error:
                log.info("%s; ends are asked by librdkafka", error)
                self._leaders = None  # that one logs in by more mechanisms than our own client
                break
            if len(found) == len(self._partitions):
                return found
            if time.monotonic() > deadline or self._stopping.wait(ELECTION_S):
                raise CatchUpTimeout(f"ends of {self._partitions}: {self._leaders.failure}")
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
        kept = {place: end for place, end in self._ends.items() if place[0] not in replaced}
        self._partitions = list(self._known.partitions)
        self._ends = {place: kept.get(place, 0) for place in self._partitions}
        self._consumer.assign({TopicPartition(*place): end for place, end in self._ends.items()})
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
            self._look()
            if (found := self._follower.identity) is not None and found.topic_ids:
                return found
            if time.monotonic() > deadline or self._stopping.wait(0.1):
                raise CatchUpTimeout(f"{', '.join(self._topics)}: not there")

    def _look(self) -> None:
        with suppress(ClusterUnavailable):  # what was known last holds
            self._follower.refresh()

    def _ask(
        self, offsets: Callable[[AdminClient, Sequence[TopicAndPartition]], Offsets]
    ) -> Offsets:
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return offsets(self._admin, self._partitions)
            except ClusterUnavailable as error:
                if self._begun and self._is_gone():
                    return {}
                if time.monotonic() > deadline or self._stopping.wait(0.1):
                    raise CatchUpTimeout(str(error)) from error
