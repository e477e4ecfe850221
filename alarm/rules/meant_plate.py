"""Which plate of a rule a record is about. Pure.

In: a command, comparable attributes of a record that meets it. Out: a plate, and what was read for
it. Never: one that stands below a `not`; a pattern, which many plates are like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from alarm.rules.fuzzy_plates import resembled
from bus.contracts.alarms import ReadingPrice
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import Expression, Leaf, Negation, OneOf, Resemblance
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.tree import parts_of
from bus.domain.rule_values import PLATE, values_of, wanted


class TargetPlate(NamedTuple):
    """`plate`: that the rule names and the record is one of, or was read as; empty where it names
    none. `misread`: what was read, where that is another one."""

    plate: str = ""
    misread: ReadingPrice | None = None


def meant_plate(
    command: WatchCommand, attributes: Mapping[str, str], confusion: ConfusionTable = PACKAGED
) -> TargetPlate:
    """Of a record that meets the rule."""
    form = attributes.get(PLATE, "")
    tree = tree_of(command) if form else None
    if tree is None:
        return TargetPlate()
    known = values_of(PLATE, form)
    leaves = list(_asked(tree))
    for leaf in leaves:
        if isinstance(leaf, OneOf) and leaf.attribute == PLATE:
            for plate in filter(None, (wanted(PLATE, one) for one in leaf.values)):
                if plate in known:
                    return TargetPlate(plate)
    return _resembled(leaves, attributes, confusion)


def _resembled(
    leaves: list[Leaf], attributes: Mapping[str, str], confusion: ConfusionTable
) -> TargetPlate:
    """The plate whose misreading is the cheapest, the first by name of several; one that was read
    as it is before all."""
    asked = (
        resembled(leaf, confusion).cheapest(attributes)
        for leaf in leaves
        if isinstance(leaf, Resemblance)
    )
    found = list(filter(None, asked))
    if not found:
        return TargetPlate()
    best = min(found, key=lambda one: (_is_misread(one), one.price, one.plate))
    return TargetPlate(best.plate, best if _is_misread(best) else None)


def _is_misread(one: ReadingPrice) -> bool:
    """Whether something else was written, by what the reader took for the likeliest."""
    return bool(one.weight) or one.read != one.plate


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
