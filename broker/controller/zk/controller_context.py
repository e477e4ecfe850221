"""The elected controller's image, and how it changes.

In: decisions. Out: conditional znode writes, then the new image, then requests to brokers. Never:
an election or a watch; `controller.py` has the first, `event_handlers` the second.

Every write checks `/controller_epoch`: once another broker was elected none of ours succeeds. A
write that fails for another reason met a manual change of the same node, or its response was lost:
the state is read again, and the decision is made again on it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from broker.clock.port import Clock
from broker.controller.decisions.decision import Decide, Decision
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.zk import election
from broker.controller.zk.acl_and_quota_reader import read_acls_and_quotas
from broker.controller.zk.channels import (
    BrokerRequestQueue,
    BrokerRequestQueues,
    ResponseHandlers,
    SendToBroker,
)
from broker.controller.zk.config_plan import KnownConfigNodes
from broker.controller.zk.deletion import TopicDeletionManager
from broker.controller.zk.plan import Fence, Plan, plan
from broker.controller.zk.port import (
    Operation,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.requests import Sender
from broker.controller.zk.state_machines import partition_machine, replica_machine
from broker.controller.zk.state_reader import ZooKeeperMetadata, read_cluster
from broker.controller.zk.state_tracker import StateTracker
from broker.controller.zk.znodes import ConfigNode
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage, TopicImage, frozen
from bus.protocol.generated.metadata_records import (
    RegisterBrokerRecord,
    RemoveTopicRecord,
)

log = logging.getLogger("broker.controller.zk")

Reply = TypeVar("Reply")

MAX_TRIES = 5
"""Attempts of one decision whose writes meet foreign ones. Each attempt starts with a fresh image,
so more would mean that another process writes the same nodes all the time."""


class ControllerMoved(Exception):
    """Another controller was elected, or the session ended."""


class WriteConflict(Exception):
    """A decision's writes were rejected, MAX_TRIES times or by ZooKeeper itself."""


@dataclass(frozen=True, slots=True)
class ControllerDeps:
    """What a controller context is built on."""

    node_id: int
    session: ZooKeeperSession
    clock: Clock
    policy: Callable[[], PartitionPolicy]
    send: SendToBroker
    response_handlers: ResponseHandlers
    connected: Callable[[], Awaitable[None]]
    """Returns once the session is connected; raises ControllerMoved when it has ended."""
    deletion_enabled: Callable[[], bool]
    on_unclean: Callable[[int], None] = lambda count: None
    """Called with the number of unclean elections."""
    resync: Callable[[], object] = lambda: None
    """Called when everything was read again during a change: what changed between the two reads
    must be processed."""


class ControllerContext:
    """The controller while it is elected.

    Invariant: `image` is what ZooKeeper holds as of the last read or write, without the topics that
    are being deleted; a partition's epoch is its state node's version.
    """

    def __init__(self, deps: ControllerDeps, fence: Fence) -> None:
        self.deps = deps
        self.fence = fence
        self.image = MetadataImage()
        self.topic_versions: dict[str, int] = {}
        self.watched_topics: set[str] = set()
        self.has_topics_without_id = False
        self.config_nodes: dict[str, ConfigNode] = {}
        self.acl_versions: dict[str, int] = {}
        self.partitions = partition_machine()
        self.replicas = replica_machine()
        self.deletions = TopicDeletionManager(self.partitions, self.replicas)
        self.pending_reassignments: dict[tuple[str, int], None] = {}
        self.is_resync_due = False
        self.request_queues = BrokerRequestQueues(self._request_queue)
        self.tracking = StateTracker(
            self.partitions, self.replicas, self.request_queues, deps.node_id, fence.epoch,
            deps.on_unclean,
        )  # fmt: skip

    def close(self) -> None:
        """Sends nothing more."""
        self.request_queues.close_all()

    def _request_queue(self, broker_id: int, broker_epoch: int) -> BrokerRequestQueue:
        deps = self.deps

        def sender(epoch: int) -> Sender:
            return Sender(deps.node_id, self.fence.epoch, epoch)

        return BrokerRequestQueue(
            broker_id, broker_epoch, sender, lambda: self.image, deps.send, deps.response_handlers,
            deps.clock,
        )  # fmt: skip

    # -- reading ------------------------------------------------------------------------

    async def load(self) -> ZooKeeperMetadata:
        """Reads everything with watches; every broker gets everything again."""
        state = await read_cluster(self.deps.session, watch=True)
        await read_acls_and_quotas(self.deps.session, state)
        for fault in state.faults:
            log.error("left alone: %s", fault)
        delta = MetadataDelta(MetadataImage(cluster_id=state.cluster_id))
        for record in self._without_unverified(state):
            delta.replay(record)
        image = delta.apply(self.image.offset + len(state.records), self.fence.epoch).image
        self.topic_versions = state.topic_versions
        self.watched_topics = set(state.topic_versions)
        self.has_topics_without_id = bool(state.topics_without_id)
        self.config_nodes = state.config_nodes
        self.acl_versions = state.acl_versions
        leaving = [image.topics[one] for one in state.deleting if one in image.topics]
        if not self.deps.deletion_enabled():
            leaving = []
        self.image = _without_topics(image, leaving)
        self.tracking.initialize(self.image, leaving)
        for topic in leaving:
            self.begin_deletion(topic)
        self.tracking.queue_full_update(self.image)
        self.request_queues.send_pending()
        return state

    def _without_unverified(self, state: ZooKeeperMetadata) -> list[object]:
        """A broker that lost acknowledged records counts as one that has left, until it is out of
        every in-sync set; `event_handlers.brokers` then finds that it has started (ADR 0032)."""
        known = self.image.brokers
        return [
            record
            for record in state.records
            if not isinstance(record, RegisterBrokerRecord)
            or record.broker_id not in state.unverified
            or (
                record.broker_id in known
                and known[record.broker_id].epoch == record.broker_epoch
            )
        ]

    def begin_deletion(self, topic: TopicImage) -> None:
        """A topic has left the image: brokers drop it from their metadata, then delete it."""
        for queue in self.request_queues.all():
            queue.pending.deleted[topic.topic_id] = topic
        self.stop_replicas(self.deletions.begin(topic, self.image.brokers))

    def stop_replicas(self, keys: Iterable[tuple[str, int, int]]) -> None:
        """Has brokers delete replicas."""
        for name, index, broker_id in keys:
            queue = self.request_queues.get(broker_id)
            if queue is not None:
                epoch = self.deletions.topics[name].partitions[index].leader_epoch
                queue.pending.stops[name, index] = epoch
        self.request_queues.send_pending()

    # -- writing ------------------------------------------------------------------------

    async def transact(self, decide: Decide[Reply], *, assigned: bool = False) -> Reply:
        """Decides, writes, replays, notifies. Raises ControllerMoved and WriteConflict."""
        for _ in range(MAX_TRIES):
            decision = decide(self._image_with_deleted_topics())
            records = self._without_deleted_topics(decision)
            if not records:
                return decision.reply
            delta = MetadataDelta(self.image)
            for record in records:
                delta.replay(record)
            changes = delta.apply(self.image.offset + len(records), self.fence.epoch)
            planned = plan(
                self.image, changes.image, records, self.fence, self.topic_versions,
                KnownConfigNodes(self.config_nodes, self.acl_versions), assigned=assigned,
            )  # fmt: skip
            if await self._write_all(planned):
                self._apply(changes, planned)
                await self._notify(planned)
                return decision.reply
        raise WriteConflict("the same nodes were written by somebody else again and again")

    def replay(self, records: Iterable[object]) -> None:
        """Applies what ZooKeeper already holds."""
        applied = list(records)
        if applied:
            delta = MetadataDelta(self.image)
            for record in applied:
                delta.replay(record)
            self._apply(delta.apply(self.image.offset + len(applied), self.fence.epoch), None)

    async def write(self, operations: Iterable[Operation]) -> bool:
        """Conditional writes beside the image (markers, requests of tools); False if they met a
        foreign write. Raises ControllerMoved and WriteConflict."""
        return await self._write_all(Plan(multis=((self.fence.check, *operations),)))

    async def _write_all(self, planned: Plan) -> bool:
        """Whether all writes succeeded; if not, the state has been read again."""
        for multi in planned.multis:
            try:
                await self.deps.session.multi(multi)
            except ZooKeeperError as error:
                await self._on_write_failed(error)
                return False
        return True

    async def _on_write_failed(self, error: ZooKeeperError) -> None:
        """A write failed: find out what is stored now."""
        if error.kind is ZooKeeperErrorKind.SESSION_EXPIRED:
            raise ControllerMoved(str(error)) from error
        if error.kind is ZooKeeperErrorKind.REFUSED:
            raise WriteConflict(str(error)) from error
        if error.failed_index == 0 and error.kind is not ZooKeeperErrorKind.CONNECTION_LOSS:
            raise ControllerMoved("another controller was elected") from error
        log.info("a write met another one: %s", error)
        await self.reload()
        if not self.is_resync_due:
            self.is_resync_due = True
            self.deps.resync()

    async def reload(self) -> ZooKeeperMetadata:
        """Reads everything again, waiting for the connection if necessary. Raises
        ControllerMoved."""
        while True:
            await self.deps.connected()
            try:
                if not await election.still_holds(self.deps.session, self.fence):
                    raise ControllerMoved("another controller was elected")
                return await self.load()
            except ZooKeeperError as error:
                if error.kind is not ZooKeeperErrorKind.CONNECTION_LOSS:
                    raise ControllerMoved(str(error)) from error

    def _apply(self, changes: Changes, planned: Plan | None) -> None:
        self.image = changes.image
        if planned is not None:
            for name in planned.written_topics:
                self.topic_versions[name] = self.topic_versions.get(name, -1) + 1
            self.config_nodes.update(planned.configs)
            for path, version in planned.acls.items():
                self.note_acl(path, version)
        self.tracking.apply(changes)
        for topic in changes.deleted_topics:
            if planned is not None and topic.name in planned.deleted_topics:
                self.begin_deletion(topic)
        self.request_queues.send_pending()

    def note_acl(self, path: str, version: int | None) -> None:
        """An ACL node has this version now; None: it was removed."""
        if version is None:
            self.acl_versions.pop(path, None)
        else:
            self.acl_versions[path] = version

    async def _notify(self, planned: Plan) -> None:
        """Notifies every broker of what to read again. A notification that is lost with the
        connection is made up for by the read after every reconnect."""
        for path, data in planned.notifications:
            try:
                await self.deps.session.create(path, data, sequence=True)
            except ZooKeeperError as error:
                log.warning("no note of %r: %s", data, error)

    def _image_with_deleted_topics(self) -> MetadataImage:
        """The image with the names that are still occupied by topics being deleted."""
        if not self.deletions.topics:
            return self.image
        topics = dict(self.image.topics)
        names = dict(self.image.topic_names)
        for name, topic in self.deletions.topics.items():
            topics[name] = TopicImage(name, topic.topic_id)
            names[topic.topic_id] = name
        return replace(self.image, topics=frozen(topics), topic_names=frozen(names))

    def _without_deleted_topics(self, decision: Decision[Reply]) -> list[object]:
        """The records of a decision without those about topics that are being deleted."""
        leaving = {topic.topic_id for topic in self.deletions.topics.values()}
        return [
            record
            for record in decision.records
            if getattr(record, "topic_id", None) not in leaving
            and getattr(record, "resource_name", None) not in self.deletions.topics
        ]


def _without_topics(image: MetadataImage, topics: Iterable[TopicImage]) -> MetadataImage:
    delta = MetadataDelta(image)
    for topic in topics:
        delta.replay(RemoveTopicRecord(topic_id=topic.topic_id))
    return delta.apply(image.offset, image.epoch).image
