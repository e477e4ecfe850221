"""DeleteRecords (21).

Behaviour: moves the log start of partitions forward, at most to the high watermark (-1 means just
that); responds with the new low watermark once every live replica has applied it, or at the
request's timeout. Records before it can no longer be read and are removed with their segments.
Refused where the topic's cleanup policy does not delete.

Versions: 0-2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.replica.partition import Partition
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


@dataclass(slots=True)
class DelayedDeleteRecords:
    """A partition whose followers have not all applied the new start."""

    partition: Partition
    start_offset: int
    result: DeleteRecordsPartitionResult


def handle(request: DeleteRecordsRequest, context: RequestContext) -> DeleteRecordsResponse | None:
    """Delete in each partition, then wait for the followers."""
    waiting: list[DelayedDeleteRecords] = []
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[_delete(topic.name, ask, context, waiting) for ask in topic.partitions],
            )
            for topic in request.topics
        ]
    )
    if not waiting:
        return response
    _wait(waiting, response, request.timeout_ms, context)
    return None


def _delete(
    name: str,
    ask: DeleteRecordsPartition,
    context: RequestContext,
    waiting: list[DelayedDeleteRecords],
) -> DeleteRecordsPartitionResult:
    if not context.is_authorized(Operation.DELETE, Resource.TOPIC, name):
        return _failure(ask, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    try:
        partition = context.services.data_plane.replicas.get(name, ask.partition_index)
        start_offset = partition.delete_records(ask.offset)
    except LogError as error:
        return _failure(ask, error.code)
    result = DeleteRecordsPartitionResult(
        partition_index=ask.partition_index, low_watermark=start_offset
    )
    waiting.append(DelayedDeleteRecords(partition, start_offset, result))
    return result


def _wait(
    waiting: list[DelayedDeleteRecords],
    response: DeleteRecordsResponse,
    timeout_ms: int,
    context: RequestContext,
) -> None:
    """Respond when all followers have applied it, with an error for those that were not in time."""
    replicas = context.services.data_plane.replicas

    def try_complete() -> bool:
        waiting[:] = [one for one in waiting if not _is_done(one, replicas.low_watermark)]
        if waiting:
            return False
        context.reply(response)
        return True

    def on_expire() -> None:
        for one in waiting:
            one.result.low_watermark = NO_WATERMARK
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        context.reply(response)

    replicas.delete_records_purgatory.watch(
        [one.partition.key for one in waiting], max(timeout_ms, 0), try_complete, on_expire
    )


def _is_done(one: DelayedDeleteRecords, low_watermark: Callable[[Partition], int | None]) -> bool:
    low = low_watermark(one.partition)
    if low is None:
        one.result.low_watermark = NO_WATERMARK
        one.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return True
    if low < one.start_offset:
        return False
    one.result.low_watermark = low
    return True


def _failure(ask: DeleteRecordsPartition, error: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=ask.partition_index, low_watermark=NO_WATERMARK, error_code=error
    )
