"""Which confirmed offsets are published next, and as what records. Pure; times come in.

In: what the target holds of each partition that is copied. Out: `MirrorConfirmed`s.
Never: an offset that the target has not acknowledged, and never more than `MAX_RECORDS` at once:
what is left comes with the next call, the partition that was published longest ago first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bus.client.model import TopicPartition
from bus.contracts import headers
from bus.contracts.mirror import MirrorConfirmed
from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED, TOPICS
from bus.records.record import Record
from dr_mirror.topics.topics import ClusterPair

MAX_RECORDS = 2000
"""Of one batch: some 400 kB before it is compressed."""
REPEAT_MS = 60_000
"""After so long a value is published again though it is the same: who starts to read at the end of
the topic knows all of them soon, and no value grows as old as the topic's retention."""

_SCHEMA = [(headers.SCHEMA, TOPICS[CONTROL_MIRROR_CONFIRMED].schema.encode())]


class ConfirmedOffsets:
    """Invariant: `_published` has what one cluster has acknowledged, with its time."""

    def __init__(self) -> None:
        self._published: dict[TopicPartition, tuple[int, int]] = {}

    def due(self, held: Mapping[TopicPartition, int], now_ms: int) -> dict[TopicPartition, int]:
        """Of the partitions that are copied, those whose value is new or old enough. Those that are
        copied no longer are forgotten: should they come back, theirs is a new value."""
        for partition in self._published.keys() - held.keys():
            del self._published[partition]
        found = [
            (self._published.get(partition, (-1, -1))[1], partition, offset)
            for partition, offset in held.items()
            if self._is_due(partition, offset, now_ms)
        ]
        found.sort()
        return {partition: offset for _, partition, offset in found[:MAX_RECORDS]}

    def on_published(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> None:
        """The cluster has them."""
        for partition, offset in offsets.items():
            self._published[partition] = offset, now_ms

    def _is_due(self, partition: TopicPartition, offset: int, now_ms: int) -> bool:
        published = self._published.get(partition)
        return published is None or published[0] != offset or now_ms - published[1] >= REPEAT_MS


def confirmed_records(
    offsets: Mapping[TopicPartition, int], clusters: ClusterPair, now_ms: int
) -> list[Record]:
    """As they go on the topic."""
    return [_record(one, now_ms) for one in _confirmed(offsets, clusters, now_ms)]


def _confirmed(
    offsets: Mapping[TopicPartition, int], clusters: ClusterPair, now_ms: int
) -> Iterable[MirrorConfirmed]:
    for (topic, partition), offset in offsets.items():
        yield MirrorConfirmed(
            source_cluster_id=clusters.source_cluster_id,
            target_cluster_id=clusters.target_cluster_id,
            topic=topic,
            partition=partition,
            offset=offset,
            generation=clusters.generation,
            at_ms=now_ms,
        )


def _record(one: MirrorConfirmed, now_ms: int) -> Record:
    return Record(one.key, msgspec.json.encode(one), _SCHEMA, now_ms)
