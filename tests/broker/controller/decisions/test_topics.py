"""Decisions about topics: which are accepted, which are refused and with which code."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from broker.controller.decisions.create_partitions import NewPartitions, create_partitions
from broker.controller.decisions.placement import UsableBroker, assign_replicas
from broker.controller.decisions.topics import (
    Defaults,
    NewTopic,
    create_topics,
    delete_topics,
)
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import RegisterBrokerRecord, TopicRecord

DEFAULTS = Defaults(partitions=3, replication_factor=1)
NO_SUCH_ID = bytes(15) + b"\x09"


def replay(image: MetadataImage, records: Any) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + 1, 1).image


def brokers(*ids: int) -> MetadataImage:
    return replay(
        MetadataImage(), [RegisterBrokerRecord(broker_id=one, fenced=False) for one in ids]
    )


def create(image: MetadataImage, *topics: NewTopic, **flags: Any) -> Any:
    ids = (number.to_bytes(16, "big") for number in count(1))
    return create_topics(image, topics, DEFAULTS, ids, 0, **flags)


def with_topic(**changes: Any) -> MetadataImage:
    image = brokers(1, 2, 3)
    return replay(image, create(image, NewTopic("t", **changes)).records)


def test_minus_one_means_the_clusters_defaults() -> None:
    """Applies to partitions and replication factor."""
    decision = create(brokers(1), NewTopic("t"))
    result = decision.reply[0]
    assert (result.partitions, result.replication_factor) == (3, 1)
    topic = replay(brokers(1), decision.records).topics["t"]
    assert [p.replicas for p in topic.partitions] == [(1,), (1,), (1,)]


REFUSED = [
    (NewTopic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic(".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("a/b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("车"), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("t"), ErrorCode.TOPIC_ALREADY_EXISTS),
    (NewTopic("n", partitions=0), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("n", partitions=20_000), ErrorCode.POLICY_VIOLATION),
    (NewTopic("n", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", replication_factor=4), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("n", partitions=1, assignments={0: (1,)}), ErrorCode.INVALID_REQUEST),
    (NewTopic("n", assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments={0: (9,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", assignments={0: (1,), 1: (1, 2)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("n", configs={"retention.mss": "1"}), ErrorCode.INVALID_CONFIG),
    (NewTopic("n", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
    (NewTopic("n", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
]


@pytest.mark.parametrize(("topic", "error"), REFUSED)
def test_what_is_wrong_is_refused_with_kafkas_code_and_leaves_no_record(
    topic: NewTopic, error: ErrorCode
) -> None:
    """Each topic has its own result; the valid one in the same request is created."""
    decision = create(with_topic(), topic, NewTopic("good", partitions=1))
    assert [result.error for result in decision.reply] == [error, ErrorCode.NONE]
    made = replay(with_topic(), decision.records)
    assert set(made.topics) == {"t", "good"}


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    """They would share one metric name."""
    image = brokers(1)
    image = replay(image, create(image, NewTopic("a.b")).records)
    assert create(image, NewTopic("a_b")).reply[0].error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_name_twice_in_one_request_is_refused_both_times() -> None:
    """The request is ambiguous, so neither is created."""
    decision = create(brokers(1), NewTopic("a"), NewTopic("a", partitions=2))
    assert {result.error for result in decision.reply} == {ErrorCode.INVALID_REQUEST}
    assert decision.records == ()


def test_validate_only_answers_and_changes_nothing() -> None:
    """The reply equals the one the real request would get."""
    decision = create(brokers(1), NewTopic("a"), validate_only=True)
    assert decision.records == ()
    assert decision.reply[0].error is ErrorCode.NONE


def test_deletion_is_by_name_or_by_id() -> None:
    """Unknown names and unknown ids have different codes."""
    image = with_topic()
    topic_id = image.topics["t"].topic_id
    for names, ids in ((["t", "x"], [NO_SUCH_ID]), (["x"], [topic_id, NO_SUCH_ID])):
        decision = delete_topics(image, names, ids)
        assert {result.name: result.error for result in decision.reply} == {
            "t": ErrorCode.NONE,
            "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            None: ErrorCode.UNKNOWN_TOPIC_ID,
        }
        assert "t" not in replay(image, decision.records).topics


def test_a_deletion_by_the_name_and_the_id_of_one_topic_deletes_nothing() -> None:
    """Kafka refuses it, too: the two entries may contradict each other."""
    image = with_topic()
    decision = delete_topics(image, ["t"], [image.topics["t"].topic_id])
    assert [result.error for result in decision.reply] == [ErrorCode.INVALID_REQUEST]
    assert not decision.records


def test_topics_grow_and_never_shrink() -> None:
    """New partitions continue the numbering and keep the replication factor."""
    image = with_topic(partitions=2, replication_factor=2)
    decision = create_partitions(image, [NewPartitions("t", 4)], DEFAULTS, 0)
    grown = replay(image, decision.records).topics["t"]
    assert [partition.index for partition in grown.partitions] == [0, 1, 2, 3]
    assert {len(partition.replicas) for partition in grown.partitions} == {2}
    for total in (1, 2):
        refused = create_partitions(image, [NewPartitions("t", total)], DEFAULTS, 0)
        assert refused.reply[0].error is ErrorCode.INVALID_PARTITIONS
    wrong = create_partitions(image, [NewPartitions("t", 3, ((1,),))], DEFAULTS, 0)
    assert wrong.reply[0].error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    unknown = create_partitions(image, [NewPartitions("x", 3)], DEFAULTS, 0)
    assert unknown.reply[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_whose_partitions_are_not_there_yet_does_not_grow() -> None:
    """In ZooKeeper mode its name is known first; regression: the decision raised an error."""
    image = replay(brokers(1, 2), [TopicRecord(name="t", topic_id=NO_SUCH_ID)])
    assert image.topics["t"].partitions == ()
    refused = create_partitions(image, [NewPartitions("t", 4)], DEFAULTS, 0)
    assert refused.reply[0].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refused.records == ()


def test_leaders_go_round_and_replicas_of_a_partition_differ() -> None:
    """Each of five brokers leads equally often."""
    placed = assign_replicas([UsableBroker(one) for one in (1, 2, 3, 4, 5)], 25, 3, start=7)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(broker) for broker in (1, 2, 3, 4, 5)} == {5}
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert assign_replicas([UsableBroker(4)], 2, 1, start=3) == [(4,), (4,)]
