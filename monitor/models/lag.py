"""How far an application is behind: its positions against the ends of the partitions.

In: positions, end offsets, earliest offsets. Out: lag per partition and per application, incidents.
Never: a client, a clock. Offsets are exclusive ends, so lag 0 means everything was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ingest.store.port import Position

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One application on one partition. `lost` counts records that retention cut before they
    were read.
    """

    application: str
    topic: str
    partition: int
    position: int
    end_offset: int
    lag: int
    lost: int = 0


def lags(
    application: str,
    positions: Iterable[Position],
    end_offsets: Mapping[TopicPartition, int],
    start_offsets: Mapping[TopicPartition, int] | None = None,
    topic_ids: Mapping[str, str] | None = None,
) -> list[PartitionLag]:
    """Lag of every partition in `end_offsets`; one never read counts from its earliest record.

    A position taken on a topic of the same name but another id is void: the topic was created
    again.
    """
    starts = start_offsets or {}
    ids = topic_ids or {}
    known = {
        (p.topic, p.partition): p.end_offset
        for p in positions
        if p.application == application and ids.get(p.topic, p.topic_id) == p.topic_id
    }
    return [
        _lag(application, tp, known.get(tp, -1), end_offset, starts.get(tp, 0))
        for tp, end_offset in sorted(end_offsets.items())
    ]


def _lag(
    application: str, tp: TopicPartition, position: int, end_offset: int, start_offset: int
) -> PartitionLag:
    read_from = start_offset if position < 0 else max(position, start_offset)
    return PartitionLag(
        application=application,
        topic=tp[0],
        partition=tp[1],
        position=read_from,
        end_offset=end_offset,
        lag=max(0, end_offset - read_from),
        lost=max(0, start_offset - position) if position >= 0 else 0,
    )


def total(parts: Iterable[PartitionLag]) -> int:
    """Records still to be read over all partitions."""
    return sum(part.lag for part in parts)
