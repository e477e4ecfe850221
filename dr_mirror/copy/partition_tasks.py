"""A task for each partition that is copied, and the streams that fetch it.

In: plans of topics, both clusters' leaders, what a stream or a sender meets. Out: partitions that
are copied, or named states. Core: `PartitionCopy`. Never: a partition left alone that may be
copied.

The steps of a partition: `assign` gives it a task and its leaders; the task starts it at the
`CopyTarget`; its stream queues records (`on_queued`), its sender has them appended (`on_room`);
whatever fails on the way calls `restart`, and the task starts it again after a back-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bus.client.admin.cluster_admin import ClusterView
from bus.client.model import PartitionDescription, TopicPartition
from bus.runtime.tasks import spawn
from dr_mirror.copy.context import CopyContext, CopyTarget
from dr_mirror.copy.partition_starter import NotStarted
from dr_mirror.copy.plan.pace import backoff_s
from dr_mirror.copy.plan.partition_copy import NO_NODE, PartitionCopy
from dr_mirror.copy.source_stream import SourceStream
from dr_mirror.topics.states import MirrorState
from dr_mirror.topics.topics import TopicPlan

log = logging.getLogger(__name__)

QUEUE_SHARE = 4
"""A partition may fill this part of the buffer: one slow partition does not stop the others."""
TICK_S = 1.0


@dataclass(slots=True)
class _PartitionTask:
    """`stopped`: it was restarted. `changed`: another broker leads it, at either side."""

    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class PartitionTasks:
    """The `PartitionFlow` of its context. Invariant: a `_PartitionTask` per partition of `copies`;
    `topic_ids` are the source's, of what is being copied."""

    def __init__(self, context: CopyContext, target: CopyTarget) -> None:
        self._context = context
        self._copies = context.copied.copies
        self._target = target
        self._running: dict[TopicPartition, _PartitionTask] = {}
        self._streams: dict[tuple[int, int], SourceStream] = {}
        self._fetching: list[asyncio.Task[None]] = []
        self.topic_ids: dict[str, bytes] = {}

    async def run(self) -> None:
        """Tell senders of log starts that have moved, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            for copy in list(self._copies.values()):
                if copy.log_start_moved:
                    self._target.sender(copy).update(copy)

    def close(self) -> None:
        """End all tasks."""
        for one in self._running.values():
            if one.task is not None:
                one.task.cancel()
        for task in self._fetching:
            task.cancel()

    # -- which partitions -----------------------------------------------------------------

    def assign(
        self, plans: Mapping[str, TopicPlan], source: ClusterView, target: ClusterView
    ) -> None:
        """Copy what the plans say, from and to the leaders of these views, and nothing else. A
        topic that was made anew since it was planned is planned again first."""
        wanted: set[TopicPartition] = set()
        for name, plan in plans.items():
            if not plan.state.copies or name not in source.topics or name not in target.topics:
                continue
            if plan.source_id and plan.source_id != source.topics[name].topic_id:
                self._context.refresh.set()
                continue
            if plan.source_id or name not in self.topic_ids:
                self.topic_ids[name] = source.topics[name].topic_id
            at_target = {each.index: each for each in target.topics[name].partitions}
            for theirs in source.topics[name].partitions:
                ours = at_target.get(theirs.index)
                if ours is not None and theirs.index < plan.copied:
                    partition = TopicPartition(name, theirs.index)
                    wanted.add(partition)
                    self._place(partition, theirs, ours, target.topics[name].topic_id)
        for partition in set(self._copies) - wanted:
            self._give_up(partition)
        for name in set(self.topic_ids) - set(target.topics):
            del self.topic_ids[name]  # deleted at the target: what the source has is new

    def forget(self, missing: Iterable[str]) -> None:
        """The target has no such topics any more: what the source has is new, whatever was copied.
        They may be made again before anybody sees them gone."""
        names = set(missing)
        for partition in [each for each in self._copies if each.topic in names]:
            self._give_up(partition)
        for name in names & set(self.topic_ids):
            del self.topic_ids[name]

    def _place(
        self,
        partition: TopicPartition,
        theirs: PartitionDescription,
        ours: PartitionDescription,
        target_topic_id: bytes,
    ) -> None:
        copy = self._copies.get(partition)
        ids = self.topic_ids[partition.topic], target_topic_id
        if copy is not None and (copy.topic_id, copy.target_topic_id) != ids:
            self._give_up(partition)  # of a topic that was deleted, at one side or both
            copy = None
        if copy is None:
            copy = self._begin(partition, target_topic_id)
        copy.target_replicas = ours.replicas
        if theirs.leader != copy.source_leader or theirs.leader_epoch != copy.source_epoch:
            self._move_source(copy, theirs)
        if ours.leader != copy.target_leader:
            self._move_target(copy, ours.leader)

    def _begin(self, partition: TopicPartition, target_topic_id: bytes) -> PartitionCopy:
        copy = PartitionCopy(partition, self._context.settings.buffer_bytes // QUEUE_SHARE)
        copy.topic_id = self.topic_ids[partition.topic]
        copy.target_topic_id = target_topic_id
        self._copies[partition] = copy
        one = self._running[partition] = _PartitionTask()
        one.task = spawn(self._keep_copying(copy, one), name=f"copy {partition}")
        return copy

    def _move_source(self, copy: PartitionCopy, theirs: PartitionDescription) -> None:
        if theirs.leader == NO_NODE:
            return  # an election: the old leader's errors are heard, the new one comes
        if copy.source_leader != NO_NODE:
            self._stream(copy).remove(copy)
        copy.source_leader, copy.source_epoch = theirs.leader, theirs.leader_epoch
        self._stream(copy).update(copy)
        self._running[copy.partition].changed.set()

    def _move_target(self, copy: PartitionCopy, leader: int) -> None:
        if leader == NO_NODE:
            return
        if copy.target_leader != NO_NODE:
            self._target.sender(copy).remove(copy)
        copy.target_leader = leader
        if copy.copying:
            self.restart(copy, MirrorState.STARTING, "another broker of the target leads")
        self._running[copy.partition].changed.set()

    def _give_up(self, partition: TopicPartition) -> None:
        copy = self._copies.pop(partition)
        one = self._running.pop(partition)
        if one.task is not None:
            one.task.cancel()
        copy.halt(MirrorState.STARTING)
        if copy.source_leader != NO_NODE:
            self._stream(copy).remove(copy)
        if copy.target_leader != NO_NODE:
            self._target.sender(copy).remove(copy)

    # -- one partition --------------------------------------------------------------------

    async def _keep_copying(self, copy: PartitionCopy, one: _PartitionTask) -> None:
        """Start, and start again after a back-off, as long as the partition is copied."""
        failures = 0
        while True:
            one.stopped.clear()
            one.changed.clear()
            before = copy.copied_records
            try:
                await self._target.start(copy)
                self._stream(copy).update(copy)
                await one.stopped.wait()
            except NotStarted as reason:
                copy.halt(reason.state, reason.detail)
            failures = 1 if copy.copied_records > before else failures + 1
            self._context.refresh.set()
            pause_s = backoff_s(failures, self._context.clock.random.random())
            with suppress(TimeoutError):  # a new leader ends the back-off
                async with asyncio.timeout(pause_s):
                    await one.changed.wait()

    def restart(self, copy: PartitionCopy, state: MirrorState, detail: str) -> None:
        """Stop copying it, show this state and detail, begin again after a back-off."""
        if state is not MirrorState.STARTING:
            log.warning("%s-%d: %s: %s", *copy.partition, state.value, detail)
        copy.halt(state, detail)
        self._stream(copy).update(copy)
        one = self._running.get(copy.partition)
        if one is not None:
            one.stopped.set()

    def on_queued(self, copy: PartitionCopy) -> None:
        """Records of it wait for the target."""
        self._target.sender(copy).update(copy)

    def on_room(self, copy: PartitionCopy) -> None:
        """The target has taken some of it."""
        self._stream(copy).update(copy)

    def answered_ms(self, copy: PartitionCopy) -> int:
        """When its leader at the source answered last; -1: never."""
        stream = self._streams.get(self._stream_key(copy))
        return stream.answered_ms if stream is not None else -1

    def _stream(self, copy: PartitionCopy) -> SourceStream:
        key = leader, number = self._stream_key(copy)
        stream = self._streams.get(key)
        if stream is None:
            channel = self._context.source.channel(leader, f"fetch {number}")
            stream = self._streams[key] = SourceStream(self._context, channel)
            name = f"fetch {number} from broker {leader}"
            self._fetching.append(spawn(stream.run(), name=name))
        return stream

    def _stream_key(self, copy: PartitionCopy) -> tuple[int, int]:
        return copy.source_leader, copy.partition.partition % self._context.settings.streams
