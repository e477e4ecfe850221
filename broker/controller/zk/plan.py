"""Plans the znode writes of a decision's records.

In: the images before and after, and the records between them. Out: conditional writes, in an order
in which a controller that dies between two of them leaves something its successor can finish.
Never: I/O.

Order: configurations, then assignments (a topic exists once its assignment does), then partition
states, then the rest. A partition's state is written once per record that changed it, so that the
node's version stays the partition epoch of the image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker.controller.zk import znodes
from broker.controller.zk.acls import ResourceKey, resource_of
from broker.controller.zk.config_plan import (
    ChangeNotification,
    KnownConfigNodes,
    add_acls,
    add_quotas,
    add_tokens,
    plan_configs,
)
from broker.controller.zk.port import Check, Create, Operation, SetData
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import (
    MetadataImage,
    PartitionImage,
    QuotaEntity,
    ResourceType,
    TopicImage,
)
from bus.protocol.quota_entities import USER

MAX_OPERATIONS = 400
MAX_BYTES = 400_000
"""Limit of one `multi`: ZooKeeper rejects packets above its `jute.maxbuffer` (1 MB), and serves no
other request while it executes one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Ordered writes, each list one `multi`; notifications are sent once they succeeded."""

    multis: tuple[tuple[Operation, ...], ...]
    notifications: tuple[ChangeNotification, ...] = ()
    new_topics: tuple[str, ...] = ()
    written_topics: tuple[str, ...] = ()
    deleted_topics: tuple[str, ...] = ()
    configs: Mapping[str, ConfigNode] = field(default_factory=dict)
    acls: Mapping[str, int | None] = field(default_factory=dict)
    """Nodes as they are after all writes; None where one is removed."""


@dataclass(slots=True)
class _TouchedNodes:
    new_topics: dict[str, None] = field(default_factory=dict)
    assignments: dict[str, None] = field(default_factory=dict)
    new_partitions: dict[tuple[str, int], None] = field(default_factory=dict)
    changed: Counter[tuple[str, int]] = field(default_factory=Counter)
    configs: dict[tuple[ResourceType, str], None] = field(default_factory=dict)
    quotas: dict[QuotaEntity, None] = field(default_factory=dict)
    credentials: dict[tuple[int, str], None] = field(default_factory=dict)
    acls: dict[ResourceKey, None] = field(default_factory=dict)
    tokens: dict[str, None] = field(default_factory=dict)
    deleted: dict[str, None] = field(default_factory=dict)
    producer_ids: Any = None
    features: bool = False


@dataclass(frozen=True, slots=True)
class Fence:
    """The condition of every write: this controller's own epoch node, unchanged since."""

    epoch: int
    zk_version: int

    @property
    def check(self) -> Check:
        """The operation that fails once another controller was elected."""
        return Check(znodes.CONTROLLER_EPOCH, self.zk_version)


def plan(
    before: MetadataImage,
    after: MetadataImage,
    records: Iterable[object],
    fence: Fence,
    topic_versions: Mapping[str, int],
    nodes: KnownConfigNodes,
    *,
    assigned: bool = False,
) -> Plan:
    """The writes that turn `before` into `after`. `assigned`: the new partitions already have an
    assignment in ZooKeeper, made by hand, and lack only a state."""
    touched = _touched(before, after, records)
    if assigned:
        touched.assignments.clear()
    configs = plan_configs(after, touched.configs, touched.new_topics, nodes)
    add_quotas(configs, after, touched.quotas, nodes, touched.credentials)
    add_acls(configs, after, touched.acls, nodes)
    add_tokens(configs, before, after, touched.tokens)
    operations = list(configs.operations)
    for topic in touched.assignments:
        operations += _assignment_operations(after.topics[topic], topic_versions.get(topic))
    operations += _state_operations(before, after, touched, fence.epoch, assigned)
    operations += [Create(f"{znodes.DELETE_TOPICS}/{topic}") for topic in touched.deleted]
    operations += _cluster_operations(after, touched)
    return Plan(
        multis=tuple(_multis(operations, fence)),
        notifications=tuple(configs.notifications),
        new_topics=tuple(touched.new_topics),
        written_topics=tuple(touched.assignments),
        deleted_topics=tuple(touched.deleted),
        configs=configs.configs,
        acls=configs.acls,
    )


def _touched(
    before: MetadataImage, after: MetadataImage, records: Iterable[object]
) -> _TouchedNodes:
    touched = _TouchedNodes()
    for record in records:
        _touch(touched, before, after, record)
    for topic in touched.deleted:
        touched.configs.pop((ResourceType.TOPIC, topic), None)
        for index in [key for key in touched.changed if key[0] == topic]:
            del touched.changed[index]
    return touched


def _touch(
    touched: _TouchedNodes, before: MetadataImage, after: MetadataImage, record: Any
) -> None:
    match type(record).__name__:
        case "TopicRecord":
            touched.new_topics[record.name] = touched.assignments[record.name] = None
        case "PartitionRecord":
            name = after.topic_names[record.topic_id]
            touched.assignments[name] = None
            touched.new_partitions[name, record.partition_id] = None
        case "PartitionChangeRecord":
            name = before.topic_names.get(record.topic_id) or after.topic_names[record.topic_id]
            touched.changed[name, record.partition_id] += 1
            moved = (record.replicas, record.adding_replicas, record.removing_replicas)
            if any(one is not None for one in moved):
                touched.assignments[name] = None
        case "RemoveTopicRecord":
            touched.deleted[before.topic_names[record.topic_id]] = None
        case "ConfigRecord":
            kind = ResourceType(record.resource_type)
            if kind in (ResourceType.TOPIC, ResourceType.BROKER):
                touched.configs[kind, record.resource_name] = None
        case "ClientQuotaRecord":
            parts = ((part.entity_type, part.entity_name) for part in record.entity)
            touched.quotas[tuple(sorted(parts, key=lambda part: part[0]))] = None
        case "UserScramCredentialRecord" | "RemoveUserScramCredentialRecord":
            touched.quotas[(USER, record.name),] = None
            touched.credentials[record.mechanism, record.name] = None
        case "AccessControlEntryRecord":
            touched.acls[resource_of(after.acls[record.id])] = None
        case "RemoveAccessControlEntryRecord":
            if record.id in before.acls:
                touched.acls[resource_of(before.acls[record.id])] = None
        case "DelegationTokenRecord" | "RemoveDelegationTokenRecord":
            touched.tokens[record.token_id] = None
        case "ProducerIdsRecord":
            touched.producer_ids = record
        case "FeatureLevelRecord":
            touched.features = True


def topic_info(topic: TopicImage) -> znodes.TopicAssignment:
    """A topic's assignment node as of its image."""
    return znodes.TopicAssignment(
        partitions={one.index: one.replicas for one in topic.partitions},
        topic_id=topic.topic_id,
        adding={one.index: one.adding_replicas for one in topic.partitions},
        removing={one.index: one.removing_replicas for one in topic.partitions},
    )


def _assignment_operations(topic: TopicImage, version: int | None) -> list[Operation]:
    path = znodes.topic_path(topic.name)
    data = znodes.encode_topic(topic_info(topic))
    if version is not None:
        return [SetData(path, data, version)]
    return [Create(path, data), Create(f"{path}/partitions")]


def state_info(partition: PartitionImage, controller_epoch: int) -> znodes.PartitionStateNode:
    """A partition's state node as of its image."""
    return znodes.PartitionStateNode(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=controller_epoch,
    )


def _state_operations(
    before: MetadataImage,
    after: MetadataImage,
    touched: _TouchedNodes,
    controller_epoch: int,
    assigned: bool,
) -> list[Operation]:
    operations: list[Operation] = []
    for topic, index in touched.new_partitions:
        data = znodes.encode_state(
            state_info(after.topics[topic].partitions[index], controller_epoch)
        )
        if not assigned:
            operations.append(Create(znodes.partition_path(topic, index)))
        operations.append(Create(znodes.state_path(topic, index), data))
    for (topic, index), times in touched.changed.items():
        if (topic, index) in touched.new_partitions:
            continue
        path = znodes.state_path(topic, index)
        data = znodes.encode_state(
            state_info(after.topics[topic].partitions[index], controller_epoch)
        )
        version = before.topics[topic].partitions[index].partition_epoch
        operations += [SetData(path, data, version + done) for done in range(times)]
    return operations


def _cluster_operations(after: MetadataImage, touched: _TouchedNodes) -> list[Operation]:
    operations: list[Operation] = []
    if touched.producer_ids is not None:
        record = touched.producer_ids
        data = znodes.encode_producer_block(record.broker_id, record.next_producer_id)
        operations.append(SetData(znodes.PRODUCER_IDS, data))
    if touched.features:
        operations.append(SetData(znodes.FEATURE, znodes.encode_features(after.features)))
    return operations


def _multis(operations: list[Operation], fence: Fence) -> list[tuple[Operation, ...]]:
    multis: list[tuple[Operation, ...]] = []
    part: list[Operation] = []
    size = 0
    for operation in operations:
        weight = len(operation.path) + len(getattr(operation, "data", b"")) + 64
        if part and (len(part) >= MAX_OPERATIONS or size + weight > MAX_BYTES):
            multis.append((fence.check, *part))
            part, size = [], 0
        part.append(operation)
        size += weight
    if part:
        multis.append((fence.check, *part))
    return multis
