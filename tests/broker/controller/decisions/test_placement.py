"""Placement over racks and with fenced brokers."""

from __future__ import annotations

from broker.controller.decisions.placement import UsableBroker, assign_replicas
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import ControlWorld

RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def test_replicas_of_a_partition_stand_in_different_racks() -> None:
    """Each broker leads equally often and follows about as often."""
    brokers = [UsableBroker(one, rack) for one, rack in RACKS.items()]
    placed = assign_replicas(brokers, 60, 3, start=5)
    assert all(len({RACKS[one] for one in replicas}) == 3 for replicas in placed)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(one) for one in RACKS} == {10}
    followers = [one for replicas in placed for one in replicas[1:]]
    assert all(15 <= followers.count(one) <= 25 for one in RACKS)


def test_more_replicas_than_racks_use_each_rack_equally() -> None:
    """Each of two racks gets two of four replicas."""
    brokers = [UsableBroker(one, RACKS[one]) for one in (1, 2, 3, 4)]
    for replicas in assign_replicas(brokers, 8, 4, start=0):
        assert [RACKS[one] for one in replicas].count("a") == 2


def test_fenced_brokers_come_last_and_never_lead() -> None:
    """They get a replica only if there are too few others, and it is not in sync."""
    world = ControlWorld()
    world.start(1, 2, 3)
    world.fence(2)
    assert world.create("two", 6, 2).error is ErrorCode.NONE
    assert all(2 not in one.replicas for one in world.image.topics["two"].partitions)
    assert world.create("three", 6, 3).error is ErrorCode.NONE
    for partition in world.image.topics["three"].partitions:
        assert partition.replicas[2] == 2
        assert 2 not in partition.isr
    assert world.create("four", 1, 4).error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert world.grow("two", 8) is ErrorCode.NONE
    world.fence(1)
    world.fence(3)
    assert world.create("none", 1, 1).error is ErrorCode.INVALID_REPLICATION_FACTOR
