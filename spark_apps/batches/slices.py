"""A batch cut by the bytes of its records. Pure.

Spark's Kafka source bounds a batch by the number of its offsets only: 50,000 records may have 30 MB
or 25 GB. In: the offsets of a batch, how large a record of each partition is. Out: the offsets of
its slices, in their order. Never: I/O.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping

from bus.client.model import TopicAndPartition
from spark_apps.batches.message import OffsetRanges

RecordBytes = Mapping[TopicAndPartition, int]
"""Of a record, on average, by partition."""


def bytes_of(offsets: OffsetRanges, record_bytes: RecordBytes) -> int:
    """What the records of these ranges come to."""
    return sum((end - first) * record_bytes[place] for place, (first, end) in offsets.items())


def slices_of(
    offsets: OffsetRanges, record_bytes: RecordBytes, max_bytes: int
) -> list[OffsetRanges]:
    """Consecutive slices of at most `max_bytes`, or of one record that is larger. Each takes the
    same share of every partition, so that all of them are still read side by side."""
    if bytes_of(offsets, record_bytes) <= max_bytes:
        return [offsets]
    found: list[OffsetRanges] = []
    ends = {place: first for place, (first, _) in offsets.items()}
    taken: Counter[TopicAndPartition] = Counter()
    filled = 0

    def end_slice() -> None:
        found.append({p: (ends[p], ends[p] + count) for p, count in taken.items()})
        ends.update({place: end for place, (_, end) in found[-1].items()})
        taken.clear()

    for place in _in_turn(offsets):
        if taken and filled + record_bytes[place] > max_bytes:
            end_slice()
            filled = 0
        taken[place] += 1
        filled += record_bytes[place]
    end_slice()
    return found


def _in_turn(offsets: OffsetRanges) -> Iterator[TopicAndPartition]:
    """The partition of every record, evenly mixed."""

    def shares(place: TopicAndPartition, count: int) -> Iterator[tuple[float, TopicAndPartition]]:
        return (((number + 0.5) / count, place) for number in range(count))

    counts = {place: end - first for place, (first, end) in offsets.items()}
    mixed = heapq.merge(*(shares(place, count) for place, count in sorted(counts.items())))
    return (place for _, place in mixed)
