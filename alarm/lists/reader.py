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
from alarm.lists.lists_topic import base_lines
from alarm.lists.stored_lists import StoredLists
from alarm.rules.plate_lists import PlateList
from bus.client.kafka.compacted_topic import CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.topic_reader import CATCH_UP_TIMEOUT_S
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.plate_lists import ListLine, ListRecord
from bus.contracts.topics import STATE_LISTS
from bus.domain.list_chunks import ListChunkError
from bus.settings import BusSettings

log = logging.getLogger(__name__)


class ListReader:
    """A reader of the topic of lists. One thread at a time. Invariant: `lists` are those in force
    as of the last `catch_up`, but for those in `problems`: these are as they were before, or
    missing."""

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
        found: dict[str, PlateList] = {}
        problems: dict[str, str] = {}
        for list_id, record in in_force.items():
            before = self.lists.get(list_id)
            if before is not None and (before.record is record or before.record == record):
                found[list_id] = before
                continue
            try:
                found[list_id] = self._list_of(state, record)
            except (ListChunkError, TablesUnavailable) as error:
                problems[list_id] = str(error)
                if before is not None:
                    found[list_id] = before
        self._report(problems)
        if found != self.lists:
            self.lists = found
            self._tables.delete_others(in_force.values())
        return self.lists

    def _list_of(self, state: StoredLists, record: ListRecord) -> PlateList:
        changes = state.changes_of(record)
        table = self._tables.open_or_build(record, lambda: self._base_lines(record))
        return PlateList(record, table, changes.added, changes.removed)

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
