"""The mirror's one process: topics and leaders of both sides, and all that goes on beside.

In: settings. Out: the target holds what the source holds. Cores: `plan_topics`, `PartitionTasks`.
Never: a state on a disk of its own; after any crash the target's ends say where to go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from bus.client.admin.cluster_admin import ClusterView
from bus.client.wire.loop_ports import LoopClock
from bus.contracts.mirror_status import MirrorStatus
from bus.errors import BusError
from bus.runtime.tasks import in_slices, spawn
from bus.runtime.wall_clock import now_ms
from dr_mirror.acls.acl_copier import AclCopier
from dr_mirror.copy.append_target import AppendTarget
from dr_mirror.copy.cluster_channels import ClusterChannels
from dr_mirror.copy.confirmed_publisher import ConfirmedPublisher
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.mirrored_cluster import MirroredCluster
from dr_mirror.copy.partition_tasks import PartitionTasks
from dr_mirror.copy.plan.pace import LinkLimit, MemoryBudget, backoff_s
from dr_mirror.copy.topic_marker import TopicMarker
from dr_mirror.groups.group_copier import GroupCopier
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
    with_recreated,
)

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

CLIENT_ID = "databus-mirror"
LEADERS_S = 0.1
"""How long after an error leaders are asked again; many partitions fail at once."""


_REFUSED = {True: MirrorState.FEWER_PARTITIONS, False: MirrorState.CREATION_REFUSED}


class Mirror:
    """`run` until cancelled. Invariant: what is copied is in `copied`, which this class and its
    `PartitionTasks` alone write."""

    def __init__(self, settings: MirrorSettings, reconciliation: Path | None = None) -> None:
        """`reconciliation`: the file that keeps what was compared; None: nothing is kept."""
        self._settings = settings
        self._selection = settings.selection
        self._clock = LoopClock()
        self._source_cluster = MirroredCluster(settings.source_bus, CLIENT_ID)
        self._target_cluster = MirroredCluster(settings.target_bus, CLIENT_ID, settings.names)
        self._proof_cluster = MirroredCluster(settings.target_bus, CLIENT_ID, settings.names)
        self._context = _context(settings, self._clock)
        self.copied = self._context.copied
        self.unreachable = ""
        self._produced: ProduceTarget | None = None
        target: AppendTarget | ProduceTarget = AppendTarget(self._context)
        if settings.target_api == "produce":
            target = self._produced = ProduceTarget(self._context, self._target_cluster)
        self._target = target
        self._partitions = self._context.flow = PartitionTasks(self._context, target)
        self._groups = GroupCopier(self._context, target)
        self._acls = AclCopier(self._context)
        directories = LogDirectories(self._proof_cluster)
        self._reconciler = Reconciler(self._context, reconciliation, directories)
        self._marker: TopicMarker | None = None
        self._loops: list[asyncio.Task[None]] = []

    @property
    def clusters(self) -> ClusterPair:
        """Who copies from whom; empty until both have answered."""
        return self._context.clusters

    @property
    def link(self) -> LinkLimit:
        """Of the link between the sites, which pictures share."""
        return self._context.link

    async def status(self, at_ms: int) -> MirrorStatus:
        """What it does now. With a thousand partitions it takes a while, in which records go on."""
        partitions = [
            partition_status(copy, at_ms, self._partitions.answered_ms(copy))
            async for copy in in_slices(self.copied.copies.values())
        ]
        proof = await self._reconciler.status(at_ms)
        return mirror_status(
            self.clusters,
            self.copied.plans,
            partitions,
            now_ms=at_ms,
            unreachable=self.unreachable,
            buffered_bytes=self._context.budget.used,
            groups_not_copied=self._groups.refused,
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
        self._spawn_loops()
        try:
            failures = 0
            while True:
                self._context.refresh.clear()
                failures = 0 if await self._could_compare_topics() else failures + 1
                if failures:
                    await asyncio.sleep(backoff_s(failures, self._clock.random.random()))
                else:
                    await self._wait_for_refresh()
        finally:
            self.close()

    def _spawn_loops(self) -> None:
        """What goes on beside the comparison of topics."""
        if self._produced is not None:
            self._loops += self._produced.spawn_loops()
        else:  # an ordinary target has other batches, and no digests of them
            self._loops.append(spawn(self._reconciler.run(), name="reconciliation"))
        self._loops.append(spawn(self._partitions.run(), name="mirror tick"))
        self._loops.append(spawn(self._groups.run(), name="groups' offsets"))
        if self._settings.copies_acls:
            self._loops.append(spawn(self._acls.run(), name="ACLs"))
        # An ordinary target does not say whether it is a mirror still, and with prefixes no edge
        # could send there what it lacks.
        if self._produced is None and not self._settings.topic_prefixes:
            for at_target in (False, True):
                publisher = ConfirmedPublisher(self._context, at_target=at_target)
                self._loops.append(spawn(publisher.run(), name="confirmed offsets"))

    def close(self) -> None:
        """End everything; `run` does so itself."""
        self._partitions.close()
        for task in self._loops:
            task.cancel()
        if isinstance(self._target, AppendTarget):
            self._target.close()
        self._context.source.close()
        self._context.target.close()
        self._source_cluster.close()
        self._target_cluster.close()
        self._proof_cluster.close()
        self._acls.close()

    # -- topics and leaders -------------------------------------------------------------

    async def _wait_for_refresh(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.topic_refresh_s):
                await self._context.refresh.wait()
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
                at_source, at_target, self._selection, self.clusters,
                self._partitions.topic_ids, self._context.names,
            )  # fmt: skip
            plans = await self._with_recreated(plans, at_target, target)
        self._partitions.forget(name for name, plan in plans.items() if plan.create)
        if await asyncio.to_thread(self._apply, plans):
            source, target = await self._views()
        self.copied.at_target, self.copied.plans = at_target, plans
        self._partitions.assign(plans, source, target)
        if self._marker is not None:
            copied = [at_source[name] for name, plan in plans.items() if plan.state.copies]
            target_id = self.clusters.target_cluster_id
            await asyncio.to_thread(self._marker.mark, copied, target_id)

    async def _with_recreated(
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
        return with_recreated(plans, ends)

    async def _views(self) -> tuple[ClusterView, ClusterView]:
        source, target = await _both(self._source_cluster.view, self._target_cluster.view)
        self._context.source.update(source.nodes)
        self._context.target.update(target.nodes)
        self.copied.source_nodes, self.copied.target_nodes = [*source.nodes], [*target.nodes]
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


def _context(settings: MirrorSettings, clock: LoopClock) -> CopyContext:
    """Of clusters that have not answered yet."""
    sizes = settings.socket_send_buffer_bytes, settings.socket_receive_buffer_bytes
    return CopyContext(
        settings=settings,
        names=settings.names,
        clock=clock,
        source=ClusterChannels("source", settings.source_bus, clock, CLIENT_ID, *sizes),
        target=ClusterChannels("target", settings.target_bus, clock, CLIENT_ID, *sizes),
        budget=MemoryBudget(settings.buffer_bytes),
        link=LinkLimit(settings.link_bytes_per_s),
        clusters=ClusterPair("", "", 0),
    )


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
