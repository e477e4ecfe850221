"""Questions to a cluster: brokers, topics, disks, the quorum, moves, configurations, ACLs.

In: a `SyncClient`. Out: views. Raises BusError with the cluster's own code and words.
Never: a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bus.client.admin.config_resources import BROKER_RESOURCES
from bus.client.model import (
    BrokerDescription,
    ClusterDescription,
    ConfigEntry,
    LogDirDescription,
    PartitionDescription,
    PartitionReassignment,
    QuorumDescription,
    QuorumReplica,
    ReplicaInfo,
    TopicDescription,
    TopicPartition,
)
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.limits import CLIENT_REQUEST_TIMEOUT_MS
from bus.protocol.acls import AclBinding
from bus.protocol.apis import ApiKey
from bus.protocol.generated import (
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    list_partition_reassignments,
    metadata,
)

ANY = 1
"""Of a filter of ACLs: all kinds, patterns, operations, permissions."""
METADATA_TOPIC = "__cluster_metadata"
PAGE_PARTITIONS = 2000
"""Partitions asked at once, as Kafka's own tools do."""

_AnsweredTopic = (
    describe_topic_partitions.DescribeTopicPartitionsResponseTopic | metadata.MetadataResponseTopic
)
_AnsweredPartition = (
    describe_topic_partitions.DescribeTopicPartitionsResponsePartition
    | metadata.MetadataResponsePartition
)


RESOURCES_AT_ONCE = 200
"""Whose configurations are asked or changed in one request: an answer of about a megabyte; one
batch of the metadata log, one multi of ZooKeeper."""


def raise_for_error(code: int, detail: str | None) -> None:
    """Raise what a cluster answered, unless it answered well."""
    if code:
        raise BusError(ErrorCode.of(code), detail or "")


def cluster(client: SyncClient) -> ClusterDescription:
    """The brokers, fenced ones too where the cluster can tell."""
    answer = client.request(
        ApiKey.DESCRIBE_CLUSTER,
        lambda version: describe_cluster.DescribeClusterRequest(include_fenced_brokers=version > 1),
    )
    raise_for_error(answer.error_code, answer.error_message)
    brokers = [
        BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in answer.brokers
    ]
    brokers.sort(key=lambda broker: broker.broker_id)
    return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(brokers))


def topics(client: SyncClient, names: Sequence[str] | None = None) -> list[TopicDescription]:
    """All topics, or those named, by name. A missing one raises BusError."""
    found: Sequence[_AnsweredTopic]
    if client.supports(ApiKey.DESCRIBE_TOPIC_PARTITIONS):
        found = _topics_by_page(client, names)
    else:  # ZooKeeper mode has no eligible leader replicas to tell
        asked = None if names is None else [metadata.MetadataRequestTopic(name=n) for n in names]
        body = metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        found = client.request(ApiKey.METADATA, body).topics
    merged: dict[str, TopicDescription] = {}
    for topic in found:
        name = topic.name or ""
        raise_for_error(topic.error_code, name)
        seen = merged[name].partitions if name in merged else ()
        new = tuple(_partition(partition) for partition in topic.partitions)
        merged[name] = TopicDescription(
            name, topic.topic_id, topic.is_internal, _sorted(seen + new)
        )
    return [merged[name] for name in sorted(merged)]


def _topics_by_page(
    client: SyncClient, names: Sequence[str] | None
) -> list[describe_topic_partitions.DescribeTopicPartitionsResponseTopic]:
    asked = [describe_topic_partitions.TopicRequest(name=name) for name in names or ()]
    found: list[describe_topic_partitions.DescribeTopicPartitionsResponseTopic] = []
    cursor = None
    while True:
        answer = client.request(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            describe_topic_partitions.DescribeTopicPartitionsRequest(
                topics=asked, response_partition_limit=PAGE_PARTITIONS, cursor=cursor
            ),
        )
        found += answer.topics
        if answer.next_cursor is None:
            return found
        at = answer.next_cursor
        cursor = describe_topic_partitions.CursorInRequest(at.topic_name, at.partition_index)
        asked = [topic for topic in asked if topic.name >= at.topic_name]


def _partition(one: _AnsweredPartition) -> PartitionDescription:
    return PartitionDescription(
        one.partition_index,
        one.leader_id,
        one.leader_epoch,
        tuple(one.replica_nodes),
        tuple(one.isr_nodes),
        tuple(one.offline_replicas),
        tuple(getattr(one, "eligible_leader_replicas", None) or ()),
        tuple(getattr(one, "last_known_elr", None) or ()),
    )


def _sorted(partitions: Iterable[PartitionDescription]) -> tuple[PartitionDescription, ...]:
    return tuple(sorted(partitions, key=lambda partition: partition.index))


def log_dirs(client: SyncClient, broker_id: int) -> list[LogDirDescription]:
    """The log directories of one broker."""
    body = describe_log_dirs.DescribeLogDirsRequest(topics=None)
    answer = client.request_node(broker_id, ApiKey.DESCRIBE_LOG_DIRS, body)
    raise_for_error(answer.error_code, f"broker {broker_id}")
    return [
        LogDirDescription(
            one.log_dir, one.error_code, one.total_bytes, one.usable_bytes, _held(one.topics)
        )
        for one in answer.results
    ]


def _held(
    found: Iterable[describe_log_dirs.DescribeLogDirsTopic],
) -> dict[TopicPartition, ReplicaInfo]:
    return {
        TopicPartition(topic.name, p.partition_index): ReplicaInfo(
            p.partition_size, p.offset_lag, p.is_future_key
        )
        for topic in found
        for p in topic.partitions
    }


def quorum(client: SyncClient) -> QuorumDescription:
    """The metadata quorum. A cluster on ZooKeeper has none and says UNSUPPORTED_VERSION."""
    asked = describe_quorum.TopicDataInRequest(
        METADATA_TOPIC, [describe_quorum.PartitionDataInRequest(0)]
    )
    body = describe_quorum.DescribeQuorumRequest(topics=[asked])
    answer = client.request(ApiKey.DESCRIBE_QUORUM, body)
    raise_for_error(answer.error_code, answer.error_message)
    one = answer.topics[0].partitions[0]
    raise_for_error(one.error_code, one.error_message)
    return QuorumDescription(
        one.leader_id,
        one.leader_epoch,
        one.high_watermark,
        tuple(_voter(voter) for voter in one.current_voters),
        tuple(_voter(observer) for observer in one.observers),
        {n.node_id: tuple((e.name, e.host, e.port) for e in n.listeners) for n in answer.nodes},
    )


def quorum_or_none(client: SyncClient) -> QuorumDescription | None:
    """The metadata quorum, where there is one."""
    try:
        return quorum(client)
    except BusError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return None


def _voter(one: describe_quorum.ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        one.replica_id,
        one.replica_directory_id,
        one.log_end_offset,
        one.last_fetch_timestamp,
        one.last_caught_up_timestamp,
    )


def reassignments(client: SyncClient) -> dict[TopicPartition, PartitionReassignment]:
    """Every partition on the move now."""
    body = list_partition_reassignments.ListPartitionReassignmentsRequest(
        timeout_ms=CLIENT_REQUEST_TIMEOUT_MS, topics=None
    )
    answer = client.request_controller(ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
    raise_for_error(answer.error_code, answer.error_message)
    return {
        TopicPartition(topic.name, p.partition_index): PartitionReassignment(
            tuple(p.replicas), tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def configs(
    client: SyncClient, resource_type: int, name: str, *, documentation: bool = False
) -> list[ConfigEntry]:
    """Every key of one resource, by name. A broker's own are asked from itself."""
    body = describe_configs.DescribeConfigsRequest(
        resources=[describe_configs.DescribeConfigsResource(resource_type, name, None)],
        include_synonyms=True,
        include_documentation=documentation,
    )
    if resource_type in BROKER_RESOURCES and name:
        answer = client.request_node(int(name), ApiKey.DESCRIBE_CONFIGS, body)
    else:
        answer = client.request(ApiKey.DESCRIBE_CONFIGS, body)
    result = answer.results[0]
    raise_for_error(result.error_code, result.error_message)
    return sorted((_entry(one) for one in result.configs), key=lambda entry: entry.name)


def many_configs(
    client: SyncClient, resource_type: int, names: Iterable[str]
) -> dict[str, list[ConfigEntry]]:
    """Every key of several resources that any broker knows."""
    found: dict[str, list[ConfigEntry]] = {}
    for result in config_results(client, resource_type, names):
        raise_for_error(result.error_code, result.error_message or result.resource_name)
        entries = sorted((_entry(one) for one in result.configs), key=lambda one: one.name)
        found[result.resource_name] = entries
    return found


def config_results(
    client: SyncClient, resource_type: int, names: Iterable[str]
) -> Iterator[describe_configs.DescribeConfigsResult]:
    """As brokers answer of each, an error or every key; RESOURCES_AT_ONCE in a request."""
    for chunk in chunks(names):
        resources = [
            describe_configs.DescribeConfigsResource(resource_type, name, None) for name in chunk
        ]
        body = describe_configs.DescribeConfigsRequest(resources=resources)
        yield from client.request(ApiKey.DESCRIBE_CONFIGS, body).results


def acls(client: SyncClient, resource: int = ANY) -> list[AclBinding]:
    """All, or those of one kind of resource. Raises BusError: SECURITY_DISABLED where there is no
    authorizer."""
    request = describe_acls.DescribeAclsRequest(
        resource, None, ANY, principal_filter=None, host_filter=None, operation=ANY,
        permission_type=ANY,
    )  # fmt: skip
    answer = client.request(ApiKey.DESCRIBE_ACLS, request)
    raise_for_error(answer.error_code, answer.error_message)
    return listed_acls(answer)


def listed_acls(answer: describe_acls.DescribeAclsResponse) -> list[AclBinding]:
    """Those that an answer names."""
    return [
        AclBinding(
            one.resource_type, one.resource_name, one.pattern_type, acl.principal, acl.host,
            acl.operation, acl.permission_type,
        )
        for one in answer.resources
        for acl in one.acls
    ]  # fmt: skip


def chunks(names: Iterable[str]) -> list[list[str]]:
    """In their order, as many as go in one request."""
    ordered = sorted(names)
    starts = range(0, len(ordered), RESOURCES_AT_ONCE)
    return [ordered[at : at + RESOURCES_AT_ONCE] for at in starts]


def _entry(one: describe_configs.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        one.name,
        one.value,
        one.config_source,
        one.read_only,
        one.is_sensitive,
        one.documentation,
        tuple((s.name, s.value, s.source) for s in one.synonyms),
    )
