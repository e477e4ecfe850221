"""A target that takes ordinary Produce requests: Apache Kafka, or our broker as any client sees it.

In: views of both clusters, partitions to copy. Out: senders, starts, plans of topics. Core:
`dr_mirror.produce.plan.positions`. Never: a state on a disk of the mirror's own; positions are a
topic of the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from zlib import crc32

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.client.wire.channel import PeerError
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.records.record import Record
from bus.runtime.tasks import spawn
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.mirrored_cluster import MirroredCluster
from dr_mirror.copy.plan.copied_topics import HeldOffsets
from dr_mirror.copy.plan.partition_copy import PartitionCopy
from dr_mirror.policy.selection import TopicSelection
from dr_mirror.produce.mirror_maker_topics import MirrorMakerTopics
from dr_mirror.produce.plan import mirror_maker_records, positions
from dr_mirror.produce.plan.offset_translation import OffsetSegment
from dr_mirror.produce.plan.positions import (
    InstanceKey,
    MirrorInstance,
    PositionTable,
    encode,
    instance_in,
)
from dr_mirror.produce.plan.produced_topics import fenced_plans, plan_produced_topics
from dr_mirror.produce.produce_sender import ProduceSender
from dr_mirror.produce.produce_starter import ProduceStarter
from dr_mirror.produce.topic_reader import TopicUnavailable, WholeTopicReader
from dr_mirror.produce.transaction_manager import TransactionFailed, TransactionManager
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import ClusterPair, MirrorTopic, TopicPlan

READ_UNCOMMITTED = 0
TRANSACTIONAL_IDS = 2
"""The same in every version and setting: a mirror that starts fences all of an older one's."""
WHOLE_LOG = HeldOffsets(0, (1 << 63) - 1)
"""Translated offsets are never beyond what the target has."""


class ProduceTarget:
    """Invariant: `_topic_ids` has the ids, of source and target, with which a partition began."""

    def __init__(self, context: CopyContext, cluster: MirroredCluster) -> None:
        settings = context.settings
        self._context = context
        self._cluster = cluster
        self._view = ClusterView("", {}, {})
        self._generations: dict[str, int] = {}
        self._table, self._table_of_source = PositionTable(), PositionTable()
        self._positions = WholeTopicReader(
            context.target, context.clock,
            positions.positions_topic(settings.source_cluster_alias),
            self._apply_position, self._table.clear,
        )  # fmt: skip
        # A dead mirror's open transaction hides what committed reading would find behind it.
        self._instances = WholeTopicReader(
            context.target, context.clock, self._positions.name,
            self._apply_instance, self._generations.clear, isolation_level=READ_UNCOMMITTED,
        )  # fmt: skip
        self._positions_of_source = WholeTopicReader(
            context.source, context.clock,
            positions.positions_topic(settings.target_cluster_alias),
            self._apply_position_of_source, self._table_of_source.clear,
        )  # fmt: skip
        self._mirror_maker = MirrorMakerTopics(context, self._leader_of)
        self._starter = ProduceStarter(context, self._positions, self._table)
        self._senders: list[ProduceSender] = []
        self._topic_ids: dict[TopicPartition, tuple[str, str]] = {}
        self.rebuilt_batches = 0

    async def open(self, source_cluster_id: str) -> int:
        """Make the mirror's own topics, read the positions; the generation of this instance.
        Raises BusError."""
        try:
            await asyncio.to_thread(self._create_topics)
            self.on_target_view(await asyncio.to_thread(self._cluster.view))
            await self._instances.refresh()
            await self._mirror_maker.history.refresh()
            generation = max(now_ms(), 1 + self._generations.get(source_cluster_id, 0))
            # Before any transactional id is taken over: the one that loses it finds out by whom.
            instance = encode(InstanceKey(source_cluster_id)), encode(MirrorInstance(generation))
            await self._mirror_maker.write(self._positions.name, [instance])
            has_transactions = (
                self._context.settings.target_transactions
                and await asyncio.to_thread(
                    self._cluster.admin.supports, ApiKey.ADD_PARTITIONS_TO_TXN
                )
            )
        except (TopicUnavailable, PeerError) as error:
            raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, f"the target: {error}") from None
        self._senders = [
            self._new_sender(number, source_cluster_id, has_transactions=has_transactions)
            for number in range(TRANSACTIONAL_IDS)
        ]
        return generation

    def spawn_loops(self) -> list[asyncio.Task[None]]:
        """Begin to send; `open` comes first."""
        loops = [spawn(each.run(), name="produce to the target") for each in self._senders]
        return [*loops, spawn(self._mirror_maker.run(), name="MirrorMaker's topics")]

    def on_source_view(self, view: ClusterView) -> None:
        """The source as it answered."""
        self._positions_of_source.on_view(view)

    def on_target_view(self, view: ClusterView) -> None:
        """The target as it answered."""
        self._view = view
        self._context.target.update(view.nodes)
        self._positions.on_view(view)
        self._instances.on_view(view)
        self._mirror_maker.history.on_view(view)

    async def plan(
        self,
        source: Mapping[str, MirrorTopic],
        target: Mapping[str, MirrorTopic],
        selection: TopicSelection,
    ) -> dict[str, TopicPlan]:
        """What to do with each topic. Raises BusError."""
        clusters = self._context.clusters
        copied_back: frozenset[str] = frozenset()
        try:
            await self._positions.poll()
            await self._instances.refresh()
            if self._positions_of_source.exists:
                await self._positions_of_source.poll()
                copied_back = self._copied_back(source, clusters)
        except TopicUnavailable as error:
            raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, str(error)) from None
        copied = self._table.topic_ids(clusters.source_cluster_id)
        newest = self._generations.get(clusters.source_cluster_id, 0)
        plans = plan_produced_topics(
            source, target, selection, clusters, copied, copied_back, self._context.names
        )
        return plans if newest <= clusters.generation else fenced_plans(plans, newest)

    def sender(self, copy: PartitionCopy) -> ProduceSender:
        """Whose records go through it; the same in every life of the mirror."""
        topic, index = copy.partition
        return self._senders[crc32(f"{topic}-{index}".encode()) % TRANSACTIONAL_IDS]

    async def start(self, copy: PartitionCopy) -> None:
        """Begin to copy a partition. Raises NotStarted."""
        topic = self._view.topics.get(copy.partition.topic)
        target_id = topic.topic_id.hex() if topic is not None else ""
        begin = await self._starter.start(copy, self.sender(copy), target_id)
        self._topic_ids[copy.partition] = copy.topic_id.hex(), target_id
        self._mirror_maker.on_acknowledged(copy.partition, [begin])

    def translated(
        self, groups: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Groups' offsets of the source in the target's."""
        return {
            group: self._mirror_maker.translated(group, committed)
            for group, committed in groups.items()
        }

    def held(self) -> dict[TopicPartition, HeldOffsets]:
        """The partitions whose groups' offsets may be copied."""
        return dict.fromkeys(self._topic_ids, WHOLE_LOG)

    def _new_sender(
        self, number: int, source_cluster_id: str, *, has_transactions: bool
    ) -> ProduceSender:
        transactional_id = f"databus-mirror-{source_cluster_id}-{number}"
        transactions = TransactionManager(
            self._context, transactional_id if has_transactions else None
        )
        return ProduceSender(self._context, f"produce {number}", transactions, self)

    # -- what its producers share -----------------------------------------------------------

    @property
    def position_partition(self) -> TopicPartition:
        """Where positions are written."""
        return TopicPartition(self._positions.name, 0)

    def position_leader(self) -> int:
        """Who leads it; -1: nobody."""
        return self._positions.leader

    def topic_ids(self, partition: TopicPartition) -> tuple[str, str]:
        """Of source and target, with which the partition began."""
        return self._topic_ids[partition]

    def on_acknowledged(
        self, partition: TopicPartition, segments: Sequence[OffsetSegment]
    ) -> None:
        """These offsets of the source are at the target."""
        self._mirror_maker.on_acknowledged(partition, segments)

    def on_rebuilt(self, batches: int) -> None:
        """So many batches could not go as they were."""
        self.rebuilt_batches += batches

    async def check_fencing(self) -> None:
        """Raises TransactionFailed where a newer mirror of this source has begun."""
        await self._instances.refresh()
        clusters = self._context.clusters
        newest = self._generations.get(clusters.source_cluster_id, 0)
        if newest > clusters.generation:
            raise TransactionFailed(MirrorState.FENCED, f"generation {newest}")

    def _create_topics(self) -> None:
        at_target = self._cluster.view().topics
        wanted: dict[str, Mapping[str, str]] = dict.fromkeys(
            self._mirror_maker.topics, mirror_maker_records.TOPIC_CONFIGS
        )
        wanted[self._positions.name] = positions.TOPIC_CONFIGS
        for name, configs in wanted.items():
            if name not in at_target:
                plan = TopicPlan(name, MirrorState.COPYING, 1, True, 0, configs)
                refused = self._cluster.apply(plan, self._context.settings.replication_factor)
                if refused and not refused.startswith("TOPIC_ALREADY_EXISTS"):
                    raise BusError(ErrorCode.INVALID_REQUEST, f"topic {name}: {refused}")

    def _copied_back(
        self, source: Mapping[str, MirrorTopic], clusters: ClusterPair
    ) -> frozenset[str]:
        ids = self._table_of_source.topic_ids(clusters.target_cluster_id)
        return frozenset(
            name for name, topic in source.items() if ids.get(name) == topic.topic_id.hex()
        )

    def _leader_of(self, topic: str) -> int:
        found = self._view.topics.get(topic)
        return found.partitions[0].leader if found is not None else -1

    def _apply_instance(self, record: Record) -> None:
        """Positions are the other reader's."""
        found = instance_in(record.key, record.value)
        if found is not None:
            self._generations[found[0]] = found[1]

    def _apply_position(self, record: Record) -> None:
        _apply(self._table, record)

    def _apply_position_of_source(self, record: Record) -> None:
        _apply(self._table_of_source, record)


def _apply(table: PositionTable, record: Record) -> None:
    try:
        table.apply(record.key, record.value)
    except positions.PositionsError as error:
        raise TopicUnavailable(
            MirrorState.TARGET_REFUSES,
            f"the positions topic holds at offset {record.offset} no position: {error}",
        ) from None
