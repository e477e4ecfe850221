"""Whether an index finds the records that a tree may be met by, without a look at every record.
Pure; `alarm.rules.planner` makes the index, and a test compares the two.
"""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Leaf,
    Negation,
    OneOf,
    OnList,
    RegularExpression,
    Resemblance,
    Substring,
    TravelHeading,
    Wildcard,
)
from bus.domain.expressions.leaf_text import longest_run, substring_form, wildcard_form
from bus.domain.expressions.regular import required_text
from bus.domain.plate_patterns import LEAST_NAMED, PlatePattern
from bus.domain.rule_values import PLATE

TextLeaf: TypeAlias = Wildcard | Substring | RegularExpression
_LEAST_RUN = 2
"""Characters in a row; by one an index finds a tenth of all records. Of plates more: two are those
of a province and a district, with which all plates of a city begin."""


def is_indexed(tree: Expression, *, negated: bool = False) -> bool:
    """Of a tree that was checked."""
    if isinstance(tree, Negation):
        return is_indexed(tree.part, negated=not negated)
    if isinstance(tree, Conjunction | Disjunction):
        found = (is_indexed(part, negated=negated) for part in tree.parts)
        return any(found) if isinstance(tree, Conjunction) is not negated else all(found)
    return not negated and _has_index(tree)


def _has_index(leaf: Leaf) -> bool:
    if isinstance(leaf, TextLeaf):
        return is_plate_pattern(leaf) or bool(indexed_run(leaf))
    return isinstance(
        leaf, OneOf | Resemblance | OnList | AtPlace | InArea | TravelHeading | AlongRoad
    )


def is_plate_pattern(leaf: Leaf) -> TypeGuard[Wildcard]:
    """Whether an index of plates finds it, by the characters at their places."""
    return (
        isinstance(leaf, Wildcard)
        and leaf.attribute == PLATE
        and PlatePattern(wildcard_form(PLATE, leaf.pattern)).named >= LEAST_NAMED
    )


def indexed_run(leaf: TextLeaf) -> str:
    """A text that each value has which meets the leaf, in comparable form; empty where none is
    known that is rare enough."""
    run = _run_of(leaf)
    return run if len(run) >= (LEAST_NAMED if leaf.attribute == PLATE else _LEAST_RUN) else ""


def _run_of(leaf: TextLeaf) -> str:
    match leaf:
        case Wildcard():
            return longest_run(wildcard_form(leaf.attribute, leaf.pattern))
        case Substring():
            return substring_form(leaf.attribute, leaf.text)
        case RegularExpression():
            return required_text(leaf.pattern)
