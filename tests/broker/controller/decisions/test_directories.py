"""Log directories: assigned, lost, cordoned."""

from __future__ import annotations

from broker.controller.decisions import directories, heartbeat
from broker.metadata.image import UNASSIGNED_DIRECTORY
from bus.errors import ErrorCode
from tests.broker.controller.decisions.world import ControlWorld

ONE, OTHER = b"a" * 16, b"b" * 16


def world_with_two_directories() -> ControlWorld:
    world = ControlWorld()
    world.register(1, log_dirs=(ONE, OTHER))
    world.unfence(1)
    world.start(2, 3)
    world.create_at("t", (1, 2), (1, 3))
    return world


def assign(world: ControlWorld, index: int, directory: bytes) -> ErrorCode:
    place = (world.image.topics["t"].topic_id, index)
    epoch = world.image.brokers[1].epoch
    error, results = world.decide(
        directories.assign_directories(world.image, world.rules, 1, epoch, [(directory, place)])
    )
    return error or results[directory, place]


def test_a_replica_lies_nowhere_until_its_broker_says_where() -> None:
    """A broker with one directory need not report it."""
    world = world_with_two_directories()
    assert world.partition("t").directories == (UNASSIGNED_DIRECTORY, bytes([2]) * 16)
    assert assign(world, 0, ONE) is ErrorCode.NONE
    assert world.partition("t").directory_of(1) == ONE
    assert assign(world, 7, ONE) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_lost_directory_costs_only_its_own_replicas() -> None:
    """The leadership moves and cannot return while the directory is lost."""
    world = world_with_two_directories()
    assign(world, 0, ONE)
    assign(world, 1, OTHER)
    epoch = world.image.brokers[1].epoch
    beat = heartbeat.Heartbeat(1, epoch, 1 << 60, offline_log_dirs=(ONE,))
    world.decide(heartbeat.answer_heartbeat(world.image, world.rules, beat, True))
    assert world.partition("t", 0).leader == 2
    assert world.partition("t", 0).isr == (2,)
    assert world.partition("t", 1).leader == 1
    world.fence(2)
    assert world.partition("t", 0).leader == -1
    assert world.image.brokers[1].log_dirs == (OTHER,)


def test_a_cordoned_directory_gets_no_new_replicas() -> None:
    """A broker whose directories are all cordoned gets none."""
    world = world_with_two_directories()
    epoch = world.image.brokers[1].epoch
    world.decide(
        heartbeat.answer_heartbeat(
            world.image,
            world.rules,
            heartbeat.Heartbeat(1, epoch, 1 << 60, cordoned_log_dirs=(ONE, OTHER)),
            True,
        )
    )
    world.create("new", 4, 2)
    replicas = {one for part in world.image.topics["new"].partitions for one in part.replicas}
    assert replicas == {2, 3}
