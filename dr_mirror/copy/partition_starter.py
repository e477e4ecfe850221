"""How a partition begins: both ends, the claim at the target, the last batch compared.

In: a partition with leaders on both sides. Out: it is copied from where the target ends, or
`NotStarted` with a named state. Core: `dr_mirror.copy.plan.resume`. Never: a state of its own.
"""

from __future__ import annotations

import logging

from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.errors import PeerErrorKind
from bus.client.wire.fetch_session import PartitionKey
from bus.client.wire.offset_requests import EARLIEST, LATEST, one_list_offsets
from bus.client.wire.one_fetch import FetchFrom, fetched, one_fetch
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.mirror_append import (
    MirrorAppendRequest,
    PartitionMirrorAppend,
    PartitionMirrorAppendResult,
    TopicMirrorAppend,
)
from bus.protocol.wire import RequestMessage, ResponseT
from bus.records.batch import RecordsError, header_at
from dr_mirror.copy.context import CopyContext, state_of_lost
from dr_mirror.copy.plan.append_errors import state_of
from dr_mirror.copy.plan.batches import first_batch
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.copy.plan.resume import (
    SourceOffsets,
    TargetOffsets,
    difference_at,
    resume_point,
)
from dr_mirror.topics.states import MirrorState

log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000
"""One question of the start; a broker answers at once, or another one leads by now."""
COMPARED_BYTES = 1
"""A fetch brings one whole batch, however small its bound."""


class NotStarted(Exception):
    """The partition cannot be copied now."""

    def __init__(self, state: MirrorState, detail: str) -> None:
        super().__init__(f"{state.value}: {detail}")
        self.state = state
        self.detail = detail


class PartitionStarter:
    """Stateless; each partition's task uses it."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context

    async def start(
        self, copy: PartitionCopy, target_topic_id: bytes, *, is_compacted: bool
    ) -> None:
        """Begin to copy. Raises NotStarted."""
        source = SourceOffsets(
            await self._source_offset(copy, EARLIEST), await self._source_offset(copy, LATEST)
        )
        claim = await self._claim(copy, -1)
        target = _target(claim)
        point = resume_point(source, target, is_compacted=is_compacted)
        if not point.state.copies:
            raise NotStarted(point.state, point.detail)
        position = point.position
        if position > target.log_end:
            # Told before the target goes on there: if its answer is lost, nothing shows the hole.
            if point.missing and copy.on_hole(point):
                log.warning("%s-%d: %s", *copy.partition, point.detail)
            position = await self._begin_of_batch(copy, source)
        if position > target.log_end:
            claim = await self._claim(copy, position)
            target = _target(claim)
            if target.log_end != position or target.high_watermark < position:
                raise NotStarted(MirrorState.STARTING, "the target's log start is being moved")
        caught_up_ms = -1
        if point.compare_at >= 0:
            caught_up_ms = await self._compare(copy, target_topic_id, target, point.compare_at)
        copy.begin(
            position,
            source,
            target_log_start=target.log_start,
            target_log_end=target.log_end,
            target_epoch=claim.leader_epoch,
            caught_up_ms=caught_up_ms,
        )

    async def _begin_of_batch(self, copy: PartitionCopy, source: SourceOffsets) -> int:
        """Of the one that holds the source's log start: records are deleted, batches stay whole.
        Raises NotStarted."""
        if source.log_start >= source.high_watermark:
            return source.log_start
        start = FetchFrom(copy.partition.topic, source.log_start, copy.source_epoch)
        batch = await self._batch_at(
            self._source(copy), copy.key, start, MirrorState.SOURCE_UNAVAILABLE
        )
        try:
            return min(header_at(first_batch(batch)).base_offset, source.log_start)
        except RecordsError:
            raise NotStarted(
                MirrorState.STARTING, "the source has not sent its first batch"
            ) from None

    async def _source_offset(self, copy: PartitionCopy, timestamp: int) -> int:
        request = one_list_offsets(copy.partition, timestamp, copy.source_epoch)
        answer = await self._ask(
            self._source(copy), ApiKey.LIST_OFFSETS, request, MirrorState.SOURCE_UNAVAILABLE
        )
        result = answer.topics[0].partitions[0]
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            raise NotStarted(MirrorState.SOURCE_UNAVAILABLE, f"the source: {code.name}")
        return result.offset

    async def _claim(
        self, copy: PartitionCopy, source_log_start: int
    ) -> PartitionMirrorAppendResult:
        name, index = self._context.names.partition_at_target(copy.partition)
        clusters = self._context.clusters
        partition = PartitionMirrorAppend(index, source_log_start_offset=source_log_start)
        request = MirrorAppendRequest(
            clusters.source_cluster_id, clusters.generation, TIMEOUT_MS,
            [TopicMirrorAppend(name, [partition])],
        )  # fmt: skip
        answer = await self._ask(
            self._target(copy), ApiKey.MIRROR_APPEND, request, MirrorState.TARGET_UNAVAILABLE
        )
        result = answer.topics[0].partitions[0]
        if result.error_code:
            raise NotStarted(*state_of(ErrorCode.of(result.error_code), result.error_message or ""))
        return result

    async def _compare(
        self, copy: PartitionCopy, target_topic_id: bytes, target: TargetOffsets, offset: int
    ) -> int:
        """Raises NotStarted unless the batch at `offset` is the same; its largest timestamp."""
        if target.high_watermark <= offset:
            raise NotStarted(MirrorState.STARTING, "the target's last batch is being replicated")
        name, index = copy.partition
        ours = await self._batch_at(
            self._target(copy), (target_topic_id, index),
            FetchFrom(self._context.names.at_target(name), offset),
            MirrorState.TARGET_UNAVAILABLE,
        )  # fmt: skip
        theirs = await self._batch_at(
            self._source(copy), copy.key, FetchFrom(name, offset, copy.source_epoch),
            MirrorState.SOURCE_UNAVAILABLE,
        )  # fmt: skip
        difference = difference_at(offset, theirs, ours)
        if difference:
            raise NotStarted(MirrorState.DIVERGED, difference)
        return header_at(first_batch(ours)).max_timestamp

    async def _batch_at(
        self, channel: PeerChannel, key: PartitionKey, start: FetchFrom, unavailable: MirrorState
    ) -> memoryview:
        request = one_fetch(key, start, max_bytes=COMPARED_BYTES)
        answer = await self._ask(channel, ApiKey.FETCH, request, unavailable)
        if answer.error_code:
            raise NotStarted(unavailable, ErrorCode.of(answer.error_code).name)
        data = answer.responses[0].partitions[0]
        if data.error_code:
            raise NotStarted(unavailable, ErrorCode.of(data.error_code).name)
        return memoryview(fetched(data.records))

    def _source(self, copy: PartitionCopy) -> PeerChannel:
        return self._context.source.channel(copy.source_leader, "questions", pipelined=True)

    def _target(self, copy: PartitionCopy) -> PeerChannel:
        return self._context.target.channel(copy.target_leader, "questions", pipelined=True)

    async def _ask(
        self,
        channel: PeerChannel,
        api_key: int,
        request: RequestMessage[ResponseT],
        unavailable: MirrorState,
    ) -> ResponseT:
        try:
            return await channel.request(api_key, request, timeout_ms=TIMEOUT_MS)
        except PeerError as error:
            is_unsupported = error.kind is PeerErrorKind.UNSUPPORTED_VERSION
            lost = state_of_lost(error, unavailable)
            state = MirrorState.NOT_ALLOWED if is_unsupported else lost
            raise NotStarted(state, str(error)) from None


def _target(claim: PartitionMirrorAppendResult) -> TargetOffsets:
    return TargetOffsets(claim.log_start_offset, claim.log_end_offset, claim.high_watermark)
