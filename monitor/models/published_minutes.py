"""Which minutes of published cells have had time to become whole. Pure.

In: the minute of each cell and when it was published. Out: the end of the minutes that can be
judged. Never: a clock. The topic's own times count, so that ingest may be away or late for hours,
and whoever reads the same cells later, in any order, finds the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bus.domain.times import minute_of

SETTLE_MS = 30_000
"""From the first cell of the minute after it: until then its last cells may be under way."""


@dataclass(slots=True)
class PublishedMinutes:
    """Invariant: `first_ms` has, of no minute before the newest settled one, when a cell of it was
    first published."""

    first_ms: dict[int, int] = field(default_factory=dict)
    newest_ms: int = 0
    """The newest minute of a cell, no newer than its publication: a clock may be ahead."""
    _published_ms: int = 0

    def add(self, minute_ms: int, published_at_ms: int) -> None:
        """A cell of this minute was published then."""
        minute_ms = min(minute_ms, minute_of(published_at_ms))
        self.newest_ms = max(self.newest_ms, minute_ms)
        self._published_ms = max(self._published_ms, published_at_ms)
        first_ms = self.first_ms.get(minute_ms)
        if first_ms is None or published_at_ms < first_ms:
            self.first_ms[minute_ms] = published_at_ms

    def until_ms(self) -> int:
        """The end (exclusive) of the settled minutes; 0 while there is none."""
        latest_ms = self._published_ms - SETTLE_MS
        until_ms = max((m for m, first in self.first_ms.items() if first <= latest_ms), default=0)
        self.first_ms = {m: first for m, first in self.first_ms.items() if m >= until_ms}
        return until_ms
