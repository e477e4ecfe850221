"""How far a move is, from what the disks hold."""

from __future__ import annotations

from bus.client.admin.progress import DirectoryMove, MoveProgress, progress, within_brokers
from bus.client.model import LogDirDescription, PartitionReassignment, ReplicaInfo


def held(**sizes: int) -> list[LogDirDescription]:
    replicas = {(topic, 0): ReplicaInfo(size, 0) for topic, size in sizes.items()}
    return [LogDirDescription("/data", 0, -1, -1, replicas)]


def test_copied_is_what_the_new_replicas_hold_of_the_fullest_old_one():
    moving = {("a", 0): PartitionReassignment((1, 2, 3, 4), (3, 4), (2,))}
    dirs = {1: held(a=100), 2: held(a=90), 3: held(a=40), 4: held(a=120)}
    assert progress(moving, dirs) == [MoveProgress(("a", 0), (3, 4), (2,), 140, 200)]


def test_a_move_within_a_broker_is_told_with_both_directories():
    a, b = ("a", 0), ("b", 0)
    one = LogDirDescription("/one", 0, -1, -1, {a: ReplicaInfo(100, 0), b: ReplicaInfo(7, 0)})
    two = LogDirDescription("/two", 0, -1, -1, {a: ReplicaInfo(40, 60, future=True)})
    assert within_brokers({3: [one, two], 4: []}) == [DirectoryMove(a, 3, "/one", "/two", 40, 100)]
    assert within_brokers({3: [two]}) == []


def test_a_broker_that_says_nothing_counts_as_nothing():
    moving = {("a", 0): PartitionReassignment((1, 2), (2,), ())}
    assert progress(moving, {})[0].total_bytes == 0
