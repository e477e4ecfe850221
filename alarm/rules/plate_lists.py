"""A list of plates in force: its base in a file, its changes beside it.

In: a plate in comparable form. Out: the line by which the list means it, as tolerant as its record
says: the plate's own before one that is like it, then the one that stands first. Never: the lines
of a base in memory; a line that a change removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

from bus.contracts.commands import DecidedRule
from bus.contracts.expressions import OnList
from bus.contracts.plate_lists import LIST_RULE, ListLine, ListRecord, Tolerance
from bus.domain.look_alikes import folded_alike, is_near, parts_without_one
from bus.domain.plate_candidates import candidates_of
from bus.domain.rule_values import CANDIDATES, FEATURE, PLATE, values_of, wanted

LEAST_WEIGHT = 0.1
"""Of a further candidate for a tolerant list: lists are long, and less likely ones would meet them
by chance. As a price it is a quarter of an edit without evidence."""


def rule_of_list(record: ListRecord) -> DecidedRule:
    """The rule that a list is: named like it, of its severity and version."""
    attribute = FEATURE if record.is_gallery else PLATE
    return DecidedRule(
        rule_id=f"{LIST_RULE}{record.list_id}", op="put", version=record.version, name=record.name,
        kind=record.kind, severity=record.severity,
        where=OnList(attribute=attribute, list_id=record.list_id),
        author=record.author, issuer=record.issuer, account=record.account, reason=record.reason,
        case=record.case, command_id=record.command_id, decided_at_ms=record.decided_at_ms,
    )  # fmt: skip


class ListedReading(NamedTuple):
    """By which line a list means a record, and the reading that stands there: what was written, or
    a further candidate with its weight."""

    line: ListLine
    read: str
    weight: float = 0.0


class BaseTable(Protocol):
    """The lines of a base, wherever they are (`alarm.lists.table`); picklable."""

    def lines_like(self, plate: str, tolerance: Tolerance) -> list[ListLine]:
        """Those whose plate may be this one, in the order of the list."""

    def lines(self, begin: int, count: int) -> list[ListLine]:
        """So many from this one on, counted from 0."""

    def __len__(self) -> int: ...


class PlateList:
    """It pickles as its record, the path of its table, and its changes: an executor opens the
    table itself. Two are equal that have the same record."""

    def __init__(
        self,
        record: ListRecord,
        table: BaseTable,
        added: Mapping[str, ListLine],
        removed: frozenset[str],
    ) -> None:
        """`added`: by plate, instead of what the base says of it; `removed`: plates of the base."""
        self.record = record
        self.table = table
        self.added = added
        self.removed = removed

    @property
    def list_id(self) -> str:
        """Of its record."""
        return self.record.list_id

    def __len__(self) -> int:
        """Places of lines: those of changes, then those of the base, in force or not."""
        return len(self.added) + len(self.table)

    @cached_property
    def line_count(self) -> int:
        """Lines in force, of plates that the base has once."""
        changed = self.added.keys() | self.removed
        gone = sum(bool(self.table.lines_like(plate, "exact")) for plate in changed)
        return len(self) - gone

    def lines(self, begin: int, count: int) -> list[ListLine]:
        """Of so many places from this one on, those in force. Raises `TableError`."""
        changed = len(self.added)
        own = sorted(self.added)[begin : begin + count] if begin < changed else ()
        base = self.table.lines(max(0, begin - changed), count - len(own))
        return [*(self.added[one] for one in own), *filter(self._is_in_force, base)]

    def lines_like(self, plate: str) -> list[ListLine]:
        """All that mean a plate, the one by which it is meant first. Raises `TableError`."""
        found = self.table.lines_like(plate, self.record.tolerance)
        found = [line for line in found if self._is_in_force(line)]
        found += self._added_like(plate)
        return sorted(found, key=lambda line: (wanted(PLATE, line.plate) != plate, line.number))

    def find(self, plate: str) -> ListLine | None:
        """The line by which it means a plate. Raises `TableError` where the file is no table."""
        found = self.table.lines_like(plate, self.record.tolerance)
        if self.removed or self.added:
            found = [line for line in found if self._is_in_force(line)]
            found += self._added_like(plate)
        if len(found) < 2:
            return found[0] if found else None
        return min(found, key=lambda line: (wanted(PLATE, line.plate) != plate, line.number))

    def find_read(self, attributes: Mapping[str, str]) -> ListedReading | None:
        """Of a record: by its plate, or, where the list is tolerant at all, by a further candidate
        of the reader that is likely enough, which has to stand there as it is. Raises
        `TableError`."""
        form = attributes.get(PLATE, "")
        for plate in values_of(PLATE, form):
            line = self.find(plate)
            if line is not None:
                return ListedReading(line, plate)
        further = attributes.get(CANDIDATES, "")
        if not form or not further or self.record.tolerance == "exact":
            return None
        for plate, weight in candidates_of(further):
            line = self.find(plate) if weight >= LEAST_WEIGHT else None
            if line is not None and wanted(PLATE, line.plate) == plate:
                return ListedReading(line, plate, weight)
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlateList) and self.record == other.record

    def __hash__(self) -> int:
        return hash((self.record.list_id, self.record.version))

    def __reduce__(
        self,
    ) -> tuple[
        type[PlateList],
        tuple[ListRecord, BaseTable, Mapping[str, ListLine], frozenset[str]],
    ]:
        return PlateList, (self.record, self.table, self.added, self.removed)

    def _is_in_force(self, line: ListLine) -> bool:
        plate = wanted(PLATE, line.plate)
        return plate not in self.removed and plate not in self.added

    def _added_like(self, plate: str) -> Iterable[ListLine]:
        tolerance = self.record.tolerance
        if tolerance == "exact":
            line = self.added.get(plate)
            return () if line is None else (line,)
        if tolerance == "look-alikes":
            return self._added_alike.get(folded_alike(plate), ())
        known = self._added_parts
        found = {one for part in parts_without_one(plate) for one in known.get(part, ())}
        return [self.added[one] for one in found if is_near(one, plate)]

    @cached_property
    def _added_alike(self) -> Mapping[str, list[ListLine]]:
        found: dict[str, list[ListLine]] = {}
        for plate, line in self.added.items():
            found.setdefault(folded_alike(plate), []).append(line)
        return found

    @cached_property
    def _added_parts(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for plate in self.added:
            for part in parts_without_one(plate):
                found.setdefault(part, []).append(plate)
        return found
