"""Where an application begins, and how far a batch brings it. Pure.

In: positions of the store or of a consumer group, what the cluster holds, the (topic, partition,
offset) of a batch's records. Out: Spark's `startingOffsets`, positions. Never: I/O.
The application's positions rule (ingest's are in the store, with the rows; the others' are a
consumer group's); Spark's checkpoint is a cache that is thrown away at every start.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

from bus.client.model import ClusterIdentity, TopicAndPartition
from ingest.store.port import Position
from spark_apps.batches.message import OffsetRanges


def resolve_positions(
    stored: Mapping[TopicAndPartition, int],
    partitions: Iterable[TopicAndPartition],
    earliest: Mapping[TopicAndPartition, int],
) -> tuple[dict[TopicAndPartition, int], dict[TopicAndPartition, int]]:
    """Where to begin in every partition, and how many records retention cut before they were
    read.
    """
    starts, lost = {}, {}
    for partition in partitions:
        first = earliest.get(partition, 0)
        position = stored.get(partition, first)
        starts[partition] = max(position, first)
        if position < first:
            lost[partition] = first - position
    return starts, lost


def starting_offsets(starts: Mapping[TopicAndPartition, int]) -> str:
    """The JSON of Spark's option `startingOffsets`."""
    nested: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in sorted(starts.items()):
        nested[topic][str(partition)] = offset
    return json.dumps(nested)


def positions(application: str, cluster: ClusterIdentity, offsets: OffsetRanges) -> list[Position]:
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
