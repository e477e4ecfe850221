"""Where an application begins, and how far a batch brings it. Pure.

In: positions of the store, what the cluster holds, the (topic, partition, offset) of a batch's
records. Out: Spark's `startingOffsets`, positions. Never: I/O.
The store's positions rule; Spark's checkpoint is a cache that is thrown away at every start.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from bus.client.model import Cluster, Partition
from ingest.store.port import Position
from spark_apps.message import Covered

EARLIEST = -2  # Spark's own sign for "the earliest record there is"


def valid_positions(stored: Iterable[Position], cluster: Cluster) -> dict[Partition, int]:
    """The stored positions that still mean something: same cluster, and not a topic made anew."""
    return {
        (p.topic, p.partition): p.end_offset
        for p in stored
        if p.cluster_id == cluster.cluster_id and cluster.topic_ids.get(p.topic) == p.topic_id
    }


def begin(
    stored: Mapping[Partition, int],
    partitions: Iterable[Partition],
    earliest: Mapping[Partition, int],
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Where to begin in every partition, and how many records retention cut before they were
    read.
    """
    starts, lost = {}, {}
    for partition in partitions:
        position, first = stored.get(partition, EARLIEST), earliest.get(partition, 0)
        starts[partition] = position if position >= first else EARLIEST
        if EARLIEST < position < first:
            lost[partition] = first - position
    return starts, lost


def starting_offsets(starts: Mapping[Partition, int]) -> str:
    """The JSON of Spark's option `startingOffsets`."""
    nested: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(starts.items()):
        nested[topic][str(partition)] = offset
    return json.dumps(nested)


def positions(application: str, cluster: Cluster, offsets: Covered) -> list[Position]:
    """What a batch covers, as the store keeps it."""
    return [
        Position(
            application=application,
            cluster_id=cluster.cluster_id,
            topic=topic,
            topic_id=cluster.topic_ids[topic],
            partition=partition,
            start_offset=first,
            end_offset=end_offset,
        )
        for (topic, partition), (first, end_offset) in sorted(offsets.items())
    ]
