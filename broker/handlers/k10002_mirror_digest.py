"""MirrorDigest (10002), an API of ours: digests of what this replica has on its disk.

Behaviour: for each partition the blocks of a range of offsets, by which a mirror compares both
sites' copies, replica by replica: any replica answers for itself, leader or follower, up to its
high watermark. An answer is bounded in bytes; it says how far it is complete and is continued from
there. What the disk does not hold as batches is CORRUPT_MESSAGE, with the blocks before it. A range
that begins before the log is OFFSET_OUT_OF_RANGE; too many requests at a time are
THROTTLING_QUOTA_EXCEEDED, to be repeated. Served on the listener that ``mirror.listener.name``
names.

Versions: 0.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.log.digest import DigestRange
from broker.log.errors import LogError
from broker.log.log import Log
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.mirror_digest import (
    MirrorDigestBlock,
    MirrorDigestRequest,
    MirrorDigestResponse,
    PartitionMirrorDigest,
    PartitionMirrorDigestResult,
    TopicMirrorDigestResult,
)

Asked = tuple[PartitionMirrorDigestResult, DigestRange]


def handle(request: MirrorDigestRequest, context: RequestContext) -> MirrorDigestResponse | None:
    """Check each range, then digest them off the loop."""
    asked: list[Asked] = []
    ranges: list[tuple[Log, DigestRange]] = []
    response = MirrorDigestResponse(
        topics=[
            TopicMirrorDigestResult(
                name=topic.name,
                partitions=[
                    _partition(topic.name, one, context, asked, ranges) for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if not ranges:
        return response

    def answer() -> None:
        for result, wanted in asked:
            _fill(result, wanted)
        context.reply(response)

    context.services.data_plane.logs.digests.begin(ranges, answer)
    return None


def _partition(
    name: str,
    one: PartitionMirrorDigest,
    context: RequestContext,
    asked: list[Asked],
    ranges: list[tuple[Log, DigestRange]],
) -> PartitionMirrorDigestResult:
    result = PartitionMirrorDigestResult(index=one.index)
    services = context.services
    try:
        if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            raise LogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if services.data_plane.logs.digests.is_full:
            raise LogError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "other digests are under way")
        if one.block_offsets <= 0:
            raise LogError(ErrorCode.INVALID_REQUEST, "a block has at least one offset")
        log = services.data_plane.replicas.get(name, one.index).log
        result.log_start_offset, result.log_end_offset = log.log_start_offset, log.end_offset
        result.high_watermark = log.high_watermark
        if one.from_offset < log.log_start_offset:
            raise LogError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"the log begins at {log.log_start_offset}"
            )
    except LogError as error:
        result.error_code, result.error_message = error.code, error.detail or None
        return result
    end = min(one.to_offset, log.high_watermark)
    wanted = DigestRange(one.from_offset, max(end, one.from_offset), one.block_offsets, 0)
    asked.append((result, wanted))
    ranges.append((log, wanted))
    return result


def _fill(result: PartitionMirrorDigestResult, wanted: DigestRange) -> None:
    result.next_offset = wanted.next_offset
    result.blocks = [MirrorDigestBlock(*block) for block in wanted.blocks]
    if wanted.fault:
        result.error_code, result.error_message = ErrorCode.CORRUPT_MESSAGE, wanted.fault
