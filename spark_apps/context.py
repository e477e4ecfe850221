"""What the applications of one driver share."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from bus.client.kafka.cluster import AdminClient
from bus.client.model import ClusterIdentity, TopicAndPartition
from bus.contracts.alarms import Incident
from bus.contracts.topics import EVENT_INCIDENT
from bus.register_file import RegisterFile
from ingest.store import open_store
from ingest.store.port import (
    Applied,
    Position,
    RecordReader,
    RecordStore,
    StoreBatch,
)
from ingest.store.positions import valid_positions
from spark_apps.cell_publisher import CellPublisher
from spark_apps.group_positions import GroupPositions
from spark_apps.publisher import EventPublisher
from spark_apps.retry import retry
from spark_apps.settings import JobSettings


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
    register: RegisterFile
    stopping: threading.Event
    groups: list[GroupPositions] = field(default_factory=list)
    cells: CellPublisher = field(init=False)

    def __post_init__(self) -> None:
        self.cells = CellPublisher(self.publisher)

    def do_periodic_work(self) -> None:
        """What nobody asks for: between batches, several times a second."""
        for group in self.groups:
            group.refresh()
        self.cells.publish_due()

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
        read = partial(self.store.reader.positions, application)
        return valid_positions(retry(read, self.stopping, "store"), self.cluster)

    def group_positions(self, application: str, topics: Iterable[str]) -> GroupPositions:
        """An application's positions as a consumer group."""
        group = GroupPositions(self.settings.bus, application, self.cluster, topics, self.stopping)
        self.groups.append(group)
        return group

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
        if self.has_store:
            self.store.reader.close()
