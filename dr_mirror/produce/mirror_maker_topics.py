"""MirrorMaker 2's own topics at an ordinary target: heartbeats, offset syncs, checkpoints.

In: what was acknowledged, what groups have committed. Out: records in its formats, once a second;
groups' offsets in the target's terms. Core: `OffsetTranslator`. Never: an error that stops the
copying; what could not be written comes with the next second's.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from bus.client.model import GroupOffsets, OffsetAndMetadata, TopicPartition
from bus.client.wire.channel import PeerError
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bus.records.build import build_batch
from bus.records.record import Record
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.produce.plan.mirror_maker_records import (
    HEARTBEATS,
    MirrorCheckpoint,
    MirrorHeartbeat,
    MirrorMakerRecordError,
    OffsetSync,
    checkpoints_topic,
    offset_syncs_topic,
    read_offset_sync,
)
from dr_mirror.produce.plan.offset_translation import OffsetSegment, OffsetTranslator
from dr_mirror.produce.plan.produce_errors import produce_state
from dr_mirror.produce.topic_reader import TopicUnavailable, WholeTopicReader
from dr_mirror.topics.states import MirrorState

log = logging.getLogger(__name__)

EVERY_S = 1.0
TIMEOUT_MS = 10_000
PRODUCE_VERSION = 11
ALL_IN_SYNC = -1


class MirrorMakerTopics:
    """Invariant: `_checkpoints` are those that the target has; `_syncs` those it has not yet."""

    def __init__(self, context: CopyContext, leader_of: Callable[[str], int]) -> None:
        self._context = context
        self._leader_of = leader_of
        settings = context.settings
        self._source_alias = settings.source_cluster_alias
        self._target_alias = settings.target_cluster_alias
        self._translators: defaultdict[TopicPartition, OffsetTranslator] = defaultdict(
            OffsetTranslator
        )
        self._syncs: dict[TopicPartition, OffsetSync] = {}
        self._checkpoints: dict[bytes, MirrorCheckpoint] = {}
        self._new_checkpoints: dict[bytes, MirrorCheckpoint] = {}
        self.history = WholeTopicReader(
            context.target, context.clock, offset_syncs_topic(self._source_alias),
            self._on_offset_sync, self._translators.clear,
        )  # fmt: skip

    @property
    def topics(self) -> tuple[str, ...]:
        """What has to be at the target."""
        return HEARTBEATS, self.history.name, checkpoints_topic(self._source_alias)

    def on_acknowledged(self, partition: TopicPartition, segments: Sequence[OffsetSegment]) -> None:
        """The target has these records, committed."""
        translator = self._translators[partition]
        for segment in segments:
            translator.add(segment)
        last = translator.newest
        if last is not None and last.count:
            self._syncs[partition] = OffsetSync(
                *partition, last.source_offset + last.count - 1, last.target_end - 1
            )

    def translated(
        self, group: str, committed: GroupOffsets
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's offsets of the source in the target's, as far as they are known; they become
        its checkpoints."""
        found = {}
        for partition, offset in committed.items():
            translator = self._translators.get(partition)
            at_target = None if translator is None else translator.translate(offset.offset)
            if at_target is not None:
                found[partition] = OffsetAndMetadata(at_target, offset.metadata)
                place = self._context.names.partition_at_target(partition)
                self._checkpoint(
                    MirrorCheckpoint(group, *place, offset.offset, at_target, offset.metadata)
                )
        return found

    async def run(self) -> None:
        """Until cancelled."""
        is_logged = False
        while True:
            await self._context.clock.sleep(EVERY_S)
            try:
                await self._write_all()
                is_logged = False
            except (PeerError, TopicUnavailable) as error:
                if not is_logged:
                    log.warning("MirrorMaker's topics are written later: %s", error)
                is_logged = True

    async def write(self, topic: str, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Raises PeerError, TopicUnavailable."""
        if not records:
            return
        leader = self._leader_of(topic)
        if leader < 0:
            raise TopicUnavailable(MirrorState.TARGET_UNAVAILABLE, f"{topic} has no leader")
        at_ms = now_ms()
        batch = build_batch([Record(key, value, (), at_ms) for key, value in records])
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        answer = await self._context.target.channel(leader, "questions", pipelined=True).request(
            ApiKey.PRODUCE, ProduceRequest(None, ALL_IN_SYNC, TIMEOUT_MS, [data]),
            timeout_ms=TIMEOUT_MS, max_version=PRODUCE_VERSION,
        )  # fmt: skip
        result = answer.responses[0].partition_responses[0]
        if result.error_code:
            code = ErrorCode.of(result.error_code)
            state, detail = produce_state(code, result.error_message or "")
            raise TopicUnavailable(state, f"{topic}: {detail}")

    async def _write_all(self) -> None:
        beat = MirrorHeartbeat(self._source_alias, self._target_alias, now_ms())
        await self.write(HEARTBEATS, [(beat.key, beat.value)])
        syncs = dict(self._syncs)
        await self.write(self.history.name, [(each.key, each.value) for each in syncs.values()])
        for partition, sync in syncs.items():
            if self._syncs.get(partition) == sync:
                del self._syncs[partition]
        new = dict(self._new_checkpoints)
        await self.write(
            checkpoints_topic(self._source_alias), [(key, each.value) for key, each in new.items()]
        )
        self._checkpoints.update(new)
        for key, checkpoint in new.items():
            if self._new_checkpoints.get(key) == checkpoint:
                del self._new_checkpoints[key]

    def _checkpoint(self, checkpoint: MirrorCheckpoint) -> None:
        key = checkpoint.key
        if self._checkpoints.get(key) != checkpoint:
            self._new_checkpoints[key] = checkpoint

    def _on_offset_sync(self, record: Record) -> None:
        try:
            sync = read_offset_sync(record.key, record.value)
        except MirrorMakerRecordError as error:
            log.warning("%s holds at %d: %s", self.history.name, record.offset, error)
            return
        partition = TopicPartition(sync.topic, sync.partition)
        self._translators[partition].add(OffsetSegment(sync.source_offset, sync.target_offset, 1))
