"""A hierarchical timing wheel: many deadlines at a cost that does not grow with their number.

In: entries with a deadline in milliseconds of a monotonic clock, and the present time. Out: the
entries that are due, and the time of the next check. Never: a clock, a callback, a thread.

Level 0 has ``WHEEL_SIZE`` buckets of one tick each; a bucket of the next level is as long as the
whole wheel below. Adding and cancelling touch one bucket. When a bucket of a higher level is due,
its entries move down; when one of level 0 is due, its entries are due. A heap knows the buckets in
use, of which there are few however many entries wait (the scheme of Varghese and Lauck, as in
Kafka's purgatory).
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

TICK_MS = 1
WHEEL_SIZE = 20


class WheelEntry:
    """One deadline. ``payload`` is the caller's. Invariant: in at most one bucket."""

    __slots__ = ("bucket", "deadline_ms", "payload")

    def __init__(self, deadline_ms: int, payload: Any) -> None:
        self.deadline_ms = deadline_ms
        self.payload = payload
        self.bucket: Bucket | None = None


class Bucket:
    """The entries of one slot.

    Invariant: ``expires_ms`` is the begin of the slot's present round while the heap holds the
    bucket, else -1; so a bucket stands in the heap once, however often it fills and empties.
    """

    __slots__ = ("entries", "expires_ms")

    def __init__(self) -> None:
        self.expires_ms = -1
        self.entries: dict[WheelEntry, None] = {}


class _Level:
    """One ring of buckets. Invariant: ``now_ms`` is a multiple of ``tick_ms``."""

    __slots__ = ("buckets", "now_ms", "span_ms", "tick_ms")

    def __init__(self, tick_ms: int, now_ms: int) -> None:
        self.tick_ms = tick_ms
        self.span_ms = tick_ms * WHEEL_SIZE
        self.now_ms = now_ms - now_ms % tick_ms
        self.buckets = [Bucket() for _ in range(WHEEL_SIZE)]


class TimingWheel:
    """All deadlines of one broker. Invariant: every entry's bucket expires no later than it."""

    def __init__(self, now_ms: int) -> None:
        self._levels = [_Level(TICK_MS, now_ms)]
        self._in_use: list[tuple[int, int, Bucket]] = []
        self._pushes = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, deadline_ms: int, payload: Any) -> WheelEntry | None:
        """Keep an entry; ``None`` if its deadline has come already."""
        entry = WheelEntry(deadline_ms, payload)
        if not self._place(entry):
            return None
        self._size += 1
        return entry

    def cancel(self, entry: WheelEntry) -> bool:
        """Forget an entry; false if it is not in the wheel any more."""
        bucket, entry.bucket = entry.bucket, None
        if bucket is None:
            return False
        del bucket.entries[entry]
        self._size -= 1
        return True

    def next_ms(self) -> int | None:
        """When ``advance`` has something to do next; ``None`` if nothing waits."""
        while self._in_use:
            expires_ms, _, bucket = self._in_use[0]
            if bucket.entries and bucket.expires_ms == expires_ms:
                return expires_ms
            heappop(self._in_use)
            if bucket.expires_ms == expires_ms:
                bucket.expires_ms = -1
        return None

    def advance(self, now_ms: int) -> list[WheelEntry]:
        """Move the time on to ``now_ms``; the entries that are due, earliest bucket first."""
        due: list[WheelEntry] = []
        while (expires_ms := self.next_ms()) is not None and expires_ms <= now_ms:
            _, _, bucket = heappop(self._in_use)
            bucket.expires_ms = -1
            self._advance_to(expires_ms)
            self._empty(bucket, due)
        self._advance_to(now_ms)
        return due

    def _empty(self, bucket: Bucket, due: list[WheelEntry]) -> None:
        entries, bucket.entries = bucket.entries, {}
        for entry in entries:
            entry.bucket = None
            if not self._place(entry):
                self._size -= 1
                due.append(entry)

    def _place(self, entry: WheelEntry) -> bool:
        """Put an entry in the lowest level that reaches its deadline; false if it is due."""
        deadline_ms = entry.deadline_ms
        if deadline_ms < self._levels[0].now_ms + TICK_MS:
            return False
        level = self._level_for(deadline_ms)
        slot = deadline_ms // level.tick_ms
        bucket = level.buckets[slot % WHEEL_SIZE]
        bucket.entries[entry] = None
        entry.bucket = bucket
        self._schedule(bucket, slot * level.tick_ms)
        return True

    def _level_for(self, deadline_ms: int) -> _Level:
        for level in self._levels:
            if deadline_ms < level.now_ms + level.span_ms:
                return level
        top = self._levels[-1]
        while deadline_ms >= top.now_ms + top.span_ms:
            top = _Level(top.span_ms, self._levels[0].now_ms)
            self._levels.append(top)
        return top

    def _schedule(self, bucket: Bucket, expires_ms: int) -> None:
        if bucket.expires_ms != expires_ms:
            bucket.expires_ms = expires_ms
            self._pushes += 1
            heappush(self._in_use, (expires_ms, self._pushes, bucket))

    def _advance_to(self, now_ms: int) -> None:
        for level in self._levels:
            if now_ms < level.now_ms + level.tick_ms:
                return
            level.now_ms = now_ms - now_ms % level.tick_ms
