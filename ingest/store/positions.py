"""What stored positions mean: which of them still hold, and whether a batch was applied. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bus.client.model import ClusterIdentity, TopicAndPartition
from ingest.store.port import Position, PositionsOverlap


def was_applied(positions: Sequence[Position], end_offset: Callable[[Position], int]) -> bool:
    """Whether every offset was taken in before; raises `PositionsOverlap` when only some were.

    `end_offset` gives how far a partition has been read, -1 for never.
    """
    ends = [(p, end_offset(p)) for p in positions]
    if ends and all(p.end_offset <= end for p, end in ends):
        return True
    for p, end in ends:
        if p.end_offset < end or -1 < p.start_offset < end:
            raise PositionsOverlap(
                f"{p.application}: {p.topic}-{p.partition} is stored up to {end}, the batch "
                f"covers {p.start_offset if p.start_offset >= 0 else '?'} to {p.end_offset}"
            )
    return False


def valid_positions(
    stored: Iterable[Position], cluster: ClusterIdentity
) -> dict[TopicAndPartition, int]:
    """The stored positions that still mean something: same cluster, and not a topic that was
    created again."""
    return {
        (p.topic, p.partition): p.end_offset
        for p in stored
        if p.cluster_id == cluster.cluster_id and cluster.topic_ids.get(p.topic) == p.topic_id
    }


def replaced_topics(stored: Iterable[Position], cluster: ClusterIdentity) -> set[str]:
    """Topics of this cluster that were created again since a position was stored."""
    return {
        p.topic
        for p in stored
        if p.cluster_id == cluster.cluster_id
        and cluster.topic_ids.get(p.topic, p.topic_id) != p.topic_id
    }
