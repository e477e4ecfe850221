"""What a change of `min.insync.replicas` means for eligible leader replicas (KIP-966).

In: the image, the configuration that is about to change. Out: refusals and records. Never: any
other key.

An eligible leader replica holds everything below the high watermark only because the watermark
cannot rise while fewer than the minimum are in sync. A lower minimum lets it rise without that
replica: from then on it is not eligible. A higher one takes nothing from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from broker.controller.decisions.decision import RefusedError
from broker.controller.decisions.partition_policy import MIN_ISR, PartitionPolicy
from broker.metadata.image import (
    NO_LEADER,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import PartitionChangeRecord


def check_min_isr(
    image: MetadataImage, kind: ResourceType, name: str, values: Mapping[str, str | None]
) -> None:
    """With eligible leader replicas the minimum is the cluster's or a topic's, never one
    broker's. Raises `RefusedError`."""
    if kind is not ResourceType.BROKER or not image.elr_enabled or MIN_ISR not in values:
        return
    if name:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if values[MIN_ISR] is None:
        raise RefusedError(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )


def elr_records(
    image: MetadataImage,
    policy: PartitionPolicy,
    kind: ResourceType,
    name: str,
    values: Mapping[str, str | None],
) -> list[PartitionChangeRecord]:
    """Replicas that cease to be eligible. A partition without a leader keeps its own: its
    watermark stands still until one of them leads."""
    if not image.elr_enabled or MIN_ISR not in values:
        return []
    return [
        PartitionChangeRecord(
            topic_id=topic.topic_id, partition_id=partition.index, eligible_leader_replicas=[]
        )
        for topic, partition in _concerned(image, kind, name)
        if partition.elr
        and partition.leader != NO_LEADER
        and _lowered(image, policy, topic.name, kind, values[MIN_ISR])
    ]


def _concerned(
    image: MetadataImage, kind: ResourceType, name: str
) -> Iterator[tuple[TopicImage, PartitionImage]]:
    if kind is ResourceType.TOPIC:
        topic = image.topics.get(name)
        return iter(()) if topic is None else ((topic, one) for one in topic.partitions)
    return (
        pair for pair in image.partitions() if MIN_ISR not in image.topic_config(pair[0].name)
    )


def _lowered(
    image: MetadataImage, policy: PartitionPolicy, topic: str, kind: ResourceType, value: str | None
) -> bool:
    if value is None:  # the topic falls back to the cluster's
        shared = image.configs.get((ResourceType.BROKER, ""), {}).get(MIN_ISR)
        value = shared or str(policy.min_insync_replicas)
    return int(value) < policy.min_isr(image, topic)
