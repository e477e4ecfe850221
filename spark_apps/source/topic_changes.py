"""Topics that are deleted or made anew under a driver: which queries begin anew, what they lost.

In: the follower of the driver's topics, what the driver stands on. Out: `TopicsReplaced` where a
batch must not count; the topics a query begins anew with. Never: a position of the former topic
taken for one of the new.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from bus.client.followed_topics import UnreadRecords
from bus.client.kafka.cluster import ClusterUnavailable
from bus.client.kafka.topic_follower import TIMEOUT_S, TopicFollower
from bus.client.model import ClusterIdentity, TopicAndPartition

log = logging.getLogger(__name__)

GRACE_S = 3.0
"""A topic that is gone is often made again at once: so long it is waited for before reading goes on
without it."""
POLL_S = 0.1
CONFIRM_S, SILENT_S = 0.3, 0.05
"""How long a batch waits to be confirmed: a look takes a millisecond or two, and one that meets a
broker that has just died must not hold up the alarms of all others. Where the last one had no
answer, the next is not waited for as long again."""
SURE_S = 1.0
"""Where offsets say that a topic is another one: so long after one broker has made it another may
still name the former."""


class TopicsReplaced(Exception):
    """A batch is of a topic that is no longer there; the query begins anew. The text names it."""


class TopicChanges:
    """Of one driver. Invariant: `cluster` is what the driver's queries stand on."""

    def __init__(
        self, cluster: ClusterIdentity, follower: TopicFollower, stopping: threading.Event
    ) -> None:
        self.cluster = cluster
        self._follower = follower
        self._stopping = stopping
        self._is_answered = True

    def changed(self, topics: Iterable[str]) -> frozenset[str]:
        """Those that are other ones by now, or gone, or there at last."""
        return self._follower.changed(self.cluster, topics)

    def confirm(self, topics: Collection[str]) -> None:
        """The records of a batch, which have been read, are of the topics that the driver stands
        on. Raises `TopicsReplaced`. Where no broker answers, what was known last counts."""
        self._is_answered = self._refresh(CONFIRM_S if self._is_answered else SILENT_S)
        if self._is_other(topics):
            raise TopicsReplaced(f"{', '.join(sorted(topics))}: other topics by now")

    def confirm_fallen(self, topics: Collection[str]) -> None:
        """Ends of these topics have fallen: because they were made anew, or else a log was cut.
        Raises `TopicsReplaced`."""
        if self.is_cause(topics):
            raise TopicsReplaced(f"{', '.join(sorted(topics))}: other topics by now")

    def is_cause(self, topics: Collection[str]) -> bool:
        """Whether a query that reads these topics, and has ended, may have ended by a change."""
        return self._until(lambda: self._is_other(topics), SURE_S)

    def wait(self, topics: Iterable[str]) -> ClusterIdentity:
        """What there is of these topics, once all are there or the grace is over."""
        wanted = frozenset(topics)

        def are_there() -> bool:
            now = self._follower.identity
            return now is not None and wanted <= now.topic_ids.keys()

        self._until(are_there, GRACE_S)
        return self._follower.identity or self.cluster

    def unread(self, topic: str, positions: Mapping[TopicAndPartition, int]) -> UnreadRecords:
        """Of a topic that the driver stood on, what a reader with these positions has not read."""
        return self._follower.unread(topic, self.cluster.topic_ids.get(topic, ""), positions)

    def _is_other(self, topics: Iterable[str]) -> bool:
        now, known = self._follower.identity, self.cluster.topic_ids
        return now is not None and any(now.topic_ids.get(t) != known.get(t) for t in topics)

    def _until(self, holds: Callable[[], bool], wait_s: float) -> bool:
        deadline = time.monotonic() + wait_s
        while True:
            self._refresh()
            if holds():
                return True
            if time.monotonic() > deadline or self._stopping.wait(POLL_S):
                return False

    def _refresh(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether a broker has answered."""
        try:
            self._follower.refresh(timeout_s)
        except ClusterUnavailable as error:
            log.debug("which topics there are is not known just now: %s", error)
            return False
        return True
