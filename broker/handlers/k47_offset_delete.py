"""OffsetDelete (47).

Behaviour: removes a group's offsets of topics that none of its members is subscribed to; the
subscribed ones answer GROUP_SUBSCRIBED_TO_TOPIC.

Versions: 0.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse | None:
    """Delete what may be deleted."""
    if not context.is_authorized(Operation.DELETE, Resource.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    allowed = frozenset(
        topic.name
        for topic in request.topics
        if context.is_authorized(Operation.READ, Resource.TOPIC, topic.name)
    )
    places = [
        (topic.name, part.partition_index)
        for topic in request.topics
        if topic.name in allowed
        for part in topic.partitions
    ]

    def done(error: ErrorCode, subscribed: frozenset[str]) -> None:
        if error:
            context.reply(OffsetDeleteResponse(error_code=error))
        else:
            topics = _topics(request, allowed, subscribed, context)
            context.reply(OffsetDeleteResponse(topics=topics))

    context.services.coordinators.groups.delete_offsets(request.group_id, places, done)
    return None


def _topics(
    request: OffsetDeleteRequest,
    allowed: frozenset[str],
    subscribed: frozenset[str],
    context: RequestContext,
) -> list[OffsetDeleteResponseTopic]:
    known = context.services.metadata.image.topics
    topics = []
    for topic in request.topics:
        if not topic.partitions:
            continue
        count = len(known[topic.name].partitions) if topic.name in known else 0
        error = unknown = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if topic.name in allowed:
            is_subscribed = topic.name in subscribed
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        results = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index,
                error_code=error if 0 <= part.partition_index < count else unknown,
            )
            for part in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    return topics
