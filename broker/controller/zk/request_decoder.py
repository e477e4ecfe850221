"""Decodes the ZooKeeper controller's requests into metadata records.

Pure. In: LeaderAndIsr and UpdateMetadata requests, how many partitions new topics have, and this
broker's present image. Out: records that replay into its next image, or the error of the request.
Replicas are changed by the image's subscribers, as under KRaft.

Epochs fence: a request of a controller that has been replaced, or one for this broker before its
restart, changes nothing (C-PSM-21, KIP-380).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from broker.controller.zk.requests import FULL, LEADER_DURING_DELETE
from broker.metadata.image import MetadataImage, PartitionImage, TopicImage
from broker.metadata.image_writer import partition_as_record
from bus.errors import ErrorCode
from bus.protocol.generated.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
)
from bus.protocol.generated.metadata_records import (
    BrokerEndpoint,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from bus.protocol.generated.stop_replica import StopReplicaRequest
from bus.protocol.generated.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

NO_LEADER = -1
UNKNOWN_EPOCH = -1
NO_BROKER_EPOCH = -1

PartitionCounts = Mapping[bytes, int]
"""How many partitions topics have, by topic id."""


@dataclass(slots=True)
class Fencing:
    """The newest controller and broker epoch. `former_broker_epoch`: of the registration before,
    while there is none. Invariant: `controller_epoch` never decreases."""

    broker_epoch: int = NO_BROKER_EPOCH
    former_broker_epoch: int = NO_BROKER_EPOCH
    controller_id: int = -1
    controller_epoch: int = 0

    def end_registration(self) -> None:
        """The session has ended; refuse all requests until registered again."""
        self.former_broker_epoch = max(self.former_broker_epoch, self.broker_epoch)
        self.broker_epoch = NO_BROKER_EPOCH

    def check(
        self, request: LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
    ) -> ErrorCode:
        """Whether to accept a request; records a newer controller."""
        if self.broker_epoch == NO_BROKER_EPOCH:
            # A controller may see the next registration before this broker has heard that it is
            # made. It repeats what gets this error; what it is refused as stale it gives up.
            is_next = request.broker_epoch > self.former_broker_epoch
            return ErrorCode.BROKER_NOT_AVAILABLE if is_next else ErrorCode.STALE_BROKER_EPOCH
        if request.broker_epoch != NO_BROKER_EPOCH and request.broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = request.controller_epoch
        self.controller_id = request.controller_id
        return ErrorCode.NONE


@dataclass(slots=True)
class DecodedRequest:
    """The content of one request. `removed_topics` leave the image; their logs stay until a
    StopReplica deletes them. `errors` are LeaderAndIsr's, by topic id and partition."""

    records: list[object] = field(default_factory=list)
    removed_topics: list[TopicImage] = field(default_factory=list)
    errors: dict[tuple[bytes, int], ErrorCode] = field(default_factory=dict)


def incomplete_topics(
    image: MetadataImage, request: LeaderAndIsrRequest | UpdateMetadataRequest
) -> list[str]:
    """Topics of which the image would have some partitions only, as far as the request says: it
    names partitions that are new here, and need not name all of them, unless it is a FULL one."""
    if isinstance(request, UpdateMetadataRequest) and request.type == FULL:
        return []
    names = []
    for topic in request.topic_states:
        held = image.topic_by_id(topic.topic_id)
        known = 0 if held is None else len(held.partitions)
        if any(state.partition_index >= known for state in topic.partition_states):
            names.append(topic.topic_name)
    return names


def records_from_leader_and_isr(
    image: MetadataImage, request: LeaderAndIsrRequest, node_id: int, counts: PartitionCounts
) -> DecodedRequest:
    """The states of this broker's own replicas."""
    decoded = DecodedRequest()
    for topic in request.topic_states:
        partitions: dict[int, PartitionImage] = {}
        for state in topic.partition_states:
            error = _check_partition(image, topic.topic_id, state, node_id)
            decoded.errors[topic.topic_id, state.partition_index] = error
            if error is ErrorCode.NONE:
                partitions[state.partition_index] = _partition_of_isr(state)
        count = counts.get(topic.topic_id, 0)
        _add_topic_records(image, decoded, topic.topic_name, topic.topic_id, partitions, count)
    return decoded


def _check_partition(
    image: MetadataImage, topic_id: bytes, state: LeaderAndIsrPartitionState, node_id: int
) -> ErrorCode:
    if node_id not in state.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    held = image.partition(topic_id, state.partition_index)
    if held is not None and state.leader_epoch < held.leader_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    return ErrorCode.NONE


def _partition_of_isr(state: LeaderAndIsrPartitionState) -> PartitionImage:
    return PartitionImage(
        index=state.partition_index,
        replicas=tuple(state.replicas),
        isr=tuple(state.isr),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        adding_replicas=tuple(state.adding_replicas),
        removing_replicas=tuple(state.removing_replicas),
    )


def records_from_update_metadata(
    image: MetadataImage, request: UpdateMetadataRequest, counts: PartitionCounts
) -> DecodedRequest:
    """All partitions a request names and the live brokers; a FULL one names everything."""
    decoded = DecodedRequest()
    decoded.records += _broker_records(image, request.live_brokers)
    named: set[str] = set()
    for topic in request.topic_states:
        partitions: dict[int, PartitionImage] = {}
        deleted = False
        held = image.topic_by_id(topic.topic_id)
        for state in topic.partition_states:
            deleted = deleted or state.leader == LEADER_DURING_DELETE
            partitions[state.partition_index] = _partition_of_metadata(held, state)
        if deleted:
            if held is not None:
                decoded.removed_topics.append(held)
            continue
        named.add(topic.topic_name)
        count = counts.get(topic.topic_id, 0)
        _add_topic_records(image, decoded, topic.topic_name, topic.topic_id, partitions, count)
    if request.type == FULL:
        named |= {topic.name for topic in decoded.removed_topics}
        decoded.removed_topics += [held for name, held in image.topics.items() if name not in named]
    return decoded


def _partition_of_metadata(
    held: TopicImage | None, state: UpdateMetadataPartitionState
) -> PartitionImage:
    """UpdateMetadata does not say which replicas come and go; what LeaderAndIsr said stays until
    one of them has gone: then the move is over, and a broker it has left hears no LeaderAndIsr."""
    index = state.partition_index
    before = held.partitions[index] if held and index < len(held.partitions) else None
    replicas = tuple(state.replicas)
    moving = before is not None and {*before.adding_replicas, *before.removing_replicas} <= {
        *replicas
    }
    return PartitionImage(
        index=index,
        replicas=replicas,
        isr=tuple(state.isr),
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.zk_version,
        adding_replicas=before.adding_replicas if before is not None and moving else (),
        removing_replicas=before.removing_replicas if before is not None and moving else (),
    )


def _add_topic_records(
    image: MetadataImage,
    decoded: DecodedRequest,
    name: str,
    topic_id: bytes,
    partitions: dict[int, PartitionImage],
    count: int,
) -> None:
    """Records for what differs. Of `count` partitions those that no request has named yet are in
    the image without a leader until UpdateMetadata, which follows, names them: a client that saw
    fewer partitions would send a key, or a group, to the wrong one."""
    if not partitions:
        return
    held = image.topics.get(name)
    if held is not None and held.topic_id != topic_id:
        decoded.records.append(RemoveTopicRecord(topic_id=held.topic_id))
        held = None
    if held is None:
        decoded.records.append(TopicRecord(name=name, topic_id=topic_id))
    known = len(held.partitions) if held is not None else 0
    for index in range(known, max(*partitions, count - 1) + 1):
        partitions.setdefault(index, PartitionImage(index, (), (), NO_LEADER, UNKNOWN_EPOCH,
                                                UNKNOWN_EPOCH))
    for index in sorted(partitions):
        before = held.partitions[index] if held is not None and index < known else None
        partition = partitions[index]
        if before is None or _differs(before, partition):
            decoded.records.append(partition_as_record(topic_id, partition))


def _differs(before: PartitionImage, after: PartitionImage) -> bool:
    return before != replace(after, directories=before.directories)


def _broker_records(
    image: MetadataImage, live: Iterable[UpdateMetadataBroker]
) -> list[object]:
    records: list[object] = []
    alive = set()
    for broker in live:
        alive.add(broker.id)
        record = _register(broker)
        held = image.brokers.get(broker.id)
        ends = tuple((e.name, e.host, e.port, e.security_protocol) for e in record.end_points)
        if held is None or held.rack != broker.rack or ends != tuple(
            (e.name, e.host, e.port, e.security_protocol) for e in held.endpoints
        ):
            records.append(record)
    records += [
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=held.epoch)
        for broker_id, held in sorted(image.brokers.items())
        if broker_id not in alive
    ]
    return records


def _register(broker: UpdateMetadataBroker) -> RegisterBrokerRecord:
    """UpdateMetadata does not say others' epochs; the controller checks them where it matters."""
    return RegisterBrokerRecord(
        broker_id=broker.id,
        broker_epoch=NO_BROKER_EPOCH,
        end_points=[
            BrokerEndpoint(
                name=end.listener, host=end.host, port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in broker.endpoints
        ],
        rack=broker.rack,
        fenced=False,
    )  # fmt: skip


def step_down_records(
    image: MetadataImage, topics: Iterable[TopicImage], node_id: int
) -> list[object]:
    """Records after which this broker leads none of `topics`: applied at once when its session
    ended, or before a topic leaves its image."""
    return [
        partition_as_record(topic.topic_id, replace(partition, leader=NO_LEADER))
        for topic in topics
        for partition in topic.partitions
        if topic.topic_id in image.topic_names
        and node_id in partition.replicas
        and partition.leader != NO_LEADER
    ]
