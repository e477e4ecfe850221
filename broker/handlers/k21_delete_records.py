"""DeleteRecords (21).

Behaviour: moves the log start of partitions forward, at most to the high watermark (-1 means just
that); answers the new low watermark. What lies before it can no longer be read and is removed
with its segments. Refused where the topic's cleanup policy does not delete.

Versions: 0-2.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NO_WATERMARK = -1


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse:
    """Delete in each partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, ask, context) for ask in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _delete(
    name: str, ask: DeleteRecordsPartition, context: RequestContext
) -> DeleteRecordsPartitionResult:
    if not context.may(Operation.DELETE, Resource.TOPIC, name):
        return _failure(ask, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        partition = context.services.replicas.get(name, ask.partition_index)
        low_watermark = partition.delete_records(ask.offset)
    except LogError as error:
        return _failure(ask, error.code)
    return DeleteRecordsPartitionResult(
        partition_index=ask.partition_index, low_watermark=low_watermark
    )


def _failure(ask: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=ask.partition_index, low_watermark=NO_WATERMARK, error_code=error
    )
