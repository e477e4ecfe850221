"""Which plate of a rule a record is about. Pure.

In: a command, comparable attributes of a record that meets it. Out: a plate. Never: one that stands
below a `not`; a pattern, which many plates are like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from alarm.rules.fuzzy_plates import resembled
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Expression, Leaf, Negation, OneOf, Resemblance
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.tree import parts_of
from bus.domain.rule_values import PLATE, values_of, wanted


def meant_plate(command: WatchCommand, attributes: Mapping[str, str]) -> str:
    """The plate that the rule names and the record is one of, or read as; empty where it names
    none."""
    form = attributes.get(PLATE, "")
    tree = tree_of(command) if form else None
    if tree is None:
        return ""
    known = values_of(PLATE, form)
    leaves = list(_asked(tree))
    for leaf in leaves:
        if isinstance(leaf, OneOf) and leaf.attribute == PLATE:
            for plate in filter(None, (wanted(PLATE, one) for one in leaf.values)):
                if plate in known:
                    return plate
    return _resembled(leaves, attributes)


def _resembled(leaves: list[Leaf], attributes: Mapping[str, str]) -> str:
    """The plate whose misreading is the cheapest, the first of several."""
    found: list[tuple[float, str]] = []
    for leaf in leaves:
        if isinstance(leaf, Resemblance):
            plates = resembled(leaf)
            price = plates.price(attributes)
            if price is not None:
                found.append((price, plates.plates[0].plate))
    return min(found)[1] if found else ""


def _asked(tree: Expression) -> Iterator[Leaf]:
    """Leaves that are not below a `not`, as they are written."""
    waiting: list[Expression] = [tree]
    while waiting:
        node = waiting.pop()
        parts = parts_of(node)
        if not parts:
            yield node  # type: ignore[misc]
        elif not isinstance(node, Negation):
            waiting.extend(reversed(parts))
