"""Decisions about brokers and producer ids."""

from __future__ import annotations

from broker.controller.decisions.cluster import (
    Registration,
    allocate_producer_ids,
    bootstrap,
    register_broker,
    renew_leadership,
    unfence_broker,
)
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, MetadataImage
from bus.protocol.generated.metadata_records import PartitionRecord, TopicRecord


def replay(image: MetadataImage, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(1, 1).image


def test_an_empty_cluster_gets_its_feature_levels_once() -> None:
    """Only those that are true of it."""
    first = bootstrap(MetadataImage())
    image = replay(MetadataImage(), *first.records)
    assert dict(image.features) == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
    }
    assert bootstrap(image).records == ()


def test_a_broker_is_registered_fenced_then_unfenced_once() -> None:
    """Its epoch is the offset of its registration."""
    registration = Registration(1, b"i" * 16, (Endpoint("PLAINTEXT", "h", 9092),), (b"d" * 16,))
    decision = register_broker(MetadataImage(), registration, 17)
    image = replay(MetadataImage(), *decision.records)
    assert image.brokers[1].epoch == 17
    assert image.brokers[1].fenced
    served = replay(image, *unfence_broker(image, 1).records)
    assert not served.brokers[1].fenced
    assert unfence_broker(served, 1).records == ()


def test_after_an_unclean_stop_every_partition_led_gets_a_new_epoch() -> None:
    """So that consumers see a truncation (KIP-320); partitions of others stay."""
    image = replay(
        MetadataImage(),
        TopicRecord(name="t", topic_id=b"t" * 16),
        PartitionRecord(partition_id=0, topic_id=b"t" * 16, leader=1, leader_epoch=0),
        PartitionRecord(partition_id=1, topic_id=b"t" * 16, leader=2, leader_epoch=0),
    )
    renewed = replay(image, *renew_leadership(image, 1).records)
    assert [p.leader_epoch for p in renewed.topics["t"].partitions] == [1, 0]


def test_producer_ids_come_in_blocks_within_the_sites_range() -> None:
    """Bits 48-55; blocks never overlap."""
    image = MetadataImage()
    first = allocate_producer_ids(image, 1, 0, site=3)
    assert first.reply.first == 3 << 48
    image = replay(image, *first.records)
    second = allocate_producer_ids(image, 1, 0, site=3)
    assert second.reply.first == first.reply.end
    lowered = allocate_producer_ids(image, 1, 0, site=2)
    assert lowered.reply.first == first.reply.end
