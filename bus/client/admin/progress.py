"""How far a move has come (pure): from sizes of replicas on the disks.

In: who moves where, and the log directories of the brokers. Out: bytes copied and to copy.
Never: a question to a cluster. A replica that is being made is compared with its leader's; while
the leader takes new records both grow, so the share is an estimate and says so by ending at the
moment the cluster itself says that the move is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.client.model import LogDirDescription, PartitionReassignment, TopicPartition


@dataclass(frozen=True, slots=True)
class MoveProgress:
    """One partition on the move."""

    topic_partition: TopicPartition
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class DirectoryMove:
    """One replica on the move between two log directories of its broker."""

    topic_partition: TopicPartition
    broker: int
    source: str
    target: str
    copied_bytes: int
    total_bytes: int


def within_brokers(dirs: Mapping[int, list[LogDirDescription]]) -> list[DirectoryMove]:
    """Every replica that moves between directories of one broker, by name."""
    moves = []
    for broker, found in dirs.items():
        homes = {
            place: (one.path, replica.size_bytes)
            for one in found
            for place, replica in one.replicas.items()
            if not replica.future
        }
        moves += [
            DirectoryMove(place, broker, homes[place][0], one.path,
                          min(replica.size_bytes, homes[place][1]), homes[place][1])
            for one in found
            for place, replica in one.replicas.items()
            if replica.future and place in homes
        ]  # fmt: skip
    return sorted(moves, key=lambda move: (move.topic_partition, move.broker))


def progress(
    moving: Mapping[TopicPartition, PartitionReassignment],
    dirs: Mapping[int, list[LogDirDescription]],
) -> list[MoveProgress]:
    """One row per moving partition, by name; unknown sizes count as nothing."""
    sizes = {
        (broker, place): replica.size_bytes
        for broker, found in dirs.items()
        for one in found
        for place, replica in one.replicas.items()
        if not replica.future
    }
    rows = []
    for place, move in sorted(moving.items()):
        full = max((sizes.get((b, place), 0) for b in move.replicas if b not in move.adding),
                   default=0)  # fmt: skip
        copied = sum(min(full, sizes.get((broker, place), 0)) for broker in move.adding)
        rows.append(
            MoveProgress(place, move.adding, move.removing, copied, full * len(move.adding))
        )
    return rows
