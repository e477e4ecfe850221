"""The lists of plates as the console asks for them; fits `monitor.ports.PlateListReader` by shape.

In: questions. Out: records in force and their lines, as of the question. Never: a wait for a table
that another process builds: who looks at a list is told that it is not there yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from alarm.lists.reader import ListReader
from alarm.rules.face_gallery import FaceGallery
from alarm.rules.plate_lists import PlateList
from bus.contracts.feature_models import FeatureModel
from bus.contracts.list_proposals import ListProposal
from bus.contracts.plate_lists import FaceLine, ListLine
from bus.domain.list_in_force import ListInForce, is_overdue
from bus.domain.rule_values import PLATE, wanted
from bus.settings import BusSettings

CLIENT_ID = "console-lists"
ANSWER_S = 8.0
"""For the bus; a page waits for it."""


class StoredListReader:
    """One thread at a time."""

    def __init__(self, bus: BusSettings, folder: Path) -> None:
        """Raises `CatchUpTimeout`, BusError."""
        self._reader = ListReader(bus, CLIENT_ID, folder, timeout_s=ANSWER_S)

    def lists(self, now_ms: int) -> Sequence[ListInForce]:
        """By id. Raises `CatchUpTimeout`, BusError."""
        found: dict[str, PlateList | FaceGallery] = {**self._reader.catch_up()}
        found |= self._reader.galleries
        return [
            ListInForce(
                record=one.record, lines=one.line_count,
                is_overdue=is_overdue(one.record, now_ms),
                problem=self._reader.problems.get(list_id, ""),
            )
            for list_id, one in sorted(found.items())
        ]  # fmt: skip

    def proposals(self, now_ms: int) -> Sequence[ListProposal]:
        """What waits for an approval, oldest first. Raises as `lists`."""
        return self._reader.waiting(now_ms)

    def lines(
        self, list_id: str, begin: int, count: int
    ) -> tuple[Sequence[ListLine | FaceLine], int] | None:
        """Raises `TableError`, and as `lists`."""
        found = self._list(list_id)
        if found is None:
            return None
        following = begin + count
        return found.lines(begin, count), following if following < len(found) else 0

    def lines_like(self, list_id: str, plate: str) -> Sequence[ListLine | FaceLine] | None:
        """Raises `TableError`, and as `lists`."""
        found = self._list(list_id)
        if isinstance(found, FaceGallery):
            line = found.line_of(plate.strip())
            return () if line is None else (line,)
        form = wanted(PLATE, plate)
        if found is None:
            return None
        return found.lines_like(form) if form else ()

    def face(self, list_id: str, entry: str) -> tuple[bytes, FeatureModel] | None:
        """Raises `TableError`, and as `lists`."""
        found = self._list(list_id)
        if not isinstance(found, FaceGallery):
            return None
        feature = found.feature_of_entry(entry)
        return None if feature is None else (feature, found.model)

    def close(self) -> None:
        """Leave the bus."""
        self._reader.close()

    def _list(self, list_id: str) -> PlateList | FaceGallery | None:
        found = self._reader.catch_up().get(list_id)
        return self._reader.galleries.get(list_id) if found is None else found
