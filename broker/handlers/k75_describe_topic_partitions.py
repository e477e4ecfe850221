"""DescribeTopicPartitions (75).

Behaviour: topics sorted by name, page by page: at most `response_partition_limit` partitions, then
a cursor for the next page (KIP-966). Nothing is created.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.topic_names import name_fault
from broker.handlers.context import RequestContext
from broker.handlers.topics import is_internal, leader_for_clients, offline_replicas
from broker.metadata.image import PartitionImage, TopicImage
from broker.security.authorizer import NOT_ASKED, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_topic_partitions import (
    CursorInResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """One page."""
    if not _is_usable(request):
        return _page(
            [_failed(topic.name, ErrorCode.INVALID_REQUEST, NOT_ASKED) for topic in request.topics],
            None,
        )
    left = _page_size(request, context)
    first_topic = "" if request.cursor is None else request.cursor.topic_name
    topics = []
    for name in _names(request, context):
        if name < first_topic:
            continue
        resumed = request.cursor is not None and name == first_topic
        start = request.cursor.partition_index if request.cursor and resumed else 0
        if not context.is_authorized(
            Operation.DESCRIBE, Resource.TOPIC, name, is_reported=bool(request.topics)
        ):
            if request.topics:  # of all topics the client sees those it may see
                topics.append(_failed(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_ASKED))
            continue
        topic = context.services.metadata.image.topics.get(name)
        if topic is None:
            topics.append(_unknown(name, context))
            continue
        if left <= 0:
            return _page(topics, CursorInResponse(topic_name=name, partition_index=start))
        partitions = topic.partitions[start : start + left]
        topics.append(_described(topic, partitions, context))
        left -= len(partitions)
        if start + len(partitions) < len(topic.partitions):
            cursor = CursorInResponse(topic_name=name, partition_index=start + len(partitions))
            return _page(topics, cursor)
    return _page(topics, None)


def _page_size(request: DescribeTopicPartitionsRequest, context: RequestContext) -> int:
    limit: int = context.services.metadata.config["max.request.partition.size.limit"]
    return max(1, min(request.response_partition_limit, limit))


def _names(request: DescribeTopicPartitionsRequest, context: RequestContext) -> list[str]:
    names = {topic.name for topic in request.topics}
    return sorted(names or context.services.metadata.image.topics)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: CursorInResponse | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _is_usable(request: DescribeTopicPartitionsRequest) -> bool:
    """A cursor is a partition of a requested topic."""
    cursor = request.cursor
    if cursor is None:
        return True
    asked = {topic.name for topic in request.topics}
    return cursor.partition_index >= 0 and (not asked or cursor.topic_name in asked)


def _unknown(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if name_fault(name) is not None:
        error = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _failed(name, error, context.allowed_operations(Resource.TOPIC, name))


def _failed(name: str, error: ErrorCode, allowed: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=allowed,
    )


def _described(
    topic: TopicImage, partitions: tuple[PartitionImage, ...], context: RequestContext
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[_partition(partition, context) for partition in partitions],
        topic_authorized_operations=context.allowed_operations(Resource.TOPIC, topic.name),
    )


def _partition(
    partition: PartitionImage, context: RequestContext
) -> DescribeTopicPartitionsResponsePartition:
    offline = offline_replicas(context.services.metadata.image, partition)
    leader_id, error_code = leader_for_clients(partition, offline)
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline,
    )
