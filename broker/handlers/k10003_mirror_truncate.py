"""MirrorTruncate (10003), an API of ours: the way back of a mirror.

Behaviour: cuts off what this site has and the other one never got, so that the other one's records
can follow on the last common batch. The leader truncates its log, the followers do as its epoch
then ends earlier. Answered when the leader's log is cut; it takes no claim, and so no records,
before every replica has cut its own: one that came back later with a longer log would keep what is
gone. The batch that contains the offset goes as a whole. Only for a partition of a mirrored topic,
by the generation that has claimed it, and only if the log ends where the mirror has seen it end.

Versions: 0.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.handlers.k10001_mirror_append import check_source
from broker.log.errors import LogError
from broker.replica.mirrored import PartitionMirror
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.mirror_truncate import (
    MirrorTruncateRequest,
    MirrorTruncateResponse,
    PartitionMirrorTruncate,
    PartitionMirrorTruncateResult,
    TopicMirrorTruncateResult,
)


def handle(request: MirrorTruncateRequest, context: RequestContext) -> MirrorTruncateResponse:
    """Truncate each partition's log here; the followers' come after."""
    return MirrorTruncateResponse(
        topics=[
            TopicMirrorTruncateResult(
                name=topic.name,
                partitions=[
                    _truncate(topic.name, one, request, context) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _truncate(
    name: str,
    one: PartitionMirrorTruncate,
    request: MirrorTruncateRequest,
    context: RequestContext,
) -> PartitionMirrorTruncateResult:
    result = PartitionMirrorTruncateResult(index=one.index)
    services = context.services
    try:
        if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            raise LogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        partition = services.data_plane.replicas.get(name, one.index)
        check_source(partition, request.source_cluster_id)
        partition.check_leader(one.current_leader_epoch)
        try:
            PartitionMirror(partition, services.data_plane.replicas).truncate(
                one.offset, generation=request.mirror_generation, end_offset=one.log_end_offset,
                now_ms=services.clock.now_ms(),
            )  # fmt: skip
        finally:
            log = partition.log
            result.log_start_offset, result.log_end_offset = log.log_start_offset, log.end_offset
            result.high_watermark = log.high_watermark
    except LogError as error:
        result.error_code, result.error_message = error.code, error.detail or None
    return result
