"""Which committed offsets still mean something. Pure.

The metadata of an offset is the id of the topic it was taken on. An empty one is what a tool writes
(`--reset-offsets`) and counts as said; another id is void: the topic was created again.
"""

from __future__ import annotations

from collections.abc import Mapping

from bus.client.model import OffsetAndMetadata, TopicAndPartition, TopicPartition


def valid_offsets(
    committed: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[str, str]
) -> tuple[dict[TopicAndPartition, int], list[TopicAndPartition]]:
    """Offsets that still mean something, and the partitions of those that are void."""
    valid: dict[TopicAndPartition, int] = {}
    void: list[TopicAndPartition] = []
    for place, found in committed.items():
        if found.metadata in ("", topic_ids.get(place.topic)):
            valid[place] = found.offset
        else:
            void.append(place)
    return valid, sorted(void)
