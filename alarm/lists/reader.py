"""Reads the lists in force to their end before records are matched.

`state.lists` is compacted and read at every start; of a base only its table's file is kept, built
once on a machine. Spark's driver and the dispatcher use the same reader. Never: a list whose lines
cannot be read in the place of the one before; a wait without a limit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from alarm.lists.base_tables import BaseTables, TablesUnavailable
from alarm.lists.lists_topic import base_faces, base_lines
from alarm.lists.stored_lists import StoredLists
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.plate_lists import PlateList
from bus.client.kafka.compacted_topic import CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.topic_reader import CATCH_UP_TIMEOUT_S
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import FaceLine, ListLine, ListRecord
from bus.contracts.topics import STATE_LISTS
from bus.domain.list_chunks import ListChunkError
from bus.settings import BusSettings

log = logging.getLogger(__name__)


class ListReader:
    """A reader of the topic of lists. One thread at a time. Invariant: `lists` are those in force
    as of the last `catch_up`, `galleries` those of faces, but for those in `problems`: these are as
    they were before, or missing."""

    def __init__(
        self,
        bus: BusSettings,
        client_id: str,
        folder: Path,
        *,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
    ) -> None:
        """`folder`: where tables of this machine are kept. Raises `CatchUpTimeout`, BusError."""
        self.lists: Mapping[str, PlateList] = {}
        self.galleries: Mapping[str, FaceGallery] = {}
        self.problems: Mapping[str, str] = {}
        self._bus = bus
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._tables = BaseTables(folder)
        self._topic = CompactedTopic(
            bus, STATE_LISTS, StoredLists,
            client_id=client_id, leaders=PartitionLeaders(bus, f"{client_id}-ends"),
            overrides=FOLLOWS_LEADERS, timeout_s=timeout_s, stopping=stopping,
        )  # fmt: skip

    @property
    def generation(self) -> int:
        """Grows when the topic was made anew: `lists` are those of the new one alone."""
        return self._topic.generation

    def catch_up(self) -> Mapping[str, PlateList]:
        """`lists`, as the topic had them when this was called; the same object while nothing has
        changed. A table that this machine lacks is built first: a million lines take a second, four
        with distances. Raises `CatchUpTimeout`, also when `stopping` is set meanwhile, BusError."""
        self._topic.catch_up()
        state = self._topic.state
        in_force = state.in_force
        lists: dict[str, PlateList] = {}
        galleries: dict[str, FaceGallery] = {}
        problems: dict[str, str] = {}
        for list_id, record in in_force.items():
            before: PlateList | FaceGallery | None = self.lists.get(list_id)
            if before is None:
                before = self.galleries.get(list_id)
            found = before
            try:
                if before is None or before.record != record:
                    found = self._list_of(state, record)
            except (ListChunkError, TablesUnavailable) as error:
                problems[list_id] = str(error)
            if isinstance(found, FaceGallery):
                galleries[list_id] = found
            elif found is not None:
                lists[list_id] = found
        self._report(problems)
        if lists != self.lists or galleries != self.galleries:
            self._tables.delete_others(in_force.values())
        if lists != self.lists:
            self.lists = lists
        if galleries != self.galleries:
            self.galleries = galleries
        return self.lists

    def waiting(self, now_ms: int) -> list[ListProposal]:
        """What waits for an approval, oldest first, as the topic has it now; `lists` stay as they
        are, and no table is built. Raises `CatchUpTimeout`, BusError."""
        self._topic.catch_up()
        return self._topic.state.waiting(now_ms)

    def _list_of(self, state: StoredLists, record: ListRecord) -> PlateList | FaceGallery:
        if record.is_gallery:
            return self._gallery_of(state, record)
        changes = state.changes_of(record)
        table = self._tables.open_or_build(record, lambda: self._base_lines(record))
        return PlateList(record, table, changes.added, changes.removed)

    def _gallery_of(self, state: StoredLists, record: ListRecord) -> FaceGallery:
        if (model := record.model) is None:
            raise ListChunkError(f"the gallery {record.list_id} names no model")
        changes = state.face_changes_of(record)
        table = self._tables.open_or_build_faces(
            record, model, lambda: self._base_faces(record)
        )
        return FaceGallery(record, model, table, changes.added, changes.removed)

    def _base_faces(self, record: ListRecord) -> Iterator[FaceLine]:
        return base_faces(self._bus, f"{self._client_id}-base", record, self._timeout_s)

    def _base_lines(self, record: ListRecord) -> Iterator[ListLine]:
        return base_lines(self._bus, f"{self._client_id}-base", record, self._timeout_s)

    def _report(self, problems: Mapping[str, str]) -> None:
        for list_id, why in problems.items():
            if self.problems.get(list_id) != why:
                log.error("the list %s cannot be read, the one before holds: %s", list_id, why)
        self.problems = problems

    def close(self) -> None:
        """Leave."""
        self._topic.close()
