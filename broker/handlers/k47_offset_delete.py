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
    places = [
        (topic.name, part.partition_index) for topic in request.topics for part in topic.partitions
    ]

    def done(error: ErrorCode, subscribed: frozenset[str]) -> None:
        if error:
            context.reply(OffsetDeleteResponse(error_code=error))
        else:
            context.reply(OffsetDeleteResponse(topics=_topics(request, subscribed, context)))

    context.services.coordinators.groups.delete_offsets(request.group_id, places, done)
    return None


def _topics(
    request: OffsetDeleteRequest, subscribed: frozenset[str], context: RequestContext
) -> list[OffsetDeleteResponseTopic]:
    known = context.services.metadata.image.topics
    topics = []
    for topic in request.topics:
        if not topic.partitions:
            continue
        count = len(known[topic.name].partitions) if topic.name in known else 0
        error = ErrorCode.NONE
        if topic.name in subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        results = [
            OffsetDeleteResponsePartition(
                partition_index=part.partition_index,
                error_code=error
                if 0 <= part.partition_index < count
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for part in topic.partitions
        ]
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=results))
    return topics
