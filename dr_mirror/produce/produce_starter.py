"""How a partition begins at an ordinary target: its position, checked against both sides.

In: a partition with leaders on both sides. Out: it is copied from its position on, or `NotStarted`
with a named state. Core: `dr_mirror.copy.plan.resume`. Never: records behind others' at the target;
a partition without a position must be empty there.
"""

from __future__ import annotations

from bus.client.model import TopicPartition
from bus.client.wire.channel import PeerChannel, PeerError
from bus.client.wire.offset_requests import EARLIEST, LATEST, one_list_offsets
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from dr_mirror.copy.context import CopyContext, state_of_lost
from dr_mirror.copy.partition_starter import NotStarted
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.copy.plan.resume import SourceOffsets, TargetOffsets, resume_point
from dr_mirror.produce.plan.offset_translation import OffsetSegment
from dr_mirror.produce.plan.positions import PositionTable, SourcePosition
from dr_mirror.produce.produce_sender import NO_LOG_START, ProduceSender
from dr_mirror.produce.topic_reader import TopicUnavailable, WholeTopicReader
from dr_mirror.produce.transaction_manager import ProducerFenced, TransactionFailed
from dr_mirror.topics.states import MirrorState

TIMEOUT_MS = 10_000


class ProduceStarter:
    """Stateless; each partition's task uses it."""

    def __init__(
        self, context: CopyContext, positions: WholeTopicReader, table: PositionTable
    ) -> None:
        self._context = context
        self._positions = positions
        self._table = table

    async def start(
        self, copy: PartitionCopy, sender: ProduceSender, target_topic_id: str
    ) -> OffsetSegment:
        """Begin to copy; where both sides meet: what is copied from now on follows the target's end
        as it was found. Raises NotStarted."""
        try:
            await sender.begin()
            await sender.settle(copy.partition)
            await self._positions.refresh()
            target_end = await self._target_offset(copy, LATEST)
            position = await self._position(copy, sender, target_topic_id, target_end)
        except (TransactionFailed, TopicUnavailable) as failure:
            raise NotStarted(failure.state, failure.detail) from None
        except ProducerFenced as failure:
            raise NotStarted(MirrorState.STARTING, str(failure)) from None
        source = await self._source_offsets(copy)
        end = position.offset
        point = resume_point(source, TargetOffsets(0, end, end), is_compacted=True)
        if not point.state.copies:
            raise NotStarted(point.state, point.detail)
        if point.missing:
            copy.on_hole(point)
        copy.begin(
            point.position, source, target_log_start=NO_LOG_START, target_log_end=point.position,
            target_epoch=-1, caught_up_ms=-1,
        )  # fmt: skip
        sender.on_begun(copy.partition, target_end)
        return OffsetSegment(point.position, target_end, 0)

    async def _position(
        self, copy: PartitionCopy, sender: ProduceSender, target_topic_id: str, target_end: int
    ) -> SourcePosition:
        found = self._table.position(self._context.clusters.source_cluster_id, copy.partition)
        source_topic_id = copy.topic_id.hex()
        if found is not None and found.target_topic_id == target_topic_id:
            if found.source_topic_id != source_topic_id:
                raise NotStarted(
                    MirrorState.RECREATED_AT_SOURCE,
                    f"topic id {found.source_topic_id} was copied, "
                    f"the source has {source_topic_id}",
                )
            if target_end < found.target_offset:
                raise NotStarted(
                    MirrorState.TARGET_TRUNCATED,
                    f"the target ends at {target_end}, it had {found.target_offset}",
                )
            return found
        target_start = await self._target_offset(copy, EARLIEST)
        if target_start < target_end:
            raise NotStarted(
                MirrorState.NOT_A_MIRROR,
                f"it holds records {target_start}..{target_end - 1} that are no copies",
            )
        source = await self._source_offsets(copy)
        begin = SourcePosition(source.log_start, target_end, source_topic_id, target_topic_id)
        await sender.claim(copy.partition, begin)
        return begin

    async def _source_offsets(self, copy: PartitionCopy) -> SourceOffsets:
        channel = self._context.source.channel(copy.source_leader, "questions", pipelined=True)
        epoch, unavailable = copy.source_epoch, MirrorState.SOURCE_UNAVAILABLE
        return SourceOffsets(
            await self._offset(channel, copy.partition, EARLIEST, epoch, unavailable),
            await self._offset(channel, copy.partition, LATEST, epoch, unavailable),
        )

    def _target(self, copy: PartitionCopy) -> PeerChannel:
        return self._context.target.channel(copy.target_leader, "questions", pipelined=True)

    async def _target_offset(self, copy: PartitionCopy, timestamp: int) -> int:
        place = self._context.names.partition_at_target(copy.partition)
        return await self._offset(self._target(copy), place, timestamp)

    async def _offset(
        self,
        channel: PeerChannel,
        partition: TopicPartition,
        timestamp: int,
        epoch: int = -1,
        unavailable: MirrorState = MirrorState.TARGET_UNAVAILABLE,
    ) -> int:
        name, index = partition
        request = one_list_offsets(partition, timestamp, epoch)
        try:
            answer = await channel.request(ApiKey.LIST_OFFSETS, request, timeout_ms=TIMEOUT_MS)
        except PeerError as error:
            raise NotStarted(state_of_lost(error, unavailable), str(error)) from None
        result = answer.topics[0].partitions[0]
        if result.error_code:
            raise NotStarted(unavailable, f"{name}-{index}: {ErrorCode.of(result.error_code).name}")
        return int(result.offset)
