"""A topic is deleted once every replica has confirmed its deletion."""

from __future__ import annotations

from broker.controller.zk.deletion import TopicDeletionManager
from broker.controller.zk.state_machines import (
    ControllerReplicaState,
    partition_machine,
    replica_machine,
)
from broker.metadata.image import PartitionImage, TopicImage
from bus.errors import ErrorCode

TOPIC = TopicImage("t", bytes(16), (
    PartitionImage(0, (1, 2), (1, 2), 1, 0, 0), PartitionImage(1, (2, 3), (2, 3), 2, 0, 0),
))  # fmt: skip


def deletions() -> TopicDeletionManager:
    return TopicDeletionManager(partition_machine(), replica_machine())


def test_a_topic_is_complete_when_the_last_replica_has_answered() -> None:
    """It is not complete earlier; afterwards nothing of it is kept in memory."""
    held = deletions()
    assert set(held.begin(TOPIC, {1, 2, 3})) == {
        ("t", 0, 1), ("t", 0, 2), ("t", 1, 2), ("t", 1, 3)
    }  # fmt: skip
    assert held.on_stop_replica_response(1, {("t", 0): ErrorCode.NONE}) == []
    assert held.on_stop_replica_response(2, {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}) == []
    assert held.on_stop_replica_response(3, {("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}) == [TOPIC]
    held.finish(TOPIC)
    assert held.topics == {}
    assert len(held.replicas) == 0


def test_a_dead_broker_is_waited_for_and_asked_when_it_is_back() -> None:
    """Checks C-DEL-13 and C-DEL-28."""
    held = deletions()
    assert ("t", 1, 3) not in held.begin(TOPIC, {1, 2})
    assert held.replicas.state(("t", 1, 3)) is ControllerReplicaState.DELETION_INELIGIBLE
    assert held.on_broker_startup(3, {1, 2, 3}) == [("t", 1, 3)]
    assert held.on_broker_startup(3, {1, 2, 3}) == []


def test_a_broker_that_left_before_it_answered_is_asked_again() -> None:
    """Its answer may have been lost."""
    held = deletions()
    held.begin(TOPIC, {1, 2, 3})
    held.on_broker_failure(3)
    assert held.on_broker_startup(3, {1, 2, 3}) == [("t", 1, 3)]


def test_a_failed_deletion_is_tried_again_when_the_broker_comes_back() -> None:
    """It is retried (C-DEL-20); deletions that succeeded are not repeated (C-DEL-12)."""
    held = deletions()
    held.begin(TOPIC, {1, 2, 3})
    failed = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    assert held.on_stop_replica_response(2, failed) == []
    assert held.on_broker_startup(2, {1, 2, 3}) == [("t", 1, 2)]


def test_an_answer_nobody_waits_for_changes_nothing() -> None:
    """It may belong to a reassignment's old replica, or be a duplicate."""
    held = deletions()
    assert held.on_stop_replica_response(1, {("other", 0): ErrorCode.NONE}) == []
    held.begin(TOPIC, {1, 2, 3})
    held.on_stop_replica_response(1, {("t", 0): ErrorCode.NONE})
    assert held.on_stop_replica_response(1, {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}) == []
    assert held.replicas.state(("t", 0, 1)) is ControllerReplicaState.DELETION_SUCCESSFUL
