"""One term of office: the active controller's image, and how it changes.

In: decisions. Out: conditional znode writes, then the new image, then what brokers are told.
Never: an election, nor a watch; `controller.py` has the first, `uptake` the second.

Every write carries a check of `/controller_epoch`: once somebody else was elected none of ours
happens. A write that fails otherwise means that somebody wrote the same node by hand, or that an
answer was lost: the image is read anew, and the decision is made again on it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from broker.clock.port import Clock
from broker.controller.decisions.decision import Decide, Decision
from broker.controller.decisions.rules import Rules
from broker.controller.zk import election
from broker.controller.zk.access import read_access
from broker.controller.zk.channels import Answers, Line, Lines, Send
from broker.controller.zk.config_plan import Nodes
from broker.controller.zk.deletion import Deletions
from broker.controller.zk.load import UNBORN_EPOCH, ClusterState, read_cluster
from broker.controller.zk.plan import Fence, Plan, plan
from broker.controller.zk.port import (
    Operation,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.requests import Author
from broker.controller.zk.states import partition_machine, replica_machine
from broker.controller.zk.tracking import Tracking
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
"""Of one decision whose writes meet foreign ones. Each try begins with a fresh image, so more
would mean that somebody writes the same nodes all the time."""


class Deposed(Exception):
    """Another controller was elected, or the session ended: this term is over."""


class GivenUp(Exception):
    """A decision's writes were refused, MAX_TRIES times or by ZooKeeper itself."""


@dataclass(frozen=True, slots=True)
class Office:
    """What a term is made of."""

    node_id: int
    session: ZooKeeperSession
    clock: Clock
    rules: Callable[[], Rules]
    send: Send
    answers: Answers
    connected: Callable[[], Awaitable[None]]
    """Returns once the session is connected; raises Deposed when it has ended."""
    deletion_enabled: Callable[[], bool]
    on_unclean: Callable[[int], None] = lambda count: None
    """Hears how many unclean elections there were."""
    reread: Callable[[], object] = lambda: None
    """Called when everything was read anew in the midst of a change: what came and went between
    the two readings is to be taken up."""


class Term:
    """The controller while it is elected.

    Invariant: `image` is what stands in ZooKeeper as of the last read or write, without the
    topics that are being deleted; a partition's epoch is its state node's version.
    """

    def __init__(self, office: Office, fence: Fence) -> None:
        self.office = office
        self.fence = fence
        self.image = MetadataImage()
        self.topic_versions: dict[str, int] = {}
        self.watched_topics: set[str] = set()
        self.unnamed_topics = False
        self.config_nodes: dict[str, ConfigNode] = {}
        self.acl_versions: dict[str, int] = {}
        self.partitions = partition_machine()
        self.replicas = replica_machine()
        self.deletions = Deletions(self.partitions, self.replicas)
        self.asked_moves: dict[tuple[str, int], None] = {}
        self.is_reread_due = False
        self.lines = Lines(self._line)
        self.tracking = Tracking(
            self.partitions, self.replicas, self.lines, office.on_unclean
        )

    def close(self) -> None:
        """Say nothing more to anybody."""
        self.lines.close_all()

    def _line(self, broker_id: int, broker_epoch: int) -> Line:
        office = self.office

        def author(epoch: int) -> Author:
            return Author(office.node_id, self.fence.epoch, epoch)

        return Line(
            broker_id, broker_epoch, author, lambda: self.image, office.send, office.answers,
            office.clock,
        )  # fmt: skip

    # -- reading ------------------------------------------------------------------------

    async def load(self) -> ClusterState:
        """Read everything anew, with watches; every broker is told everything again."""
        state = await read_cluster(self.office.session, watch=True)
        await read_access(self.office.session, state)
        for fault in state.faults:
            log.error("left alone: %s", fault)
        delta = MetadataDelta(MetadataImage(cluster_id=state.cluster_id))
        for record in self._without_unsound(state):
            delta.replay(record)
        image = delta.apply(self.image.offset + len(state.records), self.fence.epoch).image
        self.topic_versions = state.topic_versions
        self.watched_topics = set(state.topic_versions)
        self.unnamed_topics = bool(state.without_id)
        self.config_nodes = state.config_nodes
        self.acl_versions = state.acl_versions
        leaving = [image.topics[one] for one in state.deleting if one in image.topics]
        if not self.office.deletion_enabled():
            leaving = []
        self.image = _without(image, leaving)
        self.tracking.begin(self.image, leaving)
        for topic in leaving:
            self.begin_deletion(topic)
        self.tracking.tell_everything(self.image)
        self.lines.wake()
        return state

    def _without_unsound(self, state: ClusterState) -> list[object]:
        """A broker that lost acknowledged records counts as one that has left, until it is out of
        every in-sync set; `uptake.brokers` then finds that it has come (ADR 0032)."""
        known = self.image.brokers
        return [
            record
            for record in state.records
            if not isinstance(record, RegisterBrokerRecord)
            or record.broker_id not in state.unsound
            or (
                record.broker_id in known
                and known[record.broker_id].epoch == record.broker_epoch
            )
        ]

    def begin_deletion(self, topic: TopicImage) -> None:
        """A topic has left the image: brokers forget it, then delete it."""
        for line in self.lines.all():
            line.due.deleted[topic.topic_id] = topic
        self.stop_replicas(self.deletions.begin(topic, self.image.brokers))

    def stop_replicas(self, keys: Iterable[tuple[str, int, int]]) -> None:
        """Have replicas deleted by their brokers."""
        for name, index, broker_id in keys:
            line = self.lines.get(broker_id)
            if line is not None:
                epoch = self.deletions.topics[name].partitions[index].leader_epoch
                line.due.stops[name, index] = epoch
        self.lines.wake()

    # -- writing ------------------------------------------------------------------------

    async def transact(self, decide: Decide[Reply], *, assigned: bool = False) -> Reply:
        """Decide, write, replay, tell. Raises Deposed and GivenUp."""
        for _ in range(MAX_TRIES):
            decision = decide(self._deciding_image())
            records = self._without_leaving(decision)
            if not records:
                return decision.reply
            delta = MetadataDelta(self.image)
            for record in records:
                delta.replay(record)
            changes = delta.apply(self.image.offset + len(records), self.fence.epoch)
            planned = plan(
                self.image, changes.image, records, self.fence, self.topic_versions,
                Nodes(self.config_nodes, self.acl_versions), assigned=assigned,
            )  # fmt: skip
            if await self._carried_out(planned):
                self._adopt(changes, planned)
                await self._notify(planned)
                return decision.reply
        raise GivenUp("the same nodes were written by somebody else again and again")

    def replay(self, records: Iterable[object]) -> None:
        """Take in what stands in ZooKeeper already."""
        taken = list(records)
        if taken:
            delta = MetadataDelta(self.image)
            for record in taken:
                delta.replay(record)
            self._adopt(delta.apply(self.image.offset + len(taken), self.fence.epoch), None)

    async def write(self, operations: Iterable[Operation]) -> bool:
        """Conditional writes beside the image (markers, requests of tools); False if they met a
        foreign write. Raises Deposed and GivenUp."""
        return await self._carried_out(Plan(multis=((self.fence.check, *operations),)))

    async def _carried_out(self, planned: Plan) -> bool:
        """Whether all writes happened; if not the image has been read anew."""
        for multi in planned.multis:
            try:
                await self.office.session.multi(multi)
            except ZooKeeperError as error:
                await self._after(error)
                return False
        return True

    async def _after(self, error: ZooKeeperError) -> None:
        """A write failed: find out what holds now."""
        if error.kind is ZooKeeperErrorKind.SESSION_EXPIRED:
            raise Deposed(str(error)) from error
        if error.kind is ZooKeeperErrorKind.REFUSED:
            raise GivenUp(str(error)) from error
        if error.failed_index == 0 and error.kind is not ZooKeeperErrorKind.CONNECTION_LOSS:
            raise Deposed("another controller was elected") from error
        log.info("a write met another one: %s", error)
        await self.reload()
        if not self.is_reread_due:
            self.is_reread_due = True
            self.office.reread()

    async def reload(self) -> ClusterState:
        """Read everything anew, waiting for the connection if need be. Raises Deposed."""
        while True:
            await self.office.connected()
            try:
                if not await election.still_holds(self.office.session, self.fence):
                    raise Deposed("another controller was elected")
                return await self.load()
            except ZooKeeperError as error:
                if error.kind is not ZooKeeperErrorKind.CONNECTION_LOSS:
                    raise Deposed(str(error)) from error

    def _adopt(self, changes: Changes, planned: Plan | None) -> None:
        self.image = changes.image
        if planned is not None:
            for name in planned.written_topics:
                self.topic_versions[name] = self.topic_versions.get(name, -1) + 1
            self.config_nodes.update(planned.configs)
            for path, version in planned.acls.items():
                self.note_acl(path, version)
        self.tracking.follow(changes)
        for topic in changes.deleted_topics:
            if planned is not None and topic.name in planned.deleted_topics:
                self.begin_deletion(topic)
        self.lines.wake()

    def note_acl(self, path: str, version: int | None) -> None:
        """A node of rules has this version now; None: it is gone."""
        if version is None:
            self.acl_versions.pop(path, None)
        else:
            self.acl_versions[path] = version

    async def _notify(self, planned: Plan) -> None:
        """Tell every broker what to read again. A note that is lost with the connection is made up
        for by the reading after every reconnect."""
        for path, data in planned.notes:
            try:
                await self.office.session.create(path, data, sequence=True)
            except ZooKeeperError as error:
                log.warning("no note of %r: %s", data, error)

    def _deciding_image(self) -> MetadataImage:
        """The image with the names that are still taken by topics on their way out."""
        if not self.deletions.topics:
            return self.image
        topics = dict(self.image.topics)
        names = dict(self.image.topic_names)
        for name, topic in self.deletions.topics.items():
            topics[name] = TopicImage(name, topic.topic_id)
            names[topic.topic_id] = name
        return replace(self.image, topics=frozen(topics), topic_names=frozen(names))

    def _without_leaving(self, decision: Decision[Reply]) -> list[object]:
        """What a decision says of a topic on its way out has been said already."""
        leaving = {topic.topic_id for topic in self.deletions.topics.values()}
        return [
            record
            for record in decision.records
            if getattr(record, "topic_id", None) not in leaving
            and getattr(record, "resource_name", None) not in self.deletions.topics
        ]


def _without(image: MetadataImage, topics: Iterable[TopicImage]) -> MetadataImage:
    delta = MetadataDelta(image)
    for topic in topics:
        delta.replay(RemoveTopicRecord(topic_id=topic.topic_id))
    return delta.apply(image.offset, image.epoch).image


def is_unborn(partition_epoch: int) -> bool:
    """Whether a partition has an assignment but no state yet."""
    return partition_epoch == UNBORN_EPOCH
