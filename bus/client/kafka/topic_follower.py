"""Follows the ids and ends of some topics, for every reader of ours that goes on by itself when one
is deleted, made anew or grows. Core: `FollowedTopics`.

In: the bus, names of topics. Out: what changed since a reader began, and what it has not read.
Never: records; a word while no broker answers.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from bus.client.followed_topics import FollowedTopics, UnreadRecords
from bus.client.kafka.cluster import (
    AdminClient,
    ClusterUnavailable,
    admin_client,
    describe_existing,
    end_offsets,
)
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

log = logging.getLogger(__name__)

EVERY_S = 0.5
LOOKS_PER_END = 2  # the ends of all partitions cost more than the ids of their topics
TIMEOUT_S = 2.0  # of one question; a dead leader keeps nobody from hearing of the others
STOP_S = TIMEOUT_S + 1.0


class TopicFollower:
    """One thread, from `start` to `close`. Any thread may ask it."""

    def __init__(self, bus: BusSettings, topics: Iterable[str], *, with_ends: bool = True) -> None:
        """Raises `ClusterUnavailable` where librdkafka refuses a setting. `with_ends`: whether
        anybody will ask for what was not read."""
        self._admin: AdminClient = admin_client(bus)
        self._topics = sorted(set(topics))
        self._with_ends = with_ends
        self._lock = threading.Lock()
        self._known: FollowedTopics | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)

    def start(self) -> TopicFollower:
        """Begin to ask."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Ask no more."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    @property
    def identity(self) -> ClusterIdentity | None:
        """The topics that there are, by the newest look; None before the first."""
        with self._lock:
            return self._known.identity if self._known else None

    def changed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that are not those that a reader began with: others, gone, or there
        at last. By the newest look."""
        with self._lock:
            return self._known.changed(known, topics) if self._known else frozenset()

    def renewed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that are there and that a reader has to read anew, or more
        partitions of. By the newest look."""
        with self._lock:
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
        """Ask now. Raises `ClusterUnavailable`, also where no broker answers in time."""
        found = describe_existing(self._admin, self._topics, timeout_s, self.identity)
        with self._lock:
            self._observe(found)

    def unread(
        self, topic: str, topic_id: str, positions: Mapping[TopicAndPartition, int]
    ) -> UnreadRecords:
        """Of a topic that is gone, what a reader with these positions has not read."""
        with self._lock:
            if self._known is None:
                return UnreadRecords({}, False)
            return self._known.unread(topic, topic_id, positions)

    def _run(self) -> None:
        looks = 0
        while not self._stopping.is_set():
            try:
                self.refresh()
                if self._with_ends and looks % LOOKS_PER_END == 0:
                    self._look_at_ends()
                looks += 1
            except ClusterUnavailable as error:
                log.debug("topics are followed later: %s", error)
            self._stopping.wait(EVERY_S)

    def _look_at_ends(self) -> None:
        """Ends count for the topic that stood there before and after they were asked."""
        before = self.identity
        if before is None:
            return
        ends = end_offsets(self._admin, before.partitions, TIMEOUT_S)
        after = describe_existing(self._admin, self._topics, TIMEOUT_S, before)
        same = {t for t, topic_id in after.topic_ids.items() if before.topic_ids.get(t) == topic_id}
        with self._lock:
            self._observe(after)
            if self._known is not None:
                of_same = {place: end for place, end in ends.items() if place[0] in same}
                self._known.observe_ends(of_same, time.monotonic())

    def _observe(self, found: ClusterIdentity) -> None:
        if self._known is None:
            self._known = FollowedTopics(found)
        self._known.observe(found, time.monotonic())


def follower_that_looked(bus: BusSettings, topics: Iterable[str]) -> TopicFollower:
    """One without ends, before reading begins: what is made anew from now on is known. Raises
    BusError."""
    try:
        found = TopicFollower(bus, topics, with_ends=False)
        found.refresh()
    except ClusterUnavailable as error:
        raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from error
    return found.start()
