"""From one image to the next, record by record."""

from __future__ import annotations

import pytest

from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage, ResourceType
from bus.protocol.generated.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)

ID = bytes(range(16))


def partition_record(topic_id: bytes, index: int, replicas: list[int]) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=index,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
    )


def apply(image: MetadataImage, *records: object) -> Changes:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + len(records), 1)


def with_topic() -> MetadataImage:
    return apply(
        MetadataImage(),
        TopicRecord(name="t", topic_id=ID),
        partition_record(ID, 0, [1]),
        partition_record(ID, 1, [1]),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    ).image


def test_a_topic_comes_with_its_partitions_and_configuration() -> None:
    """By name and by id."""
    image = with_topic()
    assert [partition.index for partition in image.topics["t"].partitions] == [0, 1]
    assert image.topic_by_id(ID) is image.topics["t"]
    assert image.topic_config("t") == {"retention.ms": "5"}


def test_the_old_image_is_never_touched() -> None:
    """Its holders keep using it."""
    old = with_topic()
    new = apply(old, RemoveTopicRecord(topic_id=ID)).image
    assert "t" in old.topics
    assert "t" not in new.topics
    assert new.topic_config("t") == {}
    assert new.topic_by_id(ID) is None


def test_changes_name_what_differs_and_nothing_else() -> None:
    """Each package reads only its own changes."""
    changes = apply(with_topic(), PartitionChangeRecord(partition_id=1, topic_id=ID, leader=1))
    assert [(t.name, p.index) for t, p in changes.changed_partitions] == [("t", 1)]
    assert changes.deleted_topics == ()
    assert changes.changed_configs == ()


def test_a_named_leader_raises_the_leader_epoch_even_if_it_is_the_same() -> None:
    """As Kafka's PartitionRegistration does; every change raises the partition epoch."""
    image = apply(with_topic(), PartitionChangeRecord(partition_id=0, topic_id=ID, leader=1)).image
    first = image.topics["t"].partitions[0]
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (1, 1, 1)
    again = apply(image, PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1])).image
    second = again.topics["t"].partitions[0]
    assert (second.leader_epoch, second.partition_epoch) == (1, 2)


def test_a_topic_deleted_and_made_again_in_one_batch_is_both() -> None:
    """The old one is deleted, the new one's partitions are new."""
    new_id = bytes(16)[:-1] + b"\1"
    changes = apply(
        with_topic(),
        RemoveTopicRecord(topic_id=ID),
        TopicRecord(name="t", topic_id=new_id),
        partition_record(new_id, 0, [1]),
    )
    assert [topic.topic_id for topic in changes.deleted_topics] == [ID]
    assert [topic.topic_id for topic, _ in changes.changed_partitions] == [new_id]


def test_a_null_value_unsets_a_configuration() -> None:
    """And an empty resource is no resource."""
    changes = apply(
        with_topic(),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None),
    )
    assert changes.changed_configs == ((ResourceType.TOPIC, "t"),)
    assert (ResourceType.TOPIC, "t") not in changes.image.configs


def test_a_broker_registers_fenced_and_is_unfenced() -> None:
    """Only then may it lead."""
    registered = apply(MetadataImage(), RegisterBrokerRecord(broker_id=3, broker_epoch=9)).image
    assert registered.alive_brokers() == []
    record = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=9, fenced=-1)
    alive = apply(registered, record).image.alive_brokers()
    assert [(broker.broker_id, broker.epoch) for broker in alive] == [(3, 9)]


def test_features_producer_ids_and_records_without_effect() -> None:
    """Level 0 takes a feature back; a NoOp changes only the offset."""
    image = apply(
        MetadataImage(),
        FeatureLevelRecord(name="metadata.version", feature_level=21),
        ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        NoOpRecord(),
    ).image
    assert (image.features, image.next_producer_id) == ({"metadata.version": 21}, 1000)
    assert image.offset == 2
    gone = apply(image, FeatureLevelRecord(name="metadata.version", feature_level=0)).image
    assert gone.features == {}


def test_records_of_topics_that_are_not_there_are_told_apart_from_broken_code() -> None:
    """They are stored: every replay must continue without them at every start."""
    delta = MetadataDelta(MetadataImage())
    for record in (
        RemoveTopicRecord(topic_id=ID),
        partition_record(ID, 0, [1]),
        PartitionChangeRecord(topic_id=ID, partition_id=0, leader=1),
    ):
        with pytest.raises(LookupError):
            delta.replay(record)
    assert delta.apply(3, 1).image.topics == {}


def test_a_partition_whose_number_leaves_a_gap_is_left_out_and_named() -> None:
    """With any order of the others."""
    delta = MetadataDelta(MetadataImage())
    delta.replay(TopicRecord(name="t", topic_id=ID))
    for index in (1, 0, 3):
        delta.replay(partition_record(ID, index, [1]))
    changes = delta.apply(4, 1)
    assert [one.index for one in changes.image.topics["t"].partitions] == [0, 1]
    assert [one.index for _, one in changes.changed_partitions] == [1, 0]
    assert delta.skipped == ["partition 3 of t"]
