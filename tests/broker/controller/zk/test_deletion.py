"""A topic leaves when every replica has said so."""

from __future__ import annotations

from broker.controller.zk.deletion import Deletions
from broker.controller.zk.states import ReplicaState, partition_machine, replica_machine
from broker.metadata.image import PartitionImage, TopicImage
from bus.errors import ErrorCode

TOPIC = TopicImage("t", bytes(16), (
    PartitionImage(0, (1, 2), (1, 2), 1, 0, 0), PartitionImage(1, (2, 3), (2, 3), 2, 0, 0),
))  # fmt: skip


def deletions() -> Deletions:
    return Deletions(partition_machine(), replica_machine())


def test_a_topic_is_complete_when_the_last_replica_has_answered() -> None:
    """Not before; then nothing of it is held any more."""
    held = deletions()
    assert set(held.begin(TOPIC, {1, 2, 3})) == {
        ("t", 0, 1), ("t", 0, 2), ("t", 1, 2), ("t", 1, 3)
    }  # fmt: skip
    assert held.answered(1, {("t", 0): ErrorCode.NONE}) == []
    assert held.answered(2, {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}) == []
    assert held.answered(3, {("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}) == [TOPIC]
    held.finish(TOPIC)
    assert held.topics == {}
    assert len(held.replicas) == 0


def test_a_dead_broker_is_waited_for_and_asked_when_it_is_back() -> None:
    """C-DEL-13, C-DEL-28."""
    held = deletions()
    assert ("t", 1, 3) not in held.begin(TOPIC, {1, 2})
    assert held.replicas.state(("t", 1, 3)) is ReplicaState.DELETION_INELIGIBLE
    assert held.broker_came(3, {1, 2, 3}) == [("t", 1, 3)]
    assert held.broker_came(3, {1, 2, 3}) == []


def test_a_broker_that_left_before_it_answered_is_asked_again() -> None:
    """Its answer may have been lost with it."""
    held = deletions()
    held.begin(TOPIC, {1, 2, 3})
    held.broker_left(3)
    assert held.broker_came(3, {1, 2, 3}) == [("t", 1, 3)]


def test_a_failed_deletion_is_tried_again_when_the_broker_comes_back() -> None:
    """C-DEL-20; what has succeeded is not asked for again (C-DEL-12)."""
    held = deletions()
    held.begin(TOPIC, {1, 2, 3})
    failed = {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}
    assert held.answered(2, failed) == []
    assert held.broker_came(2, {1, 2, 3}) == [("t", 1, 2)]


def test_an_answer_nobody_waits_for_changes_nothing() -> None:
    """Of a reassignment's old replica, or sent twice."""
    held = deletions()
    assert held.answered(1, {("other", 0): ErrorCode.NONE}) == []
    held.begin(TOPIC, {1, 2, 3})
    held.answered(1, {("t", 0): ErrorCode.NONE})
    assert held.answered(1, {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}) == []
    assert held.replicas.state(("t", 0, 1)) is ReplicaState.DELETION_SUCCESSFUL
