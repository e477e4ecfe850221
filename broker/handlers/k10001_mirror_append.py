"""MirrorAppend (10001), an API of ours: what a mirror writes into the topics it copies.

Behaviour: appends batches of the mirrored cluster with their offsets and all that is in them, as a
follower does, and answers once all in-sync replicas have them (acks=all). Without records it
claims the partition for a generation of the mirror, which a leader must have heard before it takes
records. The source's log start, if it is stated, is followed. Served on the listener that
``mirror.listener.name`` names, and for topics that ``mirror.source.cluster.id`` binds to the
cluster the request names. Every partition that this broker leads is answered with where its log
begins and ends, with errors too: a mirror continues from there and remembers nothing itself.

Versions: 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.replica.mirrored import PartitionMirror
from broker.replica.partition import Partition
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    MirrorAppendResponse,
    PartitionMirrorAppend,
    PartitionMirrorAppendResult,
    TopicMirrorAppendResult,
)

NO_OFFSET = -1


@dataclass(slots=True)
class MirroredPartition:
    """One partition's part of an answer.

    `end_offset`: what the in-sync replicas have to have; None where nothing was appended.
    """

    partition: Partition
    result: PartitionMirrorAppendResult
    leader_epoch: int
    end_offset: int | None

    def outcome(self) -> ErrorCode | None:
        """None: not yet."""
        partition = self.partition
        if self.end_offset is not None:
            return partition.is_acknowledged(self.end_offset, self.leader_epoch)
        if not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None if partition.log.guard.is_blocked else ErrorCode.NONE

    def fill(self) -> None:
        """What the partition is at the moment of the answer."""
        leader, log = self.partition.leader_state, self.partition.log
        if leader is None:
            return
        result = self.result
        result.leader_epoch, result.mirror_generation = leader.epoch, leader.mirror_generation
        result.log_start_offset, result.log_end_offset = log.log_start_offset, log.end_offset
        result.high_watermark = log.high_watermark


def handle(request: MirrorAppendRequest, context: RequestContext) -> MirrorAppendResponse | None:
    """Append to every partition, then wait for the in-sync replicas."""
    touched: list[MirroredPartition] = []
    response = MirrorAppendResponse(
        topics=[
            TopicMirrorAppendResult(
                name=topic.name,
                partitions=[
                    _partition(topic.name, asked, request, context, touched)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    waiting = [one for one in touched if not one.result.error_code]

    def answer() -> None:
        for one in touched:
            one.fill()
        context.reply(response)

    def try_complete() -> bool:
        waiting[:] = [one for one in waiting if not _is_done(one)]
        if waiting:
            return False
        answer()
        return True

    def on_expire() -> None:
        for one in waiting:
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        answer()

    context.services.data_plane.replicas.produce_purgatory.watch(
        [one.partition.key for one in waiting], max(request.timeout_ms, 0), try_complete, on_expire
    )
    return None


def _is_done(one: MirroredPartition) -> bool:
    error = one.outcome()
    if error is not None:
        one.result.error_code = error
    return error is not None


def _partition(
    name: str,
    asked: PartitionMirrorAppend,
    request: MirrorAppendRequest,
    context: RequestContext,
    touched: list[MirroredPartition],
) -> PartitionMirrorAppendResult:
    result = PartitionMirrorAppendResult(index=asked.index)
    try:
        if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            raise LogError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if request.mirror_generation < 0:
            raise LogError(ErrorCode.INVALID_REQUEST, "a generation of a mirror is not negative")
        partition = context.services.data_plane.replicas.get(name, asked.index)
        touched.append(MirroredPartition(partition, result, partition.leader_epoch, None))
        check_source(partition, request.source_cluster_id)
        partition.check_leader(asked.current_leader_epoch)
        touched[-1].end_offset = _append_or_claim(partition, asked, request, context)
    except LogError as error:
        result.error_code, result.error_message = error.code, error.detail or None
    return result


def check_source(partition: Partition, cluster_id: str) -> None:
    """Raise LogError unless the topic is mirrored from this cluster."""
    bound_to = partition.log.config.mirror_source_cluster_id
    if not bound_to:
        raise LogError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"{partition.topic} is not mirrored")
    if bound_to != cluster_id:
        raise LogError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"{partition.topic} is mirrored from cluster {bound_to}, not {cluster_id}",
        )


def _append_or_claim(
    partition: Partition,
    asked: PartitionMirrorAppend,
    request: MirrorAppendRequest,
    context: RequestContext,
) -> int | None:
    """The end of what was appended; None for a claim."""
    services, end_offset = context.services, None
    now_ms = services.clock.now_ms()
    mirror = PartitionMirror(partition, services.data_plane.replicas)
    if asked.records:
        info = mirror.append(
            asked.records, base_offset=asked.base_offset, generation=request.mirror_generation,
            now_ms=now_ms,
        )  # fmt: skip
        end_offset = info.last_offset + 1
    else:
        mirror.claim(request.mirror_generation)
    if asked.source_log_start_offset != NO_OFFSET:
        mirror.follow_source_start(asked.source_log_start_offset, now_ms)
    return end_offset
