"""What the applications of one driver share."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from bus.client.committed import void_position
from bus.client.kafka.cluster import AdminClient, ClusterUnavailable, start_offsets
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT
from bus.errors import BusError
from bus.files.register_file import RegisterSource
from bus.runtime.wall_clock import now_ms
from ingest.store.open import open_store
from ingest.store.port import (
    Applied,
    Position,
    RecordReader,
    RecordStore,
    StoreBatch,
)
from ingest.store.positions import epoch_marks, replaced_topics, valid_positions
from spark_apps.batches.message import OffsetRanges
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.publish.cell_publisher import CellPublisher
from spark_apps.publish.incidents import ReadTimeout, lately_open, read_incidents, still_open
from spark_apps.publish.publisher import EventPublisher
from spark_apps.queries.application import SharedQuery
from spark_apps.session.retry import retry
from spark_apps.settings import JobSettings
from spark_apps.source.cuts import CutWatch, go_back
from spark_apps.source.group_positions import GroupPositions
from spark_apps.source.lost_records import LostRecords
from spark_apps.source.positions import positions
from spark_apps.source.topic_changes import TopicChanges

log = logging.getLogger(__name__)

LOST_TOLD_S = 5.0
LATELY_MS = 60_000  # the watch ends an incident ten seconds after we have read on


class StoreWriter:
    """The store as the queries write it: what is refused for a while is tried again.

    Never: giving up a batch. When the bound is reached the query fails and the driver ends; the
    next one begins at the store's positions.
    """

    def __init__(self, store: RecordStore, stopping: threading.Event) -> None:
        self._store = store
        self._stopping = stopping

    def apply(self, batch: StoreBatch, positions: Sequence[Position]) -> Applied:
        """As the port's `apply`."""
        return retry(partial(self._store.apply, batch, positions), self._stopping, "store")

    def set_positions(self, positions: Sequence[Position]) -> None:
        """As the port's `set_positions`."""
        retry(partial(self._store.set_positions, positions), self._stopping, "store")


@dataclass(frozen=True, slots=True)
class OpenStore:
    """The record store of a driver: written through `writer`, read directly."""

    writer: StoreWriter
    reader: RecordReader


@dataclass
class Context:
    """One driver. The store is opened by the first application that needs it: alarms must not wait
    for a store that is away."""

    settings: JobSettings
    cluster: ClusterIdentity
    admin: AdminClient
    publisher: EventPublisher
    register: RegisterSource
    stopping: threading.Event
    metrics: StreamsMetrics
    groups: list[GroupPositions] = field(default_factory=list)
    lost: dict[str, LostRecords] = field(default_factory=dict)
    replaced: set[tuple[str, str]] = field(default_factory=set)
    cells: CellPublisher = field(init=False)

    def __post_init__(self) -> None:
        self._lost_told_at_s = time.monotonic()
        self._lost_resumed = False
        self._cuts: CutWatch | None = None
        self._leaders: dict[str, PartitionLeaders] = {}
        self._follower: TopicFollower | None = None
        self.topics: TopicChanges | None = None
        self.cells = CellPublisher(self.publisher)

    def observe_commit(self, application: str, begun_s: float) -> None:
        """A commit has returned whose batch began to be written then (`time.monotonic`). One that
        fails is not counted: it would make the store look as quick as its errors are."""
        self.metrics.commit_seconds.labels(application).observe(time.monotonic() - begun_s)

    def watch_cuts(self, topics: Iterable[str]) -> None:
        """Begin: what the topics' keys say now is heeded by `stored_positions`. Raises BusError."""
        self._cuts = CutWatch(self.settings.bus, topics)

    def follow_topics(self, topics: Iterable[str]) -> TopicChanges:
        """Begin: from now on it is known when one is deleted or made anew. Raises
        `ClusterUnavailable`."""
        self._follower = TopicFollower(self.settings.bus, topics).start()
        self.topics = TopicChanges(self.cluster, self._follower, self.stopping)
        return self.topics

    def note_unread(self, query: SharedQuery, cluster: ClusterIdentity) -> None:
        """What is gone with topics that are other ones in `cluster`, where the applications of the
        query stood last. Told by the next periodic work."""
        unread, end_unseen = {}, set()
        for member in query.cursors:
            found: dict[TopicAndPartition, int] = {}
            for topic in member.application.topics:
                before = self.cluster.topic_ids.get(topic)
                if self.topics is None or before in (None, cluster.topic_ids.get(topic)):
                    continue
                counts, is_all = self.topics.unread(topic, member.ends)
                found |= counts
                end_unseen |= set() if is_all else {topic}
            unread[member.application.name] = found
        self.lost_records(query).add_of_readers(unread, end_unseen)
        self._lost_told_at_s = -LOST_TOLD_S

    def begin_anew(
        self, cluster: ClusterIdentity, topics: Collection[str], applications: Collection[str]
    ) -> None:
        """These topics are as `cluster` has them; these applications, of which none is at work,
        read them anew."""
        self.cluster = self.cluster.with_topics_of(cluster, topics)
        if self.topics is not None:
            self.topics.cluster = self.cluster
        for group in self.groups:
            if group.application in applications:
                group.begin_anew(self.cluster)

    def forget_void(self, applications: Collection[str]) -> None:
        """Positions of these applications are void because topics were made anew while we ran: it
        is told how much that cost, and they stand on the new topics from now on, so that no driver
        tells it again."""
        for group in self.groups:
            if group.application in applications:
                group.replaced = set()
        void = {found for found in self.replaced if found[0] in applications}
        self.replaced -= void
        for application, topic in sorted(void):
            begins = {place: (0, 0) for place in self.cluster.partitions if place[0] == topic}
            self.store.writer.set_positions(positions(application, self.cluster, begins))

    def confirm(self, offsets: OffsetRanges) -> None:
        """A batch that was read is of the topics that the driver stands on. Raises
        `TopicsReplaced`."""
        if self.topics is not None:
            self.topics.confirm({topic for topic, _ in offsets})

    def confirm_fallen(self, topics: Collection[str]) -> None:
        """Ends have fallen, and not because topics were made anew. Raises `TopicsReplaced`."""
        if self.topics is not None:
            self.topics.confirm_fallen(topics)

    def do_periodic_work(self) -> None:
        """What nobody asks for: between batches, several times a second. Raises LogsWereCut."""
        if self._cuts is not None:
            self._cuts.check()
        for group in self.groups:
            group.refresh()
        self.cells.publish_due()
        if time.monotonic() - self._lost_told_at_s > LOST_TOLD_S:
            self._lost_told_at_s = time.monotonic()
            self.tell_lost_records()

    def tell_lost_records(self) -> None:
        """Publish what retention or a truncation took from the queries. While the cluster cannot
        say where logs begin, later. Raises `BusError`, `DeliveryFailed`."""
        try:
            if not self._lost_resumed:
                before = still_open(read_incidents(self.settings.bus), "lost")
                for lost in self.lost.values():
                    lost.resume(before)
                self._tell_replaced_topics()
                self._lost_resumed = True
            if any(lost.is_new() for lost in self.lost.values()):
                told = read_incidents(self.settings.bus)
                lately = lately_open(told, "lost", now_ms() - LATELY_MS)
                for lost in self.lost.values():
                    lost.told_by_watch(lately)
            for lost in filter(LostRecords.is_open, self.lost.values()):
                starts = start_offsets(self.admin, lost.partitions())
                found = lost.incidents(starts, now_ms())
                for one in found:
                    log.error("records lost before they were read: %s (%s)", one.detail, one.state)
                self.publish_incidents(found)
        except (ClusterUnavailable, ReadTimeout) as error:
            log.warning("lost records cannot be told yet: %s", error)

    def _tell_replaced_topics(self) -> None:
        """Those whose positions were void at the start."""
        of_groups = {
            (group.application, topic) for group in self.groups for topic in group.replaced
        }
        for application, topic in sorted(self.replaced | of_groups):
            topic_id = self.cluster.topic_ids[topic]
            self.publish_incidents(void_position(application, topic, topic_id, now_ms()))

    @cached_property
    def store(self) -> OpenStore:
        """Opened once, waited for while it is away. Raises `StoreError`."""
        url = self.settings.store.records_url(self.settings.site)
        opened = partial(open_store, url, "write", self.settings.retention)
        store = retry(opened, self.stopping, "store")
        return OpenStore(StoreWriter(store, self.stopping), store)

    @property
    def has_store(self) -> bool:
        """Whether some application of this driver has opened it."""
        return "store" in self.__dict__

    def stored_positions(self, application: str) -> dict[TopicAndPartition, int]:
        """An application's positions in the store, as far as they still mean something."""
        found = self._positions(application)
        if self._cuts is not None and self._cuts.known:
            marks = self._positions(epoch_marks(application))
            found = go_back(self.store.writer, found, marks, self._cuts.known)
        topics = replaced_topics(found, self.cluster)
        self.replaced |= {(application, topic) for topic in topics}
        return valid_positions(found, self.cluster)

    def _positions(self, application: str) -> list[Position]:
        read = partial(self.store.reader.positions, application)
        return list(retry(read, self.stopping, "store"))

    def lost_records(self, query: SharedQuery) -> LostRecords:
        """What a query loses; told by `do_periodic_work`. The same one when it begins anew."""
        if query.name not in self.lost:
            self.lost[query.name] = LostRecords(query.name, query.readers)
        return self.lost[query.name]

    def log_starts(self, query: str) -> PartitionLeaders:
        """Who is asked where logs begin, by the one thread of a query."""
        if query not in self._leaders:
            self._leaders[query] = PartitionLeaders(self.settings.bus, f"streams-{query}-starts")
        return self._leaders[query]

    def check(self, lost: LostRecords, leaders: PartitionLeaders, offsets: OffsetRanges) -> None:
        """Count what is gone of a batch that is about to be read."""
        starts = self._starts_now(leaders, offsets)
        if len(starts) < len(offsets):
            log.warning("nobody knows whether records of this batch are gone: a leader is away")
        lost.check(offsets, starts)

    def _starts_now(
        self, leaders: PartitionLeaders, offsets: OffsetRanges
    ) -> dict[TopicAndPartition, int]:
        """Where logs begin, of those whose leader answers at once."""
        try:
            return leaders.start_offsets(offsets)
        except BusError as error:
            log.debug("%s; librdkafka is asked", error)
        try:
            return start_offsets(self.admin, offsets)
        except ClusterUnavailable:
            return {}

    def group_positions(self, application: str, topics: Iterable[str]) -> GroupPositions:
        """An application's positions as a consumer group."""
        group = GroupPositions(self.settings.bus, application, self.cluster, topics, self.stopping)
        self.groups.append(group)
        return group

    def begin_group(self, application: str, starts: Mapping[TopicAndPartition, int]) -> None:
        """An application reads every partition of its topics from here on."""
        for group in self.groups:
            if group.application == application:
                group.start_at(starts)
                group.publish_start()

    def publish_incidents(self, incidents: Sequence[Incident]) -> None:
        """Acknowledged when this returns: a missing one would be lost, a repeated one is known by
        its id. Raises `BusError` or `DeliveryFailed`."""
        for incident in incidents:
            self.publisher.send(EVENT_INCIDENT, incident.incident_id, incident)
        if incidents:
            self.publisher.flush()

    def close(self) -> None:
        """Release what was opened."""
        self.cells.publish()
        self.publisher.close()
        for group in self.groups:
            group.close()
        for leaders in self._leaders.values():
            leaders.close()
        if self._cuts is not None:
            self._cuts.close()
        if self._follower is not None:
            self._follower.close()
        if self.has_store:
            self.store.reader.close()
