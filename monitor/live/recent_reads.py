"""Which messages of a topic that was made anew were read before that was known. Pure.

A reader learns of it by a look, half a second later; until then it may have read messages of the
new topic at the offsets of the former one. It reads the new topic from its start, and meets them
again.
In: each message read, each look. Out: whether a message comes for the first time.
Never: more than `MAX_MESSAGES` remembered of one look; what is beyond them may come twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from itertools import chain

from bus.client.model import ClusterIdentity, TopicAndPartition, TopicPartition

MAX_MESSAGES = 50_000

Read = tuple[TopicPartition, int, int]
"""Where, its offset, its time in ms: the former topic has another time at that offset."""


class RecentReads:
    """Invariant: `_reads` holds what was read since the newest look ended and before each of the
    two looks before: a message that was read while a look was under way is known by the next.
    `_again` holds, of each topic of `_since_s`, what may have to be met a second time."""

    def __init__(self) -> None:
        self._identity: ClusterIdentity | None = None
        self._reads: deque[set[Read]] = deque([set()], maxlen=3)
        self._again: set[Read] = set()
        self._since_s: dict[str, float] = {}

    @property
    def reread_since(self) -> dict[str, float]:
        """Topics that are being read from their start, each with the moment that began it, in
        seconds; messages of the former one may stand among those to be met again."""
        return dict(self._since_s)

    def on_identity(self, identity: ClusterIdentity | None) -> None:
        """The newest look; the same object as long as there is no newer one."""
        if identity is not self._identity:
            self._identity = identity
            self._reads.append(set())

    def is_first(self, place: TopicPartition, offset: int, at_ms: int) -> bool:
        """Remembers a message; False where it was read before its topic was known to be new."""
        read = (place, offset, at_ms)
        if len(self._reads[-1]) < MAX_MESSAGES:
            self._reads[-1].add(read)
        if read in self._again:
            self._again.remove(read)
            return False
        return True

    def furthest(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How far each partition was read, where reading has already gone back to a new start."""
        found = dict(positions)
        for place, offset, _ in chain.from_iterable(self._reads):
            found[place] = max(found.get(place, 0), offset + 1)
        return found

    def read_beyond(self, topic: str, positions: Mapping[TopicAndPartition, int]) -> int:
        """Of a topic that is being read from its start: how many messages at these positions or
        behind them were read before; at most, as long as it is in `reread_since`."""
        return sum(
            place.topic == topic and offset >= positions.get(place, 0)
            for place, offset, _ in self._again
        )

    def on_recreated(self, topics: Collection[str], now_s: float) -> None:
        """These are read from their start; what was read of them since the last look comes again,
        unless it was of the former one."""
        self._again = {read for read in self._again if read[0].topic not in topics}
        for reads in self._reads:
            of_these = {read for read in reads if read[0].topic in topics}
            reads -= of_these
            self._again |= of_these
        self._since_s |= dict.fromkeys(topics, now_s)

    def on_end_reached(self, topic: str) -> None:
        """All of it was met again by now; what is left was of the former one."""
        self._again = {read for read in self._again if read[0].topic != topic}
        self._since_s.pop(topic, None)
