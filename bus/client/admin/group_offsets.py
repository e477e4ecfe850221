"""What consumer groups there are and what they have committed, by their coordinators.

In: a cluster's client. Out: names; offsets by partition; offsets set. Raises BusError; one that is
`retriable` while a coordinator moves or loads. Never: a second request where the first was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bus.client.admin.queries import cluster, raise_for_error
from bus.client.model import GroupOffsets, OffsetAndMetadata, TopicPartition
from bus.client.wire.offset_requests import commit_of_group, offsets_of_groups
from bus.client.wire.offset_requests import committed_offsets as answered_offsets
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.find_coordinator import FindCoordinatorRequest
from bus.protocol.generated.list_groups import ListGroupsRequest
from bus.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)

GROUP = 0
"""KeyType of FindCoordinator."""
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
    request = offsets_of_groups([group])
    answer = client.request_node(_coordinator(client, group), ApiKey.OFFSET_FETCH, request)
    found = answer.groups[0]
    raise_for_error(found.error_code, group)
    names = _names(client, {topic.topic_id for topic in found.topics if not topic.name})
    return {
        # librdkafka commits a text with the end of a C string
        place: OffsetAndMetadata(one.offset, one.metadata.rstrip("\0"))
        for place, one in answered_offsets(answer, names)[group].items()
        if place.topic  # else it was deleted since
    }


def set_committed(
    client: SyncClient, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Let a group without members go on from these offsets."""
    bare = {place: OffsetAndMetadata(offset, "") for place, offset in sorted(offsets.items())}
    ids = _ids(client, {place.topic for place in bare})
    commit_offsets(client, _coordinator(client, group), group, bare, ids)


def commit_offsets(
    client: SyncClient, node: int, group: str, offsets: GroupOffsets, ids: Mapping[str, bytes]
) -> None:
    """At its coordinator, as nobody's member: refused where the group has members. `ids` of topics,
    for versions that name them so."""
    request = commit_of_group(group, offsets, ids)
    answer = client.request_node(node, ApiKey.OFFSET_COMMIT, request)
    for topic in answer.topics:
        for one in topic.partitions:
            raise_for_error(one.error_code, group)


def _coordinator(client: SyncClient, group: str) -> int:
    request = FindCoordinatorRequest("", GROUP, [group])
    found = client.request(ApiKey.FIND_COORDINATOR, request).coordinators[0]
    raise_for_error(found.error_code, found.error_message or group)
    return found.node_id


def _names(client: SyncClient, ids: set[bytes]) -> dict[bytes, str]:
    """Of the topics that are still there; newer answers name them by their ids."""
    if not ids:
        return {}
    wanted = [MetadataRequestTopic(topic_id=one, name=None) for one in sorted(ids)]
    return {topic.topic_id: topic.name for topic in _topics(client, wanted) if topic.name}


def _ids(client: SyncClient, names: Iterable[str]) -> dict[str, bytes]:
    wanted = [MetadataRequestTopic(name=name) for name in sorted(names)]
    return {topic.name: topic.topic_id for topic in _topics(client, wanted) if topic.name}


def _topics(client: SyncClient, wanted: list[MetadataRequestTopic]) -> list[MetadataResponseTopic]:
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return client.request(ApiKey.METADATA, request).topics
