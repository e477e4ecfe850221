"""What a rule asks of a record. Each form is one class here; nothing else knows which there are.

Pure. In: the condition of a command, the comparable attributes of a record. Out: whether it is met,
where an index finds it, which attributes it reads. Never: I/O, a clock, the rule's validity
(`Rule`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from alarm.rules.expression import ExpressionCondition, expression_condition
from alarm.rules.fuzzy_plates import FuzzyPlates, fuzzy_plates
from alarm.rules.index_cells import IndexCells, Signature, Values, cells_of_values
from alarm.rules.plate_fragments import fragment_of
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_table import ConfusionTable
from bus.domain.expressions.check import check_complete
from bus.domain.expressions.indexing import is_indexed
from bus.domain.expressions.tree import ExpressionError
from bus.domain.plate_patterns import PlatePattern, is_pattern, plate_pattern
from bus.domain.rule_values import PLATE, values_of, wanted


class RuleCondition(Protocol):
    """A form of condition. It can be pickled: Spark sends it to executors."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """All that it reads; others are not decoded, and an alarm shows these, in this order."""

    def index_cells(self) -> tuple[IndexCells, ...]:
        """A record that meets it is found by one of these; they may find too much."""

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """By a record with these comparable attributes and these times, of capture and of arrival;
        what it does not have was not read."""


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """Every attribute that is named has one of its accepted values, in comparable form."""

    accepted: Mapping[str, frozenset[str]]

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `RuleCondition.attributes`."""
        return tuple(self.accepted)

    def index_cells(self) -> tuple[IndexCells, ...]:
        """See `cells_of_values`."""
        return (cells_of_values(self.accepted),)

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """Of a rule that names nothing, by none: it must not meet every record of the city."""
        return bool(self.accepted) and all(
            not values.isdisjoint(values_of(name, attributes.get(name, "")))
            for name, values in self.accepted.items()
        )


@dataclass(frozen=True, slots=True)
class AcceptedPlates:
    """A plate is one of those that are named, or like a pattern, or read as a fuzzy one may be;
    every other attribute that is named has one of its accepted values."""

    plates: frozenset[str]
    patterns: tuple[PlatePattern, ...]
    fuzzy: FuzzyPlates
    others: AcceptedValues
    attributes: tuple[str, ...]
    """See `RuleCondition.attributes`."""

    def index_cells(self) -> tuple[IndexCells, ...]:
        """By each plate and by parts of the others: what else is asked is asked of few."""
        cells: dict[Signature, list[Values]] = {}
        if self.plates:
            cells[PLATE,] = [(plate,) for plate in sorted(self.plates)]
        for pattern in self.patterns:
            fragment, value = fragment_of(pattern)
            cells.setdefault((fragment,), []).append((value,))
        found = tuple(IndexCells(key, tuple(dict.fromkeys(own))) for key, own in cells.items())
        return found + self.fuzzy.index_cells()

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """See `RuleCondition.is_met`."""
        if self.others.accepted and not self.others.is_met(attributes):
            return False
        known = values_of(PLATE, attributes.get(PLATE, ""))
        return any(map(self._accepts, known)) or self.fuzzy.is_met(attributes)

    def _accepts(self, plate: str) -> bool:
        return plate in self.plates or any(one.is_met_by(plate) for one in self.patterns)


@dataclass(frozen=True, slots=True)
class MatchAndTree:
    """What a rule accepts by attribute, in whichever form, and its tree: both hold."""

    match: RuleCondition
    tree: ExpressionCondition

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `RuleCondition.attributes`."""
        return tuple(dict.fromkeys((*self.match.attributes, *self.tree.attributes)))

    def index_cells(self) -> tuple[IndexCells, ...]:
        """By the plates that are accepted; where none are named, by the tree if an index serves
        it: it may name one."""
        if PLATE not in self.match.attributes and is_indexed(self.tree.tree):
            return self.tree.index_cells()
        return self.match.index_cells()

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """See `RuleCondition.is_met`."""
        return self.match.is_met(attributes, times_ms) and self.tree.is_met(attributes, times_ms)


def condition_of(
    command: WatchCommand, references: References = NO_REFERENCES
) -> RuleCondition:
    """The condition of a command, in whichever form it is; unread values are dropped. A tree that
    may not be put is met by no record: it comes from a program that does not check."""
    match = _of_match(command.match, references.confusion)
    if command.where is None:
        return match
    try:
        check_complete(command.kind, command.where)
    except ExpressionError:
        return AcceptedValues({})
    tree = expression_condition(command.where, references)
    return MatchAndTree(match, tree) if command.match else tree


def _of_match(match: Mapping[str, list[str]], confusion: ConfusionTable) -> RuleCondition:
    fuzzy, whole = fuzzy_plates(match.get(PLATE, ()), confusion)
    patterns = tuple(dict.fromkeys(filter(None, map(plate_pattern, filter(is_pattern, whole)))))
    accepted = {
        name: frozenset(
            filter(None, (wanted(name, one) for one in (whole if name == PLATE else values)))
        )
        for name, values in match.items()
    }
    if not patterns and not fuzzy.plates:
        return AcceptedValues(accepted)
    plates = accepted.pop(PLATE)
    if not plates and not patterns and not accepted:
        return fuzzy
    names = (*match, *(fuzzy.attributes[1:] if fuzzy.plates else ()))
    return AcceptedPlates(plates, patterns, fuzzy, AcceptedValues(accepted), names)
