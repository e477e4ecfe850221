"""What a rule asks of a record. Each form is one class here; nothing else knows which there are.

Pure. In: the condition of a command, the comparable attributes of a record. Out: whether it is met,
where an index finds it, which attributes it reads. Never: I/O, a clock, the rule's validity
(`Rule`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple, Protocol

from bus.contracts.commands import WatchCommand
from bus.domain.rule_values import values_of, wanted

MAX_CELLS = 64  # memory per rule; 10,000 rules stay below a million cells

Signature = tuple[str, ...]
Values = tuple[str, ...]


class IndexCells(NamedTuple):
    """Where a condition stands in an index: a record that meets it has one of these combinations of
    values in these attributes. No attribute and one empty combination: any record may meet it. No
    combination: none does."""

    signature: Signature
    cells: tuple[Values, ...]


class RuleCondition(Protocol):
    """A form of condition. It can be pickled: Spark sends it to executors."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """All that it reads; others are not decoded, and an alarm shows these, in this order."""

    def index_cells(self) -> IndexCells:
        """May find too much, never too little."""

    def is_met(self, attributes: Mapping[str, str]) -> bool:
        """By a record with these comparable attributes; what it does not have was not read."""


@dataclass(frozen=True, slots=True)
class AcceptedValues:
    """Every attribute that is named has one of its accepted values, in comparable form."""

    accepted: Mapping[str, frozenset[str]]

    @property
    def attributes(self) -> tuple[str, ...]:
        """See `RuleCondition.attributes`."""
        return tuple(self.accepted)

    def index_cells(self) -> IndexCells:
        """By as many attributes as have `MAX_CELLS` combinations, those of few values first."""
        names: list[str] = []
        size = 1
        for name, values in sorted(self.accepted.items(), key=lambda one: (len(one[1]), one[0])):
            if size * len(values) <= MAX_CELLS or not names:
                names.append(name)
                size *= len(values)
        names.sort()
        cells = product(*(sorted(self.accepted[name]) for name in names)) if names else ()
        return IndexCells(tuple(names), tuple(cells))

    def is_met(self, attributes: Mapping[str, str]) -> bool:
        """Of a rule that names nothing, by none: it must not meet every record of the city."""
        return bool(self.accepted) and all(
            not values.isdisjoint(values_of(name, attributes.get(name, "")))
            for name, values in self.accepted.items()
        )


def condition_of(command: WatchCommand) -> RuleCondition:
    """The condition of a command, in whichever form it is; unread values are dropped."""
    return AcceptedValues({
        name: frozenset(filter(None, (wanted(name, value) for value in values)))
        for name, values in command.match.items()
    })
