"""What stored positions mean: which of them still hold, and whether a batch was applied. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.contracts.mirror_truncations import LogTruncation, TopicTruncations, first_truncation
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


def epoch_marks(application: str) -> str:
    """The name under which a store keeps, as end offsets, up to which site epoch an application has
    gone back in each partition."""
    return f"site-epoch/{application}"


def set_back(
    stored: Iterable[Position],
    seen: Iterable[Position],
    truncations: Mapping[str, Sequence[TopicTruncations]],
) -> list[tuple[Position, Position, LogTruncation]]:
    """Positions of one application that are to go back because the log behind them is another one
    by now: the new one, its mark beside it, and the cut. `seen`: the marks; `truncations`: by
    topic."""
    known = {(p.cluster_id, p.topic_id, p.partition): p.end_offset for p in seen}
    found = []
    for position in stored:
        of_topic = truncations.get(position.topic, ())
        epoch = known.get((position.cluster_id, position.topic_id, position.partition), -1)
        truncation = first_truncation(of_topic, position.partition, epoch)
        if truncation is None:
            continue
        end = min(position.end_offset, truncation.cut)
        newest = max(each.epoch for each in of_topic if each.is_done)
        found.append((
            msgspec.structs.replace(position, end_offset=end),
            msgspec.structs.replace(
                position, application=epoch_marks(position.application), end_offset=newest
            ),
            truncation,
        ))  # fmt: skip
    return found


def replaced_topics(stored: Iterable[Position], cluster: ClusterIdentity) -> set[str]:
    """Topics of this cluster that were created again since the newest position on them was stored.
    Those of earlier topics stay beside the valid ones: they say how much of those was stored."""
    here = [p for p in stored if p.cluster_id == cluster.cluster_id]
    valid = {p.topic for p in here if cluster.topic_ids.get(p.topic, p.topic_id) == p.topic_id}
    return {p.topic for p in here} - valid
