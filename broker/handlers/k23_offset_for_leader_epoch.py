"""OffsetForLeaderEpoch (23).

Behaviour: the end offset of an epoch, so that a reader learns what it must truncate (KIP-101,
KIP-320). An unknown epoch is answered with -1.

Versions: 2-4. 3 has the replica's id.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext
) -> OffsetForLeaderEpochResponse:
    """Look each partition up."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[_end_offset(topic.topic, ask, context) for ask in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _end_offset(
    name: str, ask: OffsetForLeaderPartition, context: RequestContext
) -> EpochEndOffset:
    if not context.is_authorized(
        Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME, is_reported=False
    ) and not context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name):
        return EpochEndOffset(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=ask.partition
        )
    try:
        partition = context.services.data_plane.replicas.get(name, ask.partition)
        partition.check_leader(ask.current_leader_epoch)
        end = partition.end_offset_for_epoch(ask.leader_epoch)
    except LogError as error:
        return EpochEndOffset(error_code=error.code, partition=ask.partition)
    return EpochEndOffset(
        partition=ask.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )
