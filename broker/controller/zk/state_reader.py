"""Reads the znodes of brokers, topics and configurations as metadata records.

The result, `ZooKeeperMetadata`, has Kafka's metadata records that replay into the cluster's image,
and the versions that later writes are conditional on. The migration to KRaft reads with the same
function as a controller that takes over. Writes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from broker.controller.zk import znodes
from broker.controller.zk.port import Stat, ZooKeeperError, ZooKeeperErrorKind, ZooKeeperSession
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.image import ResourceType
from bus.protocol.generated.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)

MAX_READS_IN_FLIGHT = 512
"""Pipelined reads; an ensemble answers them one after the other, so more would only lengthen its
queue."""

NO_LEADER = -1
UNINITIALIZED_EPOCH = -1
"""Leader epoch and partition epoch of a partition that has an assignment but no state yet."""

Item = TypeVar("Item")
Found = TypeVar("Found")


@dataclass(slots=True)
class ZooKeeperMetadata:
    """The metadata in ZooKeeper."""

    cluster_id: str
    records: list[object] = field(default_factory=list)
    topic_versions: dict[str, int] = field(default_factory=dict)
    config_nodes: dict[str, ConfigNode] = field(default_factory=dict)
    acl_versions: dict[str, int] = field(default_factory=dict)
    controller_epochs: list[int] = field(default_factory=list)
    deleting: list[str] = field(default_factory=list)
    topics_without_id: dict[str, znodes.TopicAssignment] = field(default_factory=dict)
    unverified: dict[int, None] = field(default_factory=dict)
    """Brokers whose logs may lack what they had acknowledged (`znodes.BrokerInfo`)."""
    faults: list[str] = field(default_factory=list)
    """Malformed nodes: logged and ignored."""


@dataclass(slots=True)
class TopicMetadata:
    """One topic: its records, in replay order."""

    name: str
    info: znodes.TopicAssignment
    version: int
    records: list[object]
    config_version: int
    """-1 where the topic has no node under `/config/topics`."""
    fault: str = ""
    """A malformed configuration; the topic exists all the same."""


async def in_chunks(
    items: Sequence[Item], read: Callable[[Item], Awaitable[Found]]
) -> list[Found]:
    """`read` of each item, MAX_READS_IN_FLIGHT at a time, in their order."""
    found: list[Found] = []
    for start in range(0, len(items), MAX_READS_IN_FLIGHT):
        part = items[start : start + MAX_READS_IN_FLIGHT]
        found += await asyncio.gather(*(read(item) for item in part))
    return found


async def get_or_none(
    session: ZooKeeperSession, path: str, *, watch: bool = False
) -> tuple[bytes, Stat] | None:
    """A node's data, None if there is no node (then no watch is set)."""
    try:
        return await session.get(path, watch=watch)
    except ZooKeeperError as error:
        if error.kind is ZooKeeperErrorKind.NO_NODE:
            return None
        raise


async def children_or_none(
    session: ZooKeeperSession, path: str, *, watch: bool = False
) -> list[str]:
    """A node's children, empty if there is no node."""
    try:
        return await session.children(path, watch=watch)
    except ZooKeeperError as error:
        if error.kind is ZooKeeperErrorKind.NO_NODE:
            return []
        raise


async def read_cluster(session: ZooKeeperSession, *, watch: bool = False) -> ZooKeeperMetadata:
    """Reads everything but quotas and ACLs (`acl_and_quota_reader`); with `watch` it sets the
    watches a controller needs (C-FO-03: the read itself sets the watch, so no change is missed)."""
    state = ZooKeeperMetadata(await read_cluster_id(session) or "")
    await read_brokers(session, state, watch=watch)
    state.deleting = await children_or_none(session, znodes.DELETE_TOPICS, watch=watch)
    names = await session.children(znodes.TOPICS, watch=watch)
    for topic in await in_chunks(
        names, lambda name: read_topic_or_fault(session, name, state, watch=watch)
    ):
        if topic is not None:
            add_topic(state, topic)
    await read_entity_configs(session, state)
    found = await get_or_none(session, znodes.PRODUCER_IDS)
    if found is not None and found[0]:
        next_id = znodes.decode_producer_block(found[0])
        state.records.append(ProducerIdsRecord(next_producer_id=next_id))
    return state


def add_topic(state: ZooKeeperMetadata, topic: TopicMetadata) -> None:
    """Adds one topic to the metadata."""
    if topic.info.topic_id is None:
        state.topics_without_id[topic.name] = topic.info
        return
    state.topic_versions[topic.name] = topic.version
    state.records += topic.records
    if topic.config_version >= 0:
        state.config_nodes[f"{znodes.CONFIG_TOPICS}/{topic.name}"] = ConfigNode(
            topic.config_version
        )


async def read_cluster_id(session: ZooKeeperSession) -> str | None:
    """The cluster's id, None in an ensemble that never had a broker."""
    found = await get_or_none(session, znodes.CLUSTER_ID)
    return None if found is None else znodes.decode_cluster_id(found[0])


async def read_brokers(
    session: ZooKeeperSession, state: ZooKeeperMetadata, *, watch: bool = False
) -> None:
    """The brokers whose ephemeral nodes exist now; a broker's epoch is its node's czxid."""
    names = await session.children(znodes.BROKER_IDS, watch=watch)
    ids = sorted(int(name) for name in names if name.isdigit())
    for record in await in_chunks(
        ids, lambda one: read_broker(session, one, state.faults, state.unverified)
    ):
        if record is not None:
            state.records.append(record)


async def read_broker(
    session: ZooKeeperSession,
    broker_id: int,
    faults: list[str],
    unverified: dict[int, None] | None = None,
) -> RegisterBrokerRecord | None:
    """One broker, None if it is gone meanwhile; records in `unverified` whether its logs are."""
    found = await get_or_none(session, f"{znodes.BROKER_IDS}/{broker_id}")
    if found is None:
        return None
    try:
        info = znodes.decode_broker(broker_id, found[0])
    except znodes.ZnodeError as error:
        faults.append(str(error))
        return None
    if info.is_unverified and unverified is not None:
        unverified[broker_id] = None
    return register_record(info, found[1].czxid)


def register_record(info: znodes.BrokerInfo, epoch: int) -> RegisterBrokerRecord:
    """A broker in ZooKeeper is never fenced: it is registered or it is not."""
    return RegisterBrokerRecord(
        broker_id=info.broker_id,
        broker_epoch=epoch,
        incarnation_id=info.incarnation_id,
        end_points=[
            BrokerEndpoint(
                name=end.name, host=end.host, port=end.port,
                security_protocol=end.security_protocol,
            )
            for end in info.endpoints
        ],
        rack=info.rack,
        fenced=False,
    )  # fmt: skip


async def read_topic_or_fault(
    session: ZooKeeperSession, name: str, state: ZooKeeperMetadata, *, watch: bool = False
) -> TopicMetadata | None:
    """One topic; a malformed one is recorded as a fault and treated as absent."""
    try:
        topic = await read_topic(session, name, watch=watch)
        if topic is not None and topic.fault:
            state.faults.append(topic.fault)
        return topic
    except znodes.ZnodeError as error:
        state.faults.append(str(error))
        return None


async def read_topic(
    session: ZooKeeperSession, name: str, *, watch: bool = False
) -> TopicMetadata | None:
    """One topic with its configuration and states, None if it is gone meanwhile."""
    found = await get_or_none(session, znodes.topic_path(name), watch=watch)
    if found is None:
        return None
    info = znodes.decode_topic(name, found[0])
    topic_id = info.topic_id or bytes(16)
    config_path = f"{znodes.CONFIG_TOPICS}/{name}"
    config = await get_or_none(session, config_path)
    records: list[object] = [TopicRecord(name=name, topic_id=topic_id)]
    fault = ""
    if config is not None:
        try:
            values = znodes.decode_config(config_path, config[0])
            records += config_records(ResourceType.TOPIC, name, values)
        except znodes.ZnodeError as error:
            fault = str(error)
    records += await in_chunks(
        sorted(info.partitions), lambda index: _read_partition(session, name, info, index)
    )
    version = -1 if config is None else config[1].version
    return TopicMetadata(name, info, found[1].version, records, version, fault)


async def read_partition_counts(
    session: ZooKeeperSession, names: Sequence[str]
) -> dict[bytes, int]:
    """How many partitions topics have, by topic id; without those that are gone or malformed."""
    found = await in_chunks(names, lambda name: get_or_none(session, znodes.topic_path(name)))
    counts: dict[bytes, int] = {}
    for name, node in zip(names, found, strict=True):
        with suppress(znodes.ZnodeError):
            info = None if node is None else znodes.decode_topic(name, node[0])
            if info is not None and info.topic_id is not None:
                counts[info.topic_id] = len(info.partitions)
    return counts


async def _read_partition(
    session: ZooKeeperSession, name: str, info: znodes.TopicAssignment, index: int
) -> PartitionRecord:
    path = znodes.state_path(name, index)
    found = await get_or_none(session, path)
    if found is None:
        return partition_record(info, index, None, UNINITIALIZED_EPOCH)
    return partition_record(info, index, znodes.decode_state(path, found[0]), found[1].version)


def partition_record(
    info: znodes.TopicAssignment, index: int, state: znodes.PartitionStateNode | None, version: int
) -> PartitionRecord:
    """Assignment and state of one partition; the partition epoch is the state node's version."""
    return PartitionRecord(
        partition_id=index,
        topic_id=info.topic_id or bytes(16),
        replicas=list(info.partitions[index]),
        isr=[] if state is None else list(state.isr),
        removing_replicas=list(info.removing.get(index, ())),
        adding_replicas=list(info.adding.get(index, ())),
        leader=NO_LEADER if state is None else state.leader,
        leader_epoch=UNINITIALIZED_EPOCH if state is None else state.leader_epoch,
        partition_epoch=version,
        directories=[],
    )


# -- configurations -------------------------------------------------------------------------


def config_records(kind: ResourceType, name: str, values: dict[str, str]) -> list[object]:
    """One record per key."""
    return [
        ConfigRecord(resource_type=int(kind), resource_name=name, name=key, value=value)
        for key, value in values.items()
    ]


def broker_entity(node: str) -> str:
    """The resource's name of a node under `/config/brokers`: the default's is empty."""
    return "" if node == znodes.DEFAULT_ENTITY else node


async def read_entity_configs(session: ZooKeeperSession, state: ZooKeeperMetadata) -> None:
    """Configurations of brokers. Those of topics came with the topics; of nodes left behind by
    topics, or created before their topic, only the version matters."""
    names = await children_or_none(session, znodes.CONFIG_TOPICS)
    others = [f"{znodes.CONFIG_TOPICS}/{one}" for one in names if one not in state.topic_versions]
    for path, stat in zip(others, await in_chunks(others, session.exists), strict=True):
        if stat is not None:
            state.config_nodes[path] = ConfigNode(stat.version)
    for node in await children_or_none(session, znodes.CONFIG_BROKERS):
        path = f"{znodes.CONFIG_BROKERS}/{node}"
        found = await get_or_none(session, path)
        if found is None:
            continue
        state.config_nodes[path] = ConfigNode(found[1].version)
        try:
            values = znodes.decode_config(path, found[0])
        except znodes.ZnodeError as error:
            state.faults.append(str(error))
            continue
        state.records += config_records(ResourceType.BROKER, broker_entity(node), values)
