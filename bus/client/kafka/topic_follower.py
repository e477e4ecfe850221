"""Follows the ids and ends of some topics, for every reader of ours that goes on by itself when one
is deleted, made anew or grows. Core: `FollowedTopics`.

In: the bus, names of topics. Out: what changed since a reader began, and what it has not read.
Never: records; a word while no broker answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from bus.client.followed_topics import FollowedTopics, UnreadRecords
from bus.client.kafka.cluster import (
    AdminClient,
    ClusterUnavailable,
    admin_client,
    describe_existing,
    end_offsets,
)
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.client.wire.topic_ids import TopicIds
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

log = logging.getLogger(__name__)

EVERY_S = 0.5
POLLS_PER_END = 2  # the ends of all partitions cost more than the ids of their topics
TIMEOUT_S = 2.0  # how long a look is waited for
STOP_S = TIMEOUT_S + 1.0
CLIENT_ID = "databus-topics"


class TopicFollower:
    """One thread, from `start` to `close`, asks; any thread may ask it.

    Invariant: `_condition` guards all but the two clients, which are of the thread that looks."""

    def __init__(self, bus: BusSettings, topics: Iterable[str], *, with_ends: bool = True) -> None:
        """`with_ends`: whether anybody will ask for what was not read."""
        self._bus = bus
        self._topics = sorted(set(topics))
        self._ids = TopicIds(bus, CLIENT_ID)
        self._leaders = PartitionLeaders(bus, CLIENT_ID) if with_ends else None
        self._admin: AdminClient | None = None
        self._condition = threading.Condition()
        self._known: FollowedTopics | None = None
        self._begun = self._ended = self._wanted = 0  # looks; the last that somebody waits for
        self._failure = "no broker has answered yet"  # of the look that ended last
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)

    def start(self) -> TopicFollower:
        """Begin to ask."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Ask no more."""
        self._stopping.set()
        with self._condition:
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join(STOP_S)
        self._ids.close()
        if self._leaders is not None:
            self._leaders.close()

    @property
    def identity(self) -> ClusterIdentity | None:
        """The topics that there are, by the newest look; None before the first."""
        with self._condition:
            return self._known.identity if self._known else None

    def changed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that are not those that a reader began with: others, gone, or there
        at last. By the newest look."""
        with self._condition:
            return self._known.changed(known, topics) if self._known else frozenset()

    def renewed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that are there and that a reader has to read anew, or more
        partitions of. By the newest look."""
        with self._condition:
            return self._known.renewed(known, topics) if self._known else frozenset()

    def renewals(self) -> Callable[[], frozenset[str]]:
        """For one that begins to read now: what he has to begin anew, by the newest look."""
        begun = self.identity

        def renewed() -> frozenset[str]:
            nonlocal begun
            if begun is None:  # nobody has answered yet
                begun = self.identity
                return frozenset()
            return self.renewed(begun, self._topics)

        return renewed

    def refresh(self, timeout_s: float = TIMEOUT_S) -> None:
        """What there is now: waits for a look that begins from here on. Raises
        `ClusterUnavailable`, also where it has not ended in time."""
        if not self._thread.is_alive():
            self._poll()
            return
        deadline = time.monotonic() + timeout_s
        with self._condition:
            wanted = self._wanted = self._begun + 1
            self._condition.notify_all()
            while self._ended < wanted:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or self._stopping.is_set():
                    raise ClusterUnavailable(f"no broker has answered within {timeout_s:g} s")
                self._condition.wait(left_s)
            if self._failure:
                raise ClusterUnavailable(self._failure)

    def unread(
        self, topic: str, topic_id: str, positions: Mapping[TopicAndPartition, int]
    ) -> UnreadRecords:
        """Of a topic that is gone, what a reader with these positions has not read."""
        with self._condition:
            if self._known is None:
                return UnreadRecords({}, False)
            return self._known.unread(topic, topic_id, positions)

    def is_read(
        self,
        topic: str,
        topic_id: str,
        positions: Mapping[TopicAndPartition, int],
        since_s: float,
    ) -> bool:
        """Whether a reader with these positions has all that stood there when a look asked for the
        ends, at `since_s` (`time.monotonic`) or later."""
        with self._condition:
            return self._known is not None and self._known.is_read(
                topic, topic_id, positions, since_s
            )

    def _run(self) -> None:
        polls = 0
        while not self._stopping.is_set():
            if self._poll_for_all():
                if polls % POLLS_PER_END == 0:
                    self._why_failed(self._poll_ends)
                polls += 1
            with self._condition:
                if self._wanted <= self._begun and not self._stopping.is_set():
                    self._condition.wait(EVERY_S)

    def _poll_for_all(self) -> bool:
        """Whoever waits for a look goes on when it has ended. Returns whether it has seen them."""
        with self._condition:
            self._begun += 1
        failure = self._why_failed(self._poll)
        with self._condition:
            self._ended, self._failure = self._begun, failure
            self._condition.notify_all()
        return not failure

    @staticmethod
    def _why_failed(poll: Callable[[], None]) -> str:
        """Empty: it has not."""
        try:
            poll()
        except ClusterUnavailable as error:
            log.debug("topics are followed later: %s", error)
            return str(error) or "no broker answers"
        return ""

    def _poll(self) -> None:
        found = self._existing()
        with self._condition:
            self._observe(found)

    def _poll_ends(self) -> None:
        """Ends count for the topic that stood there before and after they were asked, and that has
        no partition whose end is not known."""
        before, leaders = self.identity, self._leaders
        if before is None or leaders is None:
            return
        asked_s = time.monotonic()
        ends = self._end_offsets(leaders, before.partitions)
        after = self._existing()
        unknown = {topic for topic, number in before.partitions if (topic, number) not in ends}
        same = {t for t, topic_id in after.topic_ids.items() if before.topic_ids.get(t) == topic_id}
        with self._condition:
            self._observe(after)
            if self._known is not None:
                of_same = {tp: end for tp, end in ends.items() if tp[0] in same - unknown}
                self._known.observe_ends(of_same, asked_s)

    def _existing(self) -> ClusterIdentity:
        try:
            return self._ids.existing(self._topics)
        except BusError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise ClusterUnavailable(str(error)) from error
        return describe_existing(self._librdkafka(), self._topics, TIMEOUT_S, self.identity)

    def _end_offsets(
        self, leaders: PartitionLeaders, places: Sequence[TopicAndPartition]
    ) -> Mapping[TopicAndPartition, int]:
        try:
            return leaders.end_offsets(places)
        except BusError:  # SECURITY_DISABLED
            return end_offsets(self._librdkafka(), places, TIMEOUT_S)

    def _librdkafka(self) -> AdminClient:
        """It logs in by more mechanisms than our own client."""
        if self._admin is None:
            self._admin = admin_client(self._bus)
        return self._admin

    def _observe(self, found: ClusterIdentity) -> None:
        if self._known is None:
            self._known = FollowedTopics(found)
        self._known.observe(found, time.monotonic())


def refreshed_follower(bus: BusSettings, topics: Iterable[str]) -> TopicFollower:
    """One without ends, before reading begins: what is made anew from now on is known. Raises
    BusError."""
    try:
        found = TopicFollower(bus, topics, with_ends=False)
        found.refresh()
    except ClusterUnavailable as error:
        raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error
    return found.start()
