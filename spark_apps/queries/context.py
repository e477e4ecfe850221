"""What the applications of one driver share."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from bus.client.committed import void_position
from bus.client.kafka.cluster import AdminClient
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT
from bus.files.register_file import RegisterSource
from bus.runtime.wall_clock import now_ms
from ingest.store.open import open_store
from ingest.store.port import Position
from ingest.store.positions import epoch_marks, replaced_topics, valid_positions
from spark_apps.batches.message import OffsetRanges
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.publish.cell_publisher import CellPublisher
from spark_apps.publish.publisher import EventPublisher
from spark_apps.queries.application import SharedQuery
from spark_apps.queries.losses import QueryLosses
from spark_apps.queries.store_writer import OpenStore, StoreWriter
from spark_apps.session.retry import retry
from spark_apps.settings import JobSettings
from spark_apps.source.group_positions import GroupPositions
from spark_apps.source.positions import positions
from spark_apps.source.topic_changes import TopicChanges
from spark_apps.source.truncations import TruncationWatcher, go_back


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
    replaced: set[tuple[str, str]] = field(default_factory=set)
    cells: CellPublisher = field(init=False)
    losses: QueryLosses = field(init=False)

    def __post_init__(self) -> None:
        self._truncations: TruncationWatcher | None = None
        self._follower: TopicFollower | None = None
        self.topics: TopicChanges | None = None
        self.cells = CellPublisher(self.publisher)
        self.losses = QueryLosses(
            self.settings.bus, self.admin, self.publish_incidents, self._void_positions
        )

    def observe_commit(self, application: str, begun_s: float) -> None:
        """A commit has returned whose batch began to be written then (`time.monotonic`). One that
        fails is not counted: it would make the store look as quick as its errors are."""
        self.metrics.commit_seconds.labels(application).observe(time.monotonic() - begun_s)

    def watch_truncations(self, topics: Iterable[str]) -> None:
        """Begin: what the topics' keys say now is heeded by `stored_positions`. Raises BusError."""
        self._truncations = TruncationWatcher(self.settings.bus, topics)

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
        self.losses.add_unread(query, unread, end_unseen)

    def restart(
        self, cluster: ClusterIdentity, topics: Collection[str], applications: Collection[str]
    ) -> None:
        """These topics are as `cluster` has them; these applications, of which none is at work,
        read them anew."""
        self.cluster = self.cluster.with_topics_of(cluster, topics)
        if self.topics is not None:
            self.topics.cluster = self.cluster
        for group in self.groups:
            if group.application in applications:
                group.restart(self.cluster)

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
        """What nobody asks for: between batches, several times a second. Raises LogsTruncated."""
        if self._truncations is not None:
            self._truncations.check()
        for group in self.groups:
            group.refresh()
        self.cells.publish_due()
        self.losses.publish_due()

    def _void_positions(self) -> Iterator[Incident]:
        """Of topics that were made again before the start."""
        of_groups = {
            (group.application, topic) for group in self.groups for topic in group.replaced
        }
        for application, topic in sorted(self.replaced | of_groups):
            topic_id = self.cluster.topic_ids[topic]
            yield from void_position(application, topic, topic_id, now_ms())

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
        if self._truncations is not None and self._truncations.known:
            marks = self._positions(epoch_marks(application))
            found = go_back(self.store.writer, found, marks, self._truncations.known)
        topics = replaced_topics(found, self.cluster)
        self.replaced |= {(application, topic) for topic in topics}
        return valid_positions(found, self.cluster)

    def _positions(self, application: str) -> list[Position]:
        read = partial(self.store.reader.positions, application)
        return list(retry(read, self.stopping, "store"))

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
        self.losses.close()
        if self._truncations is not None:
            self._truncations.close()
        if self._follower is not None:
            self._follower.close()
        if self.has_store:
            self.store.reader.close()
