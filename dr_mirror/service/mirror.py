"""The mirror's one process: topics and leaders of both sides, and a task per partition.

In: settings. Out: the target holds what the source holds. Cores: `plan_topics`, `PartitionCopy`.
Never: a state on a disk of its own; after any crash the target's ends say where to go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import PartitionDescription, TopicPartition
from bus.client.wire.loop_ports import LoopClock
from bus.contracts.mirror_status import MirrorStatus
from bus.errors import BusError
from bus.runtime.tasks import in_slices, spawn
from bus.runtime.wall_clock import now_ms
from dr_mirror.acls.acl_copier import AclCopier
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.confirmed_publisher import ConfirmedPublisher
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.mirrored_cluster import MirroredCluster
from dr_mirror.copy.partition_starter import NotStarted, PartitionStarter
from dr_mirror.copy.plan.pace import LinkLimit, MemoryBudget, backoff_s
from dr_mirror.copy.plan.partition_copy import NO_NODE, PartitionCopy
from dr_mirror.copy.source_stream import SourceStream
from dr_mirror.copy.target_sender import TargetSender
from dr_mirror.copy.topic_marker import TopicMarker
from dr_mirror.groups.group_copier import GroupCopier
from dr_mirror.groups.plan.groups import HeldOffsets
from dr_mirror.produce.produce_sender import ProduceSender
from dr_mirror.produce.produce_target import ProduceTarget
from dr_mirror.proof.log_directories import LogDirectories
from dr_mirror.proof.reconciler import Reconciler
from dr_mirror.settings import MirrorSettings
from dr_mirror.status.plan.status import mirror_status, partition_status
from dr_mirror.topics.generations import next_generation
from dr_mirror.topics.sites import check_clusters, check_sites
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import (
    ClusterPair,
    MirrorTopic,
    TopicPlan,
    plan_topics,
    surplus_partitions,
    with_made_anew,
)

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

CLIENT_ID = "databus-mirror"
QUEUE_SHARE = 4
"""A partition may fill this part of the buffer: one slow partition does not stop the others."""
TICK_S = 1.0
LEADERS_S = 0.1
"""How long after an error leaders are asked again; many partitions fail at once."""


_REFUSED = {True: MirrorState.FEWER_PARTITIONS, False: MirrorState.CREATION_REFUSED}


class Mirror:
    """`run` until cancelled. Invariant: a task of `_tasks` per partition of `copies`."""

    def __init__(self, settings: MirrorSettings, reconciliation: Path | None = None) -> None:
        """`reconciliation`: the file that keeps what was compared; None: nothing is kept."""
        self._settings = settings
        self._clock = LoopClock()
        sizes = settings.socket_send_buffer_bytes, settings.socket_receive_buffer_bytes
        self._source_cluster = MirroredCluster(settings.source_bus, CLIENT_ID)
        self._names = settings.names
        self._target_cluster = MirroredCluster(settings.target_bus, CLIENT_ID, self._names)
        self._refresh = asyncio.Event()
        self._context = CopyContext(
            settings=settings,
            names=self._names,
            clock=self._clock,
            source=ClusterChannels("source", settings.source_bus, self._clock, CLIENT_ID, *sizes),
            target=ClusterChannels("target", settings.target_bus, self._clock, CLIENT_ID, *sizes),
            budget=MemoryBudget(settings.buffer_bytes),
            link=LinkLimit(settings.link_bytes_per_s),
            clusters=ClusterPair("", "", 0),
            restart=self._restart,
            refresh_soon=self._refresh.set,
        )
        self._starter = PartitionStarter(self._context)
        self._selection = settings.selection
        self.plans: dict[str, TopicPlan] = {}
        self.copies: dict[TopicPartition, PartitionCopy] = {}
        self.unreachable = ""
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._stopped: dict[TopicPartition, asyncio.Event] = {}
        self._changed: dict[TopicPartition, asyncio.Event] = {}
        self._streams: dict[tuple[int, int], SourceStream] = {}
        self._senders: dict[int, TargetSender] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._topic_ids: dict[str, bytes] = {}  # the source's, of what is being copied
        self._groups_not_copied: dict[str, str] = {}
        self._live_nodes: tuple[list[int], list[int]] = ([], [])  # of source and target
        self._target: Mapping[str, MirrorTopic] = {}
        self._marker: TopicMarker | None = None
        self._produced: ProduceTarget | None = None
        if settings.target_api == "produce":
            self._produced = ProduceTarget(
                self._context, self._target_cluster, lambda: self._live_nodes[1], self._on_room
            )
        self._groups = GroupCopier(
            self._context,
            self._groups_not_copied,
            lambda: self._live_nodes[0],
            lambda: self._live_nodes[1],
            self._held,
            self._produced.translated if self._produced else None,
        )
        self._acls = AclCopier(self._context, self._copied_topics)
        self._proof_cluster = MirroredCluster(settings.target_bus, CLIENT_ID, self._names)
        self._reconciler = Reconciler(
            self._context, reconciliation, self.copies, self._is_compacted,
            LogDirectories(self._proof_cluster.stored_replicas), self._answered_ms,
        )  # fmt: skip

    @property
    def clusters(self) -> ClusterPair:
        """Who copies from whom; empty until both have answered."""
        return self._context.clusters

    @property
    def link(self) -> LinkLimit:
        """Of the link between the sites, which pictures share."""
        return self._context.link

    def lag_bytes(self) -> int:
        """Of records that the target lacks."""
        return sum(copy.lag_bytes for copy in self.copies.values())

    async def status(self, at_ms: int) -> MirrorStatus:
        """What it does now. With a thousand partitions it takes a while, in which records go on."""
        partitions = [
            partition_status(copy, at_ms, self._answered_ms(copy))
            async for copy in in_slices(self.copies.values())
        ]
        proof = await self._reconciler.status(at_ms)
        return mirror_status(
            self.clusters,
            self.plans,
            partitions,
            now_ms=at_ms,
            unreachable=self.unreachable,
            buffered_bytes=self._context.budget.used,
            groups_not_copied=self._groups_not_copied,
            rebuilt_batches=self._produced.rebuilt_batches if self._produced else 0,
            groups_copied_ms=self._groups.copied_ms,
            proof=proof,
            acls=self._acls.status,
        )

    async def identify(self) -> None:
        """Ask both clusters who they are. Raises BusError, SitesError."""
        source, target = await _both(
            partial(_identity, self._source_cluster), partial(_identity, self._target_cluster)
        )
        if self._produced is not None:
            check_clusters(source[0].cluster_id, target[0].cluster_id)
            generation = await self._produced.open(source[0].cluster_id)
            self._context.clusters = ClusterPair(
                source[0].cluster_id, target[0].cluster_id, generation
            )
            return
        check_sites(source[0].cluster_id, target[0].cluster_id, source[1], target[1])
        if source[1] is not None and not self._settings.topic_prefixes:
            self._marker = TopicMarker(self._source_cluster.admin)
        at_target = await asyncio.to_thread(
            self._target_cluster.with_configs, target[0], list(target[0].topics)
        )
        generation = next_generation(now_ms(), (each.configs for each in at_target.values()))
        self._context.clusters = ClusterPair(
            source[0].cluster_id, target[0].cluster_id, generation
        )

    async def run(self) -> None:
        """Copy until cancelled; `identify` comes first."""
        if self._produced is not None:
            self._loops += self._produced.spawn_loops()
        else:  # an ordinary target has other batches, and no digests of them
            self._loops.append(spawn(self._reconciler.run(), name="reconciliation"))
        self._loops.append(spawn(self._tick_again_and_again(), name="mirror tick"))
        self._loops.append(spawn(self._groups.run(), name="groups' offsets"))
        if self._settings.copies_acls:
            self._loops.append(spawn(self._acls.run(), name="ACLs"))
        # An ordinary target does not say whether it is a mirror still, and with prefixes no edge
        # could send there what it lacks.
        if self._produced is None and not self._settings.topic_prefixes:
            for publisher in self._publishers():
                self._loops.append(spawn(publisher.run(), name="confirmed offsets"))
        try:
            failures = 0
            while True:
                self._refresh.clear()
                failures = 0 if await self._could_compare_topics() else failures + 1
                if failures:
                    await asyncio.sleep(backoff_s(failures, self._clock.random.random()))
                else:
                    await self._wait_for_refresh()
        finally:
            self.close()

    def _copied_topics(self) -> list[str]:
        return [name for name, plan in self.plans.items() if plan.state.copies]

    # -- topics and leaders -------------------------------------------------------------

    async def _wait_for_refresh(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.topic_refresh_s):
                await self._refresh.wait()
        await asyncio.sleep(LEADERS_S)

    async def _could_compare_topics(self) -> bool:
        try:
            await self._compare_topics()
        except BusError as error:
            if not self.unreachable:
                log.warning("topics cannot be compared: %s", error)
            self.unreachable = str(error)
            return False
        self.unreachable = ""
        return True

    async def _compare_topics(self) -> None:
        source, target = await self._views()
        selected = [name for name in source.topics if self._selection.selects(name)]
        at_source, at_target = await _both(
            partial(self._source_cluster.with_configs, source, selected),
            partial(self._target_cluster.with_configs, target, list(target.topics)),
        )
        if self._produced is not None:
            plans = await self._produced.plan(at_source, at_target, self._selection)
        else:
            plans = plan_topics(
                at_source, at_target, self._selection, self.clusters, self._topic_ids, self._names
            )
            plans = await self._named_made_anew(plans, at_target, target)
        self._forget_copies_of(name for name, plan in plans.items() if plan.create)
        if await asyncio.to_thread(self._apply, plans):
            source, target = await self._views()
        self._target = at_target
        self._assign(plans, source, target)
        if self._marker is not None:
            copied = [at_source[name] for name, plan in plans.items() if plan.state.copies]
            target_id = self.clusters.target_cluster_id
            await asyncio.to_thread(self._marker.mark, copied, target_id)

    async def _named_made_anew(
        self, plans: dict[str, TopicPlan], at_target: dict[str, MirrorTopic], target: ClusterView
    ) -> dict[str, TopicPlan]:
        """With what the target's surplus partitions say, which are asked where there are any."""
        surplus = surplus_partitions(plans, at_target)
        if not surplus:
            return plans
        try:
            ends = await asyncio.to_thread(self._target_cluster.ends, target, surplus)
        except BusError as error:  # the other topics go on
            log.warning("the target does not say what its surplus partitions hold: %s", error)
            return plans
        return with_made_anew(plans, ends)

    def _forget_copies_of(self, missing: Iterable[str]) -> None:
        """The target has no such topics any more: what the source has is new, whatever was copied.
        They may be made again before anybody sees them gone."""
        names = set(missing)
        for partition in [each for each in self.copies if each.topic in names]:
            self._give_up_copying(partition)
        for name in names & set(self._topic_ids):
            del self._topic_ids[name]

    async def _views(self) -> tuple[ClusterView, ClusterView]:
        source, target = await _both(self._source_cluster.view, self._target_cluster.view)
        self._context.source.update(source.nodes)
        self._context.target.update(target.nodes)
        self._live_nodes = list(source.nodes), list(target.nodes)
        if self._produced is not None:
            self._produced.on_source_view(source)
            self._produced.on_target_view(target)
        return source, target

    def _apply(self, plans: dict[str, TopicPlan]) -> bool:
        """Make the changes; refused ones get their state. Whether anything was to change."""
        is_changed = False
        for name, plan in plans.items():
            if not (plan.create or plan.add_to or plan.configure):
                continue
            is_changed = True
            refused = self._target_cluster.apply(plan, self._settings.replication_factor)
            if refused:
                log.warning("%s: the target refuses a change: %s", name, refused)
                state = _REFUSED[bool(plan.add_to)]
                plans[name] = TopicPlan(name, state, plan.copied, detail=refused)
        return is_changed

    def _assign(
        self, plans: dict[str, TopicPlan], source: ClusterView, target: ClusterView
    ) -> None:
        self.plans = plans
        wanted: set[TopicPartition] = set()
        for name, plan in plans.items():
            if not plan.state.copies or name not in source.topics or name not in target.topics:
                continue
            self._topic_ids.setdefault(name, source.topics[name].topic_id)
            at_target = {each.index: each for each in target.topics[name].partitions}
            for theirs in source.topics[name].partitions:
                ours = at_target.get(theirs.index)
                if ours is not None and theirs.index < plan.copied:
                    partition = TopicPartition(name, theirs.index)
                    wanted.add(partition)
                    self._place(partition, theirs, ours, target.topics[name].topic_id)
        for partition in set(self.copies) - wanted:
            self._give_up_copying(partition)
        for name in set(self._topic_ids) - set(target.topics):
            del self._topic_ids[name]  # deleted at the target: what the source has is new

    def _place(
        self,
        partition: TopicPartition,
        theirs: PartitionDescription,
        ours: PartitionDescription,
        target_topic_id: bytes,
    ) -> None:
        copy = self.copies.get(partition)
        if copy is None:
            copy = PartitionCopy(partition, self._settings.buffer_bytes // QUEUE_SHARE)
            copy.topic_id = self._topic_ids[partition.topic]
            copy.target_topic_id = target_topic_id
            self.copies[partition] = copy
            self._stopped[partition], self._changed[partition] = asyncio.Event(), asyncio.Event()
            self._tasks[partition] = spawn(
                self._keep_copying(copy, target_topic_id), name=f"copy {partition}"
            )
        copy.target_replicas = ours.replicas
        if theirs.leader != copy.source_leader or theirs.leader_epoch != copy.source_epoch:
            self._move_source(copy, theirs)
        if ours.leader != copy.target_leader:
            self._move_target(copy, ours.leader)

    def _move_source(self, copy: PartitionCopy, theirs: PartitionDescription) -> None:
        if theirs.leader == NO_NODE:
            return  # an election: the old leader's errors are heard, the new one comes
        if copy.source_leader != NO_NODE:
            self._stream(copy).remove(copy)
        copy.source_leader, copy.source_epoch = theirs.leader, theirs.leader_epoch
        self._stream(copy).update(copy)
        self._changed[copy.partition].set()

    def _move_target(self, copy: PartitionCopy, leader: int) -> None:
        if leader == NO_NODE:
            return
        if copy.target_leader != NO_NODE:
            self._sender(copy).remove(copy)
        copy.target_leader = leader
        if copy.copying:
            self._restart(copy, MirrorState.STARTING, "another broker of the target leads")
        self._changed[copy.partition].set()

    def _give_up_copying(self, partition: TopicPartition) -> None:
        copy = self.copies.pop(partition)
        self._tasks.pop(partition).cancel()
        del self._stopped[partition], self._changed[partition]
        copy.halt(MirrorState.STARTING)
        if copy.source_leader != NO_NODE:
            self._stream(copy).remove(copy)
        if copy.target_leader != NO_NODE:
            self._sender(copy).remove(copy)

    # -- one partition --------------------------------------------------------------------

    async def _keep_copying(self, copy: PartitionCopy, target_topic_id: bytes) -> None:
        """Start, and start again after a back-off, as long as the partition is copied."""
        failures = 0
        stopped, changed = self._stopped[copy.partition], self._changed[copy.partition]
        while True:
            stopped.clear()
            changed.clear()
            before = copy.copied_records
            try:
                await self._start(copy, target_topic_id)
                self._stream(copy).update(copy)
                await stopped.wait()
            except NotStarted as reason:
                copy.halt(reason.state, reason.detail)
            failures = 1 if copy.copied_records > before else failures + 1
            self._refresh.set()
            with suppress(TimeoutError):  # a new leader ends the back-off
                async with asyncio.timeout(backoff_s(failures, self._clock.random.random())):
                    await changed.wait()

    async def _start(self, copy: PartitionCopy, target_topic_id: bytes) -> None:
        """Raises NotStarted."""
        if self._produced is not None:
            await self._produced.start(copy)
            return
        is_compacted = self._is_compacted(copy.partition.topic)
        await self._starter.start(copy, target_topic_id, is_compacted=is_compacted)

    def _restart(self, copy: PartitionCopy, state: MirrorState, detail: str) -> None:
        if state is not MirrorState.STARTING:
            log.warning("%s-%d: %s: %s", *copy.partition, state.value, detail)
        copy.halt(state, detail)
        self._stream(copy).update(copy)
        if copy.partition in self._stopped:
            self._stopped[copy.partition].set()

    def _is_compacted(self, topic: str) -> bool:
        at_target = self._target.get(topic)
        return at_target is not None and at_target.is_compacted

    # -- connections ------------------------------------------------------------------------

    def _stream(self, copy: PartitionCopy) -> SourceStream:
        key = leader, number = self._stream_key(copy)
        stream = self._streams.get(key)
        if stream is None:
            channel = self._context.source.channel(leader, f"fetch {number}")
            stream = self._streams[key] = SourceStream(self._context, channel, self._on_queued)
            name = f"fetch {number} from broker {leader}"
            self._loops.append(spawn(stream.run(), name=name))
        return stream

    def _answered_ms(self, copy: PartitionCopy) -> int:
        stream = self._streams.get(self._stream_key(copy))
        return stream.answered_ms if stream is not None else -1

    def _stream_key(self, copy: PartitionCopy) -> tuple[int, int]:
        return copy.source_leader, copy.partition.partition % self._settings.streams

    def _sender(self, copy: PartitionCopy) -> TargetSender | ProduceSender:
        if self._produced is not None:
            return self._produced.sender(copy.partition)
        sender = self._senders.get(copy.target_leader)
        if sender is None:
            channel = self._context.target.channel(copy.target_leader, "append", pipelined=True)
            sender = TargetSender(self._context, channel, self._on_room)
            self._senders[copy.target_leader] = sender
        return sender

    def _on_queued(self, copy: PartitionCopy) -> None:
        self._sender(copy).update(copy)

    def _on_room(self, copy: PartitionCopy) -> None:
        self._stream(copy).update(copy)

    def _held(self) -> Mapping[TopicPartition, HeldOffsets]:
        """What the target holds of every partition that is copied, named as there."""
        if self._produced is not None:
            return self._names.keys_at_target(self._produced.held())
        return {
            self._names.partition_at_target(partition): HeldOffsets(
                copy.target_log_start, copy.acknowledged
            )
            for partition, copy in self.copies.items()
            if copy.acknowledged >= 0
        }

    def _publishers(self) -> tuple[ConfirmedPublisher, ConfirmedPublisher]:
        context, settings = self._context, self._settings
        return (
            ConfirmedPublisher(
                context, "source", context.source, settings.source_bus,
                lambda: self._live_nodes[0], self._confirmed,
            ),
            ConfirmedPublisher(
                context, "target", context.target, settings.target_bus,
                lambda: self._live_nodes[1], self._confirmed,
            ),
        )  # fmt: skip

    def _confirmed(self) -> dict[TopicPartition, int]:
        """Ends that the target has acknowledged, only of what is being copied: where a partition
        stands still, its end may belong to another log of the source."""
        return {
            partition: copy.acknowledged for partition, copy in self.copies.items() if copy.copying
        }

    async def _tick_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            for copy in list(self.copies.values()):
                if copy.log_start_moved:
                    self._sender(copy).update(copy)

    def close(self) -> None:
        """End everything; `run` does so itself."""
        for task in (*self._tasks.values(), *self._loops):
            task.cancel()
        for sender in self._senders.values():
            sender.close()
        self._context.source.close()
        self._context.target.close()
        self._source_cluster.close()
        self._target_cluster.close()
        self._proof_cluster.close()
        self._acls.close()


async def _both(of_source: Callable[[], Answer], of_target: Callable[[], Answer]) -> list[Answer]:
    """Ask both clusters at once. Raises BusError once both have answered or failed: a connection
    serves one thread at a time, and the caller asks again."""
    asked = (asyncio.to_thread(of_source), asyncio.to_thread(of_target))
    answers: list[Answer] = []
    for one in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(one, BaseException):
            raise one
        answers.append(one)
    return answers


def _identity(cluster: MirroredCluster) -> tuple[ClusterView, int | None]:
    return cluster.view(), cluster.admin.site_number()
