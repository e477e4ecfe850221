"""What a move sent to the other site, by the places the records had at this one. Pure.

In: places, in the order of the spool. Out: ranges of offsets by partition, for the report of a
forced switch, which counts these records as missing until it hears of them. Never: an offset that
was not sent; where there are too many ranges the rest is left out, which says less and nothing
wrong.
"""

from __future__ import annotations

from collections.abc import Iterable

from bus.contracts.sent_again import SentAgainPartition, union
from ingest.spool.retained_records import Delivered, Place

MAX_RANGES = 50_000
"""Of all partitions: a batch of the producer is one, so this is minutes of an edge's records."""


class SentAgainPlaces:
    """Invariant: at most `MAX_RANGES` ranges."""

    def __init__(self) -> None:
        self._ranges: dict[Place, list[tuple[int, int]]] = {}
        self._count = 0

    def add(self, rows: Iterable[Delivered]) -> None:
        """These were read to be sent."""
        for row in rows:
            ranges = self._ranges.setdefault((row.topic, row.partition), [])
            if ranges and ranges[-1][1] == row.offset:
                ranges[-1] = ranges[-1][0], row.offset + 1
            elif self._count < MAX_RANGES:
                ranges.append((row.offset, row.offset + 1))
                self._count += 1

    def partitions(self) -> tuple[SentAgainPartition, ...]:
        """By name; ranges that meet are one."""
        return tuple(
            SentAgainPartition(topic=place[0], partition=place[1], ranges=union(ranges))
            for place, ranges in sorted(self._ranges.items())
            if ranges
        )
