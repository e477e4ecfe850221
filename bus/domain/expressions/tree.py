"""Walks over a tree of conditions, and its limits. Pure.

In: a tree from anywhere. Out: its nodes, or `ExpressionError` where it is too large. Never: a
recursion before the depth is known.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.contracts.expressions import (
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Negation,
    OneOf,
    RegularExpression,
    Resemblance,
    TimeWindow,
)

MAX_NODES = 1_000
MAX_DEPTH = 32  # functions below call themselves as often
MAX_VALUES_OF_TREE = 1_000  # each is a cell of an index
MAX_REGULAR_EXPRESSIONS = 20  # of one rule; each is a program of RE2 in every worker
MAX_CORNERS = 5_000  # of all polygons of one rule
MAX_RESEMBLANCES = 50  # of one rule, as many as `match` may have


class ExpressionError(ValueError):
    """A tree, or its text, that cannot be meant: what is wrong and what to do instead. `code`: what
    is wrong, for other languages; `column`: of a text, the character it concerns, from 1; 0 where
    there is no text."""

    def __init__(self, text: str, code: str, column: int = 0) -> None:
        super().__init__(text)
        self.code = code
        self.column = column

    def at(self, column: int) -> ExpressionError:
        """The same, where it concerns a character of a text."""
        return ExpressionError(str(self), self.code, self.column or column)


def parts_of(node: Expression) -> tuple[Expression, ...]:
    """The nodes directly below."""
    if isinstance(node, Conjunction | Disjunction):
        return node.parts
    return (node.part,) if isinstance(node, Negation) else ()


def nodes_of(tree: Expression) -> Iterator[tuple[Expression, int]]:
    """All nodes with their depth, from 1, as they are written; of any tree, however deep."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((part, depth + 1) for part in reversed(parts_of(node)))


def attributes_of_tree(tree: Expression) -> tuple[str, ...]:
    """The attributes that it names, once each, as they are written."""
    leaves = (node for node, _ in nodes_of(tree) if not parts_of(node))
    named = (leaf.attribute for leaf in leaves if hasattr(leaf, "attribute"))
    return tuple(dict.fromkeys(named))


def check_size(tree: Expression) -> None:
    """Raises `ExpressionError`."""
    values = patterns = resemblances = corners = 0
    for number, (node, depth) in enumerate(nodes_of(tree), start=1):
        if number > MAX_NODES:
            raise too_many_nodes()
        if depth > MAX_DEPTH:
            raise too_deep()
        values += len(node.values) if isinstance(node, OneOf) else 0
        values += len(node.names) if isinstance(node, AtPlace) else 0
        corners += len(node.corners) if isinstance(node, InArea) else 0
        patterns += isinstance(node, RegularExpression)
        resemblances += isinstance(node, Resemblance)
    if values > MAX_VALUES_OF_TREE:
        raise ExpressionError(
            f"more than {MAX_VALUES_OF_TREE} values in all; make several rules of it",
            "too_many_values",
        )
    if patterns > MAX_REGULAR_EXPRESSIONS:
        raise ExpressionError(
            f"more than {MAX_REGULAR_EXPRESSIONS} regular expressions; write like or contains, or"
            " make several rules of it",
            "too_many_patterns",
        )
    if corners > MAX_CORNERS:
        raise ExpressionError(
            f"more than {MAX_CORNERS} corners of polygons in all; make several rules of it",
            "too_many_corners",
        )
    if resemblances > MAX_RESEMBLANCES:
        raise ExpressionError(
            f"more than {MAX_RESEMBLANCES} plates that may be misread; make several rules of it",
            "too_many_resemblances",
        )


def too_many_nodes() -> ExpressionError:
    """Of a tree that is too large."""
    return ExpressionError(
        f"more than {MAX_NODES} conditions; make several rules of it", "too_many_conditions"
    )


def too_deep() -> ExpressionError:
    """Of a tree that is too high."""
    return ExpressionError(f"nested more than {MAX_DEPTH} deep; write it flatter", "too_deep")


def with_zone(tree: Expression, zone: str) -> Expression:
    """The same with the zone of the site for each window that names none."""
    if isinstance(tree, TimeWindow):
        return tree if tree.zone else _replaced_zone(tree, zone)
    if isinstance(tree, Conjunction | Disjunction):
        return type(tree)(parts=tuple(with_zone(part, zone) for part in tree.parts))
    return Negation(part=with_zone(tree.part, zone)) if isinstance(tree, Negation) else tree


def _replaced_zone(window: TimeWindow, zone: str) -> TimeWindow:
    return TimeWindow(days=window.days, begin=window.begin, end=window.end, zone=zone)
