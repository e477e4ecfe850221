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
    two looks before: a message that was read while a look was under way is known by the next."""

    def __init__(self) -> None:
        self._identity: ClusterIdentity | None = None
        self._reads: deque[set[Read]] = deque([set()], maxlen=3)
        self._again: set[Read] = set()

    def on_identity(self, identity: ClusterIdentity | None) -> None:
        """The newest look; the same object as long as there is no newer one."""
        if identity is not self._identity:
            self._identity = identity
            self._reads.append(set())

    def is_first(self, place: TopicPartition, offset: int, at_ms: int) -> bool:
        """Remembers a message; False where it was read before its topic was known to be new."""
        read = (place, offset, at_ms)
        if read in self._again:
            self._again.remove(read)
            return False
        if len(self._reads[-1]) < MAX_MESSAGES:
            self._reads[-1].add(read)
        return True

    def furthest(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """How far each partition was read, where reading has already gone back to a new start."""
        found = dict(positions)
        for place, offset, _ in chain.from_iterable(self._reads):
            found[place] = max(found.get(place, 0), offset + 1)
        return found

    def read_beyond(self, topic: str, positions: Mapping[TopicAndPartition, int]) -> int:
        """Of a topic that is being read from its start: how many messages at these positions or
        behind them were read before."""
        return sum(
            place.topic == topic and offset >= positions.get(place, 0)
            for place, offset, _ in self._again
        )

    def on_recreated(self, topics: Collection[str]) -> None:
        """These are read from their start; what was read of them since the last look comes again,
        unless it was of the former one."""
        self._again = {one for one in chain.from_iterable(self._reads) if one[0].topic in topics}
