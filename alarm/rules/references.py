"""What rules refer to and that does not stand in them. Picklable: Spark sends it to executors.

In: what is in force of it. Out: what a leaf needs. Never: how it is read from the bus. A leaf that
refers to something that is not there is met by no record, and so is its negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from alarm.rules.plate_lists import PlateList
from bus.contracts.expressions import Expression, OnList
from bus.domain.expressions.tree import nodes_of


class Reference(NamedTuple):
    """To one thing, by its id."""

    what: Literal["list"]
    id: str


@dataclass(frozen=True, slots=True)
class References:
    """All that is in force of what rules may refer to."""

    lists: Mapping[str, PlateList] = field(default_factory=dict)
    """By the list's id."""

    def changed_since(self, before: References) -> frozenset[Reference]:
        """What is there now and was not, is not any more, or is otherwise."""
        ids = self.lists.keys() | before.lists.keys()
        return frozenset(
            Reference("list", one) for one in ids if self.lists.get(one) != before.lists.get(one)
        )

    def only(self, named: frozenset[Reference]) -> References:
        """Of all this only what is named: a rule holds what it refers to."""
        if not named:
            return NO_REFERENCES
        ids = [reference.id for reference in named if reference.what == "list"]
        return References({one: self.lists[one] for one in ids if one in self.lists})


NO_REFERENCES = References()


def references_of(tree: Expression | None) -> frozenset[Reference]:
    """All that a tree refers to."""
    if tree is None:
        return frozenset()
    return frozenset(
        Reference("list", node.list_id) for node, _ in nodes_of(tree) if isinstance(node, OnList)
    )
