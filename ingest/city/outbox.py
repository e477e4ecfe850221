"""What one recognition server has recognised and not yet handed over.

In: outgoing records. Out: posts of bounded size, in order. A post stays the same through all its
retries, so that the receiver can know it again. Never: sockets, clock.
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
    """Invariant: at most `capacity` records; the first post is the one under way."""

    def __init__(self, capacity: int, max_records: int) -> None:
        self._capacity = capacity
        self._max_records = max_records
        self._waiting: deque[Outgoing] = deque()
        self._under_way: Post | None = None

    def __len__(self) -> int:
        under_way = len(self._under_way.records) if self._under_way else 0
        return len(self._waiting) + under_way

    @property
    def room(self) -> int:
        """How many more records it takes."""
        return self._capacity - len(self)

    def put(self, records: Sequence[Outgoing]) -> None:
        """Queue records; the caller has looked at `room`."""
        self._waiting.extend(records)

    def next_post(self) -> Post | None:
        """The post to send now: the same one until `done`."""
        if self._under_way is None and self._waiting:
            self._under_way = self._gather()
        return self._under_way

    def done(self) -> None:
        """The post under way was answered."""
        self._under_way = None

    def _gather(self) -> Post:
        kind, size, taken = self._waiting[0].kind, 0, list[Outgoing]()
        while self._waiting and len(taken) < self._max_records:
            record = self._waiting[0]
            if record.kind != kind or (taken and size + len(record.body) > MAX_POST_BYTES):
                break
            size += len(record.body) + 1
            taken.append(self._waiting.popleft())
        return Post(kind, tuple(taken))
