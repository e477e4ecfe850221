"""Builds the three requests by which a ZooKeeper controller updates brokers (keys 4, 5, 6).

Pure. In: the controller's image and what a broker needs. Out: request bodies in the newest version
3.9 has (7, 4 and 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from bus.protocol.generated.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from bus.protocol.generated.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from bus.protocol.generated.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

INCREMENTAL = 1
FULL = 2
"""Types of LeaderAndIsr and UpdateMetadata (KIP-866): whether what is not named has gone."""

LEADER_DURING_DELETE = -2
"""The leader of a partition whose topic is being deleted (G-22); brokers drop the topic."""

PartitionId = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Sender:
    """The sending controller, and the broker epoch of the receiver."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


def leader_and_isr(
    image: MetadataImage, partitions: Iterable[PartitionId], sender: Sender, *, full: bool = False
) -> LeaderAndIsrRequest:
    """The states of a broker's own replicas."""
    topics: dict[bytes, LeaderAndIsrTopicState] = {}
    leaders: dict[int, None] = {}
    for topic, partition in _held(image, partitions):
        state = topics.setdefault(
            topic.topic_id,
            LeaderAndIsrTopicState(
                topic_name=topic.name, topic_id=topic.topic_id, partition_states=[]
            ),
        )
        state.partition_states.append(_isr_state(partition, sender.controller_epoch))
        leaders[partition.leader] = None
    return LeaderAndIsrRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=sender.broker_epoch,
        type=FULL if full else INCREMENTAL,
        topic_states=list(topics.values()),
        live_leaders=[
            LeaderAndIsrLiveLeader(
                broker_id=leader,
                host_name=image.brokers[leader].endpoints[0].host,
                port=image.brokers[leader].endpoints[0].port,
            )
            for leader in sorted(leaders)
            if leader in image.brokers and image.brokers[leader].endpoints
        ],
    )


def _held(
    image: MetadataImage, partitions: Iterable[PartitionId]
) -> Iterable[tuple[TopicImage, PartitionImage]]:
    for topic_id, index in partitions:
        topic = image.topic_by_id(topic_id)
        if topic is not None and index < len(topic.partitions):
            yield topic, topic.partitions[index]


def _isr_state(partition: PartitionImage, controller_epoch: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=partition.index,
        controller_epoch=controller_epoch,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        partition_epoch=partition.partition_epoch,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
        is_new=partition.partition_epoch == 0,
        leader_recovery_state=int(partition.recovery),
    )


def update_metadata(
    image: MetadataImage,
    partitions: Iterable[PartitionId],
    sender: Sender,
    *,
    deleted: Iterable[TopicImage] = (),
    full: bool = False,
) -> UpdateMetadataRequest:
    """Metadata for every broker: these partitions and all live brokers."""
    topics: dict[bytes, UpdateMetadataTopicState] = {}
    for topic, partition in _held(image, partitions):
        _topic_state(topics, topic).partition_states.append(
            _metadata_state(image, partition, sender.controller_epoch, partition.leader)
        )
    for topic in deleted:
        _topic_state(topics, topic).partition_states.extend(
            _metadata_state(image, one, sender.controller_epoch, LEADER_DURING_DELETE)
            for one in topic.partitions
        )
    return UpdateMetadataRequest(
        controller_id=sender.controller_id,
        type=FULL if full else INCREMENTAL,
        controller_epoch=sender.controller_epoch,
        broker_epoch=sender.broker_epoch,
        topic_states=list(topics.values()),
        live_brokers=live_brokers(image),
    )


def _topic_state(
    topics: dict[bytes, UpdateMetadataTopicState], topic: TopicImage
) -> UpdateMetadataTopicState:
    return topics.setdefault(
        topic.topic_id,
        UpdateMetadataTopicState(
            topic_name=topic.name, topic_id=topic.topic_id, partition_states=[]
        ),
    )


def _metadata_state(
    image: MetadataImage, partition: PartitionImage, controller_epoch: int, leader: int
) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        partition_index=partition.index,
        controller_epoch=controller_epoch,
        leader=leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        zk_version=partition.partition_epoch,
        replicas=list(partition.replicas),
        offline_replicas=[one for one in partition.replicas if one not in image.brokers],
    )


def live_brokers(image: MetadataImage) -> list[UpdateMetadataBroker]:
    """Every registered broker; one that is shutting down still serves."""
    return [
        UpdateMetadataBroker(
            id=broker.broker_id,
            endpoints=[
                UpdateMetadataEndpoint(
                    port=end.port, host=end.host, listener=end.name,
                    security_protocol=end.security_protocol,
                )
                for end in broker.endpoints
            ],
            rack=broker.rack,
        )
        for _, broker in sorted(image.brokers.items())
    ]  # fmt: skip


def stop_replica(stops: Mapping[tuple[str, int], int], sender: Sender) -> StopReplicaRequest:
    """Stops and deletes these replicas; the value is the leader epoch under which that holds."""
    topics: dict[str, StopReplicaTopicState] = {}
    for (name, index), leader_epoch in stops.items():
        state = topics.setdefault(
            name, StopReplicaTopicState(topic_name=name, partition_states=[])
        )
        state.partition_states.append(
            StopReplicaPartitionState(
                partition_index=index, leader_epoch=leader_epoch, delete_partition=True
            )
        )
    return StopReplicaRequest(
        controller_id=sender.controller_id,
        controller_epoch=sender.controller_epoch,
        broker_epoch=sender.broker_epoch,
        topic_states=list(topics.values()),
    )
