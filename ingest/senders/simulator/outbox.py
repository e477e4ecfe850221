"""What one recognition server has recognised and not yet handed over.

In: outgoing records. Out: posts of bounded size, oldest first. A post stays the same through all
its retries, so that the receiver can know it again. Never: sockets, clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

MAX_POST_BYTES = 4 * 1024 * 1024  # far below the edge's bound, pictures included


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record on its way. `n` is its number in the truth."""

    n: int
    kind: str
    body: bytes
    made_ms: int


@dataclass(frozen=True, slots=True)
class Post:
    """Records of one kind for one request."""

    kind: str
    records: tuple[Outgoing, ...]

    @property
    def body(self) -> bytes:
        """One record per line (NDJSON), so that a garbled one harms no other."""
        return b"\n".join(record.body for record in self.records)


class Outbox:
    """Invariant: at most `capacity` records; at most one post is under way.

    Each kind has a lane of its own, because a request carries one kind: mixed in one lane, faces
    among vehicles would cut every post short. Order is kept within a lane, which is all that a
    partition key can ask for.
    """

    def __init__(self, capacity: int, max_records: int) -> None:
        self._capacity = capacity
        self._max_records = max_records
        self._lanes: dict[str, deque[Outgoing]] = {}
        self._count = 0
        self._under_way: Post | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def lanes(self) -> int:
        """How many posts carry at least one record of every kind that waits."""
        return sum(bool(lane) for lane in self._lanes.values()) + (self._under_way is not None)

    @property
    def room(self) -> int:
        """How many more records it takes."""
        return self._capacity - self._count

    def put(self, records: Sequence[Outgoing]) -> None:
        """Queue records; the caller has looked at `room`."""
        for record in records:
            self._lanes.setdefault(record.kind, deque()).append(record)
        self._count += len(records)

    def next_post(self) -> Post | None:
        """The post to send now: the same one until `done`. The oldest record's lane goes first."""
        if self._under_way is None and self._count:
            lanes = [lane for lane in self._lanes.values() if lane]
            self._under_way = self._gather(min(lanes, key=lambda lane: lane[0].n))
        return self._under_way

    def done(self) -> None:
        """The post under way was answered."""
        if self._under_way is not None:
            self._count -= len(self._under_way.records)
            self._under_way = None

    def _gather(self, lane: deque[Outgoing]) -> Post:
        size, taken = 0, list[Outgoing]()
        while lane and len(taken) < self._max_records:
            size += len(lane[0].body) + 1
            if taken and size > MAX_POST_BYTES:
                break
            taken.append(lane.popleft())
        return Post(taken[0].kind, tuple(taken))
