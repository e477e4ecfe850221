"""A tree of conditions as it is matched. Pure; it can be pickled.

`not` is pushed down to the leaves when a tree is compiled. A leaf then asks for one answer, yes or
no, and "not read" is neither: so no evaluation knows of three values, and neither `x in (a)` nor
`not x in (a)` is met by a record of which x was not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from alarm.rules.index_cells import IndexCells
from alarm.rules.leaf_predicates import LeafPredicate, predicate_of
from alarm.rules.planner import cells_of
from alarm.rules.references import NO_REFERENCES, References, references_of
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Leaf,
    Negation,
    OnList,
    Resemblance,
    TravelHeading,
)
from bus.domain.expressions.tree import attributes_of_tree, nodes_of
from bus.domain.rule_values import (
    CANDIDATES,
    CHECKPOINT,
    CONFIDENCES,
    DEVICE,
    DIRECTION,
    FEATURE,
    FEATURE_MODEL,
    LANE,
    PLATE,
)


@dataclass(frozen=True, slots=True)
class CompiledLeaf:
    """A leaf and the answer that is asked for."""

    leaf: Leaf
    predicate: LeafPredicate
    expected: bool = True

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool:
        """Whether that is the answer."""
        return self.predicate.holds(attributes, times_ms) is self.expected


@dataclass(frozen=True, slots=True)
class CompiledGroup:
    """All of its parts, or at least one of them."""

    parts: tuple[CompiledTree, ...]
    needs_all: bool

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool:
        """By a record."""
        met = (part.is_met(attributes, times_ms) for part in self.parts)
        return all(met) if self.needs_all else any(met)


CompiledTree: TypeAlias = CompiledLeaf | CompiledGroup


@dataclass(frozen=True, slots=True)
class ExpressionCondition:
    """The tree of a rule. See `RuleCondition`."""

    tree: Expression
    compiled: CompiledTree
    attributes: tuple[str, ...]
    references: References = NO_REFERENCES

    def index_cells(self) -> tuple[IndexCells, ...]:
        """By the rarest part of each branch."""
        return cells_of(self.tree, self.references)

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        """See `RuleCondition.is_met`."""
        return self.compiled.is_met(attributes, times_ms)


def expression_condition(
    tree: Expression, references: References = NO_REFERENCES
) -> ExpressionCondition:
    """Of a tree that was checked; it keeps what it refers to and no more."""
    own = references.only(references_of(tree))
    compiled = _compiled(tree, own, negated=False)
    return ExpressionCondition(tree, compiled, _attributes_read(tree), own)


def _attributes_read(tree: Expression) -> tuple[str, ...]:
    """Those that it names, those by which a place and a direction are known, whose a feature is,
    what a reader says of each character where that has a price, and its further candidates where
    they count."""
    named = attributes_of_tree(tree)
    nodes = [node for node, _ in nodes_of(tree)]
    if any(isinstance(node, AtPlace | InArea | AlongRoad) for node in nodes):
        named = tuple(dict.fromkeys((*named, CHECKPOINT, DEVICE)))
    if any(isinstance(node, TravelHeading | AlongRoad) for node in nodes):
        named = tuple(dict.fromkeys((*named, DIRECTION, LANE, DEVICE)))
    lists = {node.attribute for node in nodes if isinstance(node, OnList)}
    if FEATURE in lists:
        named = (*named, FEATURE_MODEL)
    if any(isinstance(node, Resemblance) for node in nodes):
        return (*named, CONFIDENCES, CANDIDATES)
    return (*named, CANDIDATES) if PLATE in lists else named


def _compiled(node: Expression, references: References, *, negated: bool) -> CompiledTree:
    if isinstance(node, Negation):
        return _compiled(node.part, references, negated=not negated)
    if isinstance(node, Conjunction | Disjunction):
        parts = tuple(_compiled(part, references, negated=negated) for part in node.parts)
        return CompiledGroup(parts, isinstance(node, Conjunction) is not negated)
    return CompiledLeaf(node, predicate_of(node, references), not negated)
