"""What consumer groups there are and what they have committed, by their coordinators.

In: a cluster's client. Out: names; offsets by partition; offsets set. Raises BusError; one that is
`retriable` while a coordinator moves or loads. Never: a second request where the first was refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, cast

from bus.client.admin.queries import cluster, raise_for_error
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.list_groups import ListGroupsRequest
from bus.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bus.protocol.generated.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from bus.protocol.wire import NO_UUID

GROUP = 0
"""KeyType of FindCoordinator."""
NO_EPOCH = -1
_CONSUMERS = ("consumer", "")
"""ProtocolType of groups that consume; empty: those that only commit."""
_NOT_READY = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def consumer_groups(client: SyncClient) -> list[str]:
    """Of all brokers that answer and have read their groups."""
    found: set[str] = set()
    for broker in cluster(client).alive:
        try:
            answer = client.request_node(
                broker.broker_id, ApiKey.LIST_GROUPS, ListGroupsRequest()
            )
        except BusError as error:
            if error.code is not ErrorCode.BROKER_NOT_AVAILABLE:
                raise
            continue
        if answer.error_code not in _NOT_READY:
            raise_for_error(answer.error_code, f"broker {broker.broker_id}")
        found.update(one.group_id for one in answer.groups if one.protocol_type in _CONSUMERS)
    return sorted(found)


def committed_offsets(client: SyncClient, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Everything that this group has committed; empty for one that does not exist."""
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    answer = client.request_node(_coordinator(client, group), ApiKey.OFFSET_FETCH, asked)
    found = answer.groups[0]
    raise_for_error(found.error_code, group)
    names = _names(client, {topic.topic_id for topic in found.topics if not topic.name})
    return {
        TopicPartition(name, one.partition_index): OffsetAndMetadata(
            one.committed_offset,
            (one.metadata or "").rstrip("\0"),  # librdkafka commits it with the end of a C string
        )
        for topic in found.topics
        if (name := topic.name or names.get(topic.topic_id))
        for one in topic.partitions
        if not one.error_code and one.committed_offset >= 0
    }


def commit_offsets(
    client: SyncClient, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """As nobody's member: refused where the group has members."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, number), offset in sorted(offsets.items()):
        by_topic[topic].append(OffsetCommitRequestPartition(number, offset, NO_EPOCH, ""))
    ids = _ids(client, by_topic)
    topics = [
        OffsetCommitRequestTopic(name=name, topic_id=ids.get(name, NO_UUID), partitions=partitions)
        for name, partitions in by_topic.items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = client.request_node(_coordinator(client, group), ApiKey.OFFSET_COMMIT, request)
    for topic in answer.topics:
        for one in topic.partitions:
            raise_for_error(one.error_code, f"{group}: {topic.name}-{one.partition_index}")


def _coordinator(client: SyncClient, group: str) -> int:
    request = FindCoordinatorRequest("", GROUP, [group])
    found = client.request(ApiKey.FIND_COORDINATOR, request).coordinators[0]
    raise_for_error(found.error_code, found.error_message or group)
    return int(found.node_id)


def _names(client: SyncClient, ids: set[bytes]) -> dict[bytes, str]:
    """Of the topics that are still there; newer answers name them by their ids."""
    if not ids:
        return {}
    wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in sorted(ids)]
    return {topic.topic_id: topic.name for topic in _topics(client, wanted) if topic.name}


def _ids(client: SyncClient, names: Iterable[str]) -> dict[str, bytes]:
    """For versions of OffsetCommit that name topics by them."""
    wanted = [MetadataRequestTopic(name=name) for name in names]
    return {topic.name: topic.topic_id for topic in _topics(client, wanted) if topic.name}


def _topics(client: SyncClient, wanted: list[MetadataRequestTopic]) -> Iterable[Any]:
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return cast(Iterable[Any], client.request(ApiKey.METADATA, request).topics)
