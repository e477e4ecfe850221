"""OffsetCommit (8).

Behaviour: stores a group's offsets in `__consumer_offsets` and answers when every in-sync replica
has them. A partition that does not exist, or whose metadata is too long, fails for itself; the
group's own error applies to all others. A topic that a broker in ZooKeeper mode does not know yet,
seconds after its start, is COORDINATOR_LOAD_IN_PROGRESS: clients retry. So is one that a switch to
the other site has closed to commits: what is committed after the last copy of groups' offsets would
not be there. The metadata string is returned unchanged.

Versions: 2-10. 2-4 may set their own retention time, 5 leaves it out, 7 has static members, 9 may
come from KIP-848 groups, 10 has topic ids.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.config.key import MAX_LONG
from broker.controller.decisions.site_epochs import refuses_commits
from broker.coordinator.group.offsets import CommitRequest
from broker.coordinator.group.records import CommittedOffset
from broker.handlers.context import RequestContext
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

FIRST_NOT_FOUND_VERSION = 9
FIRST_ID_VERSION = 10
NO_RETENTION = -1


@dataclass(slots=True)
class _Parts:
    """What goes to the coordinator, and the answers that wait for it."""

    offsets: list[tuple[str, int, CommittedOffset]]
    waiting: list[OffsetCommitResponsePartition]


def handle(request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse | None:
    """Commit what is valid."""
    parts = _Parts([], [])
    response = OffsetCommitResponse(
        topics=[
            _topic(topic, request, parts, context) for topic in request.topics if topic.partitions
        ]
    )

    def stored(error: ErrorCode) -> None:
        for part in parts.waiting:
            part.error_code = error
        context.reply(response)

    if not parts.waiting:
        return response
    commit = CommitRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        offsets=parts.offsets,
        knows_missing_groups=context.api_version >= FIRST_NOT_FOUND_VERSION,
    )
    context.services.coordinators.groups.commit(commit, stored)
    return None


def _topic(
    topic: OffsetCommitRequestTopic,
    request: OffsetCommitRequest,
    parts: _Parts,
    context: RequestContext,
) -> OffsetCommitResponseTopic:
    image = context.services.metadata.image
    if context.api_version >= FIRST_ID_VERSION:
        known = image.topic_by_id(topic.topic_id)
        missing = ErrorCode.UNKNOWN_TOPIC_ID
    else:
        known = image.topics.get(topic.name)
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not context.services.metadata.knows_topics():
        missing = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    error = ErrorCode.NONE if known is not None else missing
    name = topic.name if known is None else known.name
    if not context.is_authorized(Operation.READ, Resource.GROUP, request.group_id):
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif not error and not context.is_authorized(Operation.READ, Resource.TOPIC, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    elif not error and refuses_commits(image, name):
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    count = 0 if known is None else len(known.partitions)
    results = []
    for ask in topic.partitions:
        failure = error or _partition_error(ask, count, context)
        result = OffsetCommitResponsePartition(
            partition_index=ask.partition_index, error_code=failure
        )
        results.append(result)
        if not failure:
            parts.waiting.append(result)
            parts.offsets.append((name, ask.partition_index, _offset(ask, request, context)))
    return OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results)


def _partition_error(
    ask: OffsetCommitRequestPartition, count: int, context: RequestContext
) -> ErrorCode:
    if not 0 <= ask.partition_index < count:
        if not context.services.metadata.knows_topics():
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    longest = context.services.metadata.config["offset.metadata.max.bytes"]
    if len((ask.committed_metadata or "").encode()) > longest:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _offset(
    ask: OffsetCommitRequestPartition, request: OffsetCommitRequest, context: RequestContext
) -> CommittedOffset:
    now_ms = context.services.clock.now_ms()
    retention_ms = request.retention_time_ms
    return CommittedOffset(
        offset=ask.committed_offset,
        leader_epoch=ask.committed_leader_epoch,
        metadata=ask.committed_metadata or "",
        commit_timestamp_ms=now_ms,
        # "For ever" is often sent as the largest int64; the sum must still fit.
        expire_timestamp_ms=(
            -1 if retention_ms == NO_RETENTION else min(now_ms + retention_ms, MAX_LONG)
        ),
    )
