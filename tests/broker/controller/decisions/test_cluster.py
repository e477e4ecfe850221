"""Decisions about the first records of a cluster and about producer ids."""

from __future__ import annotations

from broker.controller.decisions.cluster import allocate_producer_ids, bootstrap
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import MetadataImage, ResourceType


def replay(image: MetadataImage, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(1, 1).image


def test_an_empty_cluster_gets_its_feature_levels_once() -> None:
    """It gets the newest levels, with eligible leader replicas and the min ISR they depend on."""
    first = bootstrap(MetadataImage(), PartitionPolicy(min_insync_replicas=2))
    image = replay(MetadataImage(), *first.records)
    assert dict(image.features) == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
    }
    assert image.configs[ResourceType.BROKER, ""] == {"min.insync.replicas": "2"}
    assert bootstrap(image).records == ()


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
