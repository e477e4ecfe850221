"""OffsetFetch (9).

Behaviour: what groups have committed; a null topic list means everything. A partition without a
commit is answered with offset -1 and no error. `require_stable` waits for nothing: transactions are
not served, so that one which is open in a log that came from elsewhere may never end.

Versions: 1-10. 2 may ask for everything, 8 asks for several groups, 9 names the member (KIP-848;
of no meaning to a classic group), 10 has topic ids.
"""

from __future__ import annotations

from broker.coordinator.group.records import CommittedOffset
from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

FIRST_BATCHED_VERSION = 8
FIRST_GROUP_ERROR_VERSION = 2
FIRST_ID_VERSION = 10
NO_OFFSET = -1

Offsets = dict[tuple[str, int], CommittedOffset]


def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    """Look every group up."""
    if context.api_version >= FIRST_BATCHED_VERSION:
        return OffsetFetchResponse(groups=[_group(ask, context) for ask in request.groups])
    error = _group_error(request.group_id, context)
    groups = context.services.coordinators.groups
    held: Offsets = {} if error else groups.offsets_of(request.group_id)
    asked = (
        _everything(held, context)
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    per_partition = error if context.api_version < FIRST_GROUP_ERROR_VERSION else ErrorCode.NONE
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            _single_topic(name, indexes, held, per_partition, context) for name, indexes in asked
        ],
    )


def _group(ask: OffsetFetchRequestGroup, context: RequestContext) -> OffsetFetchResponseGroup:
    error = _group_error(ask.group_id, context)
    if error:
        return OffsetFetchResponseGroup(group_id=ask.group_id, error_code=error)
    held = context.services.coordinators.groups.offsets_of(ask.group_id)
    if ask.topics is None:
        topics = [
            _topic(name, _id_of(name, context), indexes, held, context)
            for name, indexes in _everything(held, context)
        ]
    elif context.api_version >= FIRST_ID_VERSION:
        topics = [
            _topic_by_id(topic.topic_id, topic.partition_indexes, held, context)
            for topic in ask.topics
        ]
    else:
        topics = [
            _topic(topic.name, topic.topic_id, topic.partition_indexes, held, context)
            for topic in ask.topics
        ]
    return OffsetFetchResponseGroup(group_id=ask.group_id, topics=topics)


def _group_error(group_id: str, context: RequestContext) -> ErrorCode:
    if not context.is_authorized(Operation.DESCRIBE, Resource.GROUP, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return context.services.coordinators.groups.check_fetch(group_id)


def _topic_error(name: str, context: RequestContext) -> ErrorCode:
    if not context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _everything(held: Offsets, context: RequestContext) -> list[tuple[str, list[int]]]:
    """What was committed for topics that the client may see."""
    topics: dict[str, list[int]] = {}
    for name, index in sorted(held):
        topics.setdefault(name, []).append(index)
    return [
        one
        for one in topics.items()
        if context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, one[0], is_reported=False)
    ]


def _id_of(name: str, context: RequestContext) -> bytes:
    topic = context.services.metadata.image.topics.get(name)
    return bytes(16) if topic is None else topic.topic_id


def _topic_by_id(
    topic_id: bytes, indexes: list[int], held: Offsets, context: RequestContext
) -> OffsetFetchResponseTopics:
    topic = context.services.metadata.image.topic_by_id(topic_id)
    if topic is not None:
        return _topic(topic.name, topic_id, indexes, held, context)
    return OffsetFetchResponseTopics(
        topic_id=topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=NO_OFFSET,
                metadata="",
                error_code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
            for index in indexes
        ],
    )


def _topic(
    name: str, topic_id: bytes, indexes: list[int], held: Offsets, context: RequestContext
) -> OffsetFetchResponseTopics:
    error = _topic_error(name, context)
    return OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id,
        partitions=[_one_of_many(name, index, {} if error else held, error) for index in indexes],
    )


def _one_of_many(
    name: str, index: int, held: Offsets, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    found = held.get((name, index))
    if found is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


def _single_topic(
    name: str, indexes: list[int], held: Offsets, error: ErrorCode, context: RequestContext
) -> OffsetFetchResponseTopic:
    refused = _topic_error(name, context)
    return OffsetFetchResponseTopic(
        name=name,
        partitions=[
            _single(name, index, {} if refused else held, error or refused) for index in indexes
        ],
    )


def _single(name: str, index: int, held: Offsets, error: ErrorCode) -> OffsetFetchResponsePartition:
    found = held.get((name, index))
    if found is None:
        return OffsetFetchResponsePartition(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=error
        )
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=error,
    )
