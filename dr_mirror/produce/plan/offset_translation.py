"""The offsets of the source in those of an ordinary target. Pure.

In: which records of the source became which at the target. Out: where at the target a group goes
on that committed an offset of the source. Never: an offset that skips a record the group has not
read; where the history is thinned out, it reads some again.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

MAX_SEGMENTS = 128
"""Per partition; one per transaction of the target, since its marker takes an offset there."""


@dataclass(frozen=True, slots=True)
class OffsetSegment:
    """`count` records of the source from `source_offset` on have consecutive offsets on both sides;
    at the target from `target_offset` on."""

    source_offset: int
    target_offset: int
    count: int

    @property
    def target_end(self) -> int:
        """Exclusive."""
        return self.target_offset + self.count

    def continues(self, other: OffsetSegment) -> bool:
        """Whether `other` goes on where this one ends, on both sides."""
        return (
            other.source_offset == self.source_offset + self.count
            and other.target_offset == self.target_end
        )


class OffsetTranslator:
    """Of one partition. Invariant: segments ascend on both sides; the newest ones are complete,
    older ones thinned out."""

    def __init__(self) -> None:
        self._segments: list[OffsetSegment] = []

    @property
    def newest(self) -> OffsetSegment | None:
        """The last records that were acknowledged."""
        return self._segments[-1] if self._segments else None

    def add(self, segment: OffsetSegment) -> None:
        """The next records. A segment that begins before the newest one's end begins a new history:
        they were copied again, behind the old ones at the target."""
        last = self.newest
        if last is not None and segment.source_offset < last.source_offset + last.count:
            self._segments.clear()
            last = None
        if last is not None and last.continues(segment):
            count = last.count + segment.count
            self._segments[-1] = OffsetSegment(last.source_offset, last.target_offset, count)
            return
        self._segments.append(segment)
        if len(self._segments) > MAX_SEGMENTS:
            older = MAX_SEGMENTS // 2
            self._segments[:older] = self._segments[:older:2]

    def translate(self, source_offset: int) -> int | None:
        """Where at the target to go on; None: it lies before all that is known."""
        at = bisect_right(self._segments, source_offset, key=lambda one: one.source_offset)
        if not at:
            return None
        segment = self._segments[at - 1]
        return segment.target_offset + min(source_offset - segment.source_offset, segment.count)
