"""Which topics there are, look after look: what was deleted or made anew, where it ended. Pure.

In: the ids, partitions and ends that the brokers name, the moment of asking. Out: topics that are
other ones than a reader began with, and how much of the former one a reader has not read.
Never: a topic called gone after one look, which may have met a broker that has just started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from bus.client.model import ClusterIdentity, TopicAndPartition

SEEN_S = 5.0
"""An end that was looked at so shortly before the topic was found to be another one counts as its
last: looks are a second apart. After a longer pause there may have been more."""
GONE_POLLS = 2
FORMER_TOPICS = 3  # of one name, whose ends are remembered


class UnreadRecords(NamedTuple):
    """What a reader has not read of a topic that is gone, by partition. `is_all`: its end was seen
    just before; else there may have been more."""

    counts: Mapping[TopicAndPartition, int]
    is_all: bool


@dataclass(slots=True)
class _Former:
    """The ends of one topic id, and how long before its successor or absence was found they were
    seen; None while it stands."""

    ends: dict[TopicAndPartition, int] = field(default_factory=dict)
    seen_s: float | None = None
    is_seen: bool = True


@dataclass(slots=True)
class FollowedTopics:
    """Invariant: `identity` has the topics of the newest look, `_former` at most `FORMER_TOPICS`
    ids of each name."""

    identity: ClusterIdentity
    _former: dict[str, dict[str, _Former]] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)

    def observe(self, found: ClusterIdentity, now_s: float) -> None:
        """The topics that there are now."""
        before, self.identity = self.identity, found
        for topic in before.topic_ids.keys() | self._missing.keys():
            is_there = topic in found.topic_ids
            self._missing[topic] = 0 if is_there else self._missing.get(topic, 0) + 1
        for topic, topic_id in before.topic_ids.items():
            if found.topic_ids.get(topic) != topic_id:
                self._end(topic, topic_id, now_s)

    def observe_ends(self, ends: Mapping[TopicAndPartition, int], now_s: float) -> None:
        """Of topics whose ids were the same before and after these were asked for, at `now_s`."""
        for place, end in ends.items():
            topic_id = self.identity.topic_ids.get(place[0])
            if topic_id is not None:
                known = self._of(place[0], topic_id)
                known.ends[place] = max(end, known.ends.get(place, 0))
                known.seen_s = now_s

    def changed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that a reader began with and that are gone, or other ones now, or
        are there at last."""
        return frozenset(topic for topic in topics if self._is_changed(known, topic))

    def renewed(self, known: ClusterIdentity, topics: Iterable[str]) -> frozenset[str]:
        """Those of these topics that are there and of which a reader has not all: others than it
        began with, or grown."""
        now = self.identity
        return frozenset(
            topic
            for topic in topics
            if topic in now.topic_ids
            and (now.topic_ids[topic], _numbers(now, topic))
            != (known.topic_ids.get(topic), _numbers(known, topic))
        )

    def unread(
        self, topic: str, topic_id: str, positions: Mapping[TopicAndPartition, int]
    ) -> UnreadRecords:
        """Of a topic that is no longer there: what lay between these positions and the last end."""
        former = self._former.get(topic, {}).get(topic_id)
        if former is None:
            return UnreadRecords({}, False)
        counts = {tp: end - positions.get(tp, 0) for tp, end in former.ends.items()}
        return UnreadRecords({tp: n for tp, n in counts.items() if n > 0}, former.is_seen)

    def is_read(
        self,
        topic: str,
        topic_id: str,
        positions: Mapping[TopicAndPartition, int],
        since_s: float,
    ) -> bool:
        """Whether a reader with these positions has all that stood there when the ends were asked
        for last, at `since_s` or later."""
        known = self._former.get(topic, {}).get(topic_id)
        if known is None or known.seen_s is None or known.seen_s < since_s:
            return False
        return not self.unread(topic, topic_id, positions).counts

    def _is_changed(self, known: ClusterIdentity, topic: str) -> bool:
        before, now = known.topic_ids.get(topic), self.identity.topic_ids.get(topic)
        if now is None:
            return before is not None and self._missing.get(topic, 0) >= GONE_POLLS
        return now != before

    def _end(self, topic: str, topic_id: str, now_s: float) -> None:
        known = self._of(topic, topic_id)
        known.is_seen = known.seen_s is not None and now_s - known.seen_s <= SEEN_S

    def _of(self, topic: str, topic_id: str) -> _Former:
        of_name = self._former.setdefault(topic, {})
        if topic_id not in of_name:
            of_name[topic_id] = _Former()
            while len(of_name) > FORMER_TOPICS:
                del of_name[next(iter(of_name))]
        return of_name[topic_id]


Place = TypeVar("Place", bound=TopicAndPartition)


def renewed_positions(
    positions: Mapping[Place, int],
    before: ClusterIdentity,
    now: ClusterIdentity,
    renewed: Collection[str],
    place_of: Callable[[str, int], Place],
) -> dict[Place, int]:
    """Where a reader that keeps its own positions goes on: topics that were made anew from their
    start, and partitions that are new; all others where it stood."""
    other = {t for t in renewed if before.topic_ids.get(t) != now.topic_ids.get(t)}
    found = {place: offset for place, offset in positions.items() if place[0] not in other}
    for topic, number in now.partitions:
        if topic in renewed:
            found.setdefault(place_of(topic, number), 0)
    return found


def _numbers(cluster: ClusterIdentity, topic: str) -> set[int]:
    return {number for name, number in cluster.partitions if name == topic}
