"""Why a record meets a tree or does not, node by node. Pure.

In: a tree that was checked, comparable attributes, times. Out: each node with its answer: True,
False, or None where what it asks about was not read. Never: another answer than matching gives; a
property compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from alarm.rules.face_gallery import FaceGallery, FaceMatch
from alarm.rules.fuzzy_plates import FuzzyPlates, resembled
from alarm.rules.leaf_predicates import predicate_of
from alarm.rules.plate_lists import ListedReading, PlateList
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Negation,
    OnList,
    Resemblance,
    TravelHeading,
)
from bus.contracts.plate_lists import ListLine
from bus.domain.confusion_table import ConfusionTable
from bus.domain.expressions.to_text import to_text
from bus.domain.plate_candidates import PlateCandidate
from bus.domain.rule_values import CHECKPOINT, DEVICE, FEATURE, PLATE

_ABOVE_ALL = 100.0
"""No two edits cost as much."""


class ExplainedNode(NamedTuple):
    """A node, how deep it stands, and its answer. `value`: what the record has, in comparable form;
    of a group nothing. `price`: of the reading, where a plate is asked for that it may resemble;
    None for more than two edits. `face`: of a gallery, the nearest, near enough or not."""

    node: Expression
    depth: int
    answer: bool | None
    value: str = ""
    price: float | None = None
    is_missing: bool = False
    """It refers to something that is not in force."""
    face: FaceMatch | None = None
    candidate: PlateCandidate | None = None
    """The further candidate of the reader that has the price, or stands on the list."""
    plate_list: PlateList | None = None
    """That it asks for, where it is in force."""
    line: ListLine | None = None
    """Of the list, that means the plate."""


def explain(
    tree: Expression,
    attributes: Mapping[str, str],
    times_ms: Sequence[int],
    references: References = NO_REFERENCES,
    depth: int = 0,
) -> tuple[ExplainedNode, ...]:
    """The node itself first, then what stands below it."""
    if isinstance(tree, Negation):
        below = explain(tree.part, attributes, times_ms, references, depth + 1)
        answer = below[0].answer
        return ExplainedNode(tree, depth, None if answer is None else not answer), *below
    if isinstance(tree, Conjunction | Disjunction):
        parts = [explain(part, attributes, times_ms, references, depth + 1) for part in tree.parts]
        answer = _together([part[0].answer for part in parts], isinstance(tree, Conjunction))
        return ExplainedNode(tree, depth, answer), *(one for part in parts for one in part)
    answer = predicate_of(tree, references).holds(attributes, times_ms)
    value = attributes.get(getattr(tree, "attribute", ""), "")
    if isinstance(tree, OnList):
        node = ExplainedNode(tree, depth, answer, value)
        explained = _in_gallery if tree.attribute == FEATURE else _on_list
        return (explained(node, tree, attributes, references),)
    if isinstance(tree, Resemblance):
        node = ExplainedNode(tree, depth, answer, value)
        return (_priced(node, tree, attributes, references.confusion),)
    is_missing = False
    places = references.places
    if isinstance(tree, AtPlace | InArea | AlongRoad):
        value = places.describe(attributes.get(CHECKPOINT, ""), attributes.get(DEVICE, ""))
        is_missing = bool(places.find(tree).missing)
    if isinstance(tree, TravelHeading | AlongRoad):
        heading = places.lanes.of(attributes)
        value = ", ".join(filter(None, (value, heading and f"heading {heading}")))
    return (ExplainedNode(tree, depth, answer, value, is_missing=is_missing),)


def listed_plate(
    tree: Expression, attributes: Mapping[str, str], references: References
) -> tuple[PlateList, ListedReading] | None:
    """The first list that a tree asks for and that means the plate, and by what."""
    for leaf in _lists_asked_for(tree):
        plate_list = references.lists.get(leaf.list_id) if leaf.attribute == PLATE else None
        found = plate_list.find_read(attributes) if plate_list is not None else None
        if plate_list is not None and found is not None:
            return plate_list, found
    return None


class ResembledFace(NamedTuple):
    """Of a gallery, and what the rule asks for."""

    gallery: FaceGallery
    match: FaceMatch
    threshold: float


def resembled_face(
    tree: Expression, attributes: Mapping[str, str], references: References
) -> ResembledFace | None:
    """The first gallery that a tree asks for and that has a face which is near enough."""
    for leaf in _lists_asked_for(tree):
        gallery = references.galleries.get(leaf.list_id) if leaf.attribute == FEATURE else None
        if gallery is None or not gallery.compares(attributes):
            continue
        match = gallery.find(attributes)
        if match is not None and gallery.is_hit(match, leaf.threshold):
            own = gallery.model.threshold if leaf.threshold is None else leaf.threshold
            return ResembledFace(gallery, match, own)
    return None


def _lists_asked_for(tree: Expression, *, negated: bool = False) -> Iterator[OnList]:
    """Not those that exempt a plate."""
    if isinstance(tree, OnList):
        if not negated:
            yield tree
    elif isinstance(tree, Negation):
        yield from _lists_asked_for(tree.part, negated=not negated)
    elif isinstance(tree, Conjunction | Disjunction):
        for part in tree.parts:
            yield from _lists_asked_for(part, negated=negated)


def _in_gallery(
    node: ExplainedNode, leaf: OnList, attributes: Mapping[str, str], references: References
) -> ExplainedNode:
    gallery = references.galleries.get(leaf.list_id)
    is_compared = gallery is not None and gallery.compares(attributes)
    face = gallery.find(attributes) if gallery is not None and is_compared else None
    return node._replace(value="", is_missing=gallery is None, face=face)


def _on_list(
    node: ExplainedNode, leaf: OnList, attributes: Mapping[str, str], references: References
) -> ExplainedNode:
    plate_list = references.lists.get(leaf.list_id)
    if plate_list is None:
        return node._replace(is_missing=True)
    found = plate_list.find_read(attributes)
    if found is None:
        return node._replace(plate_list=plate_list)
    candidate = PlateCandidate(found.read, found.weight) if found.weight else None
    return node._replace(plate_list=plate_list, line=found.line, candidate=candidate)


def _priced(
    node: ExplainedNode, leaf: Resemblance, attributes: Mapping[str, str],
    confusion: ConfusionTable,
) -> ExplainedNode:  # fmt: skip
    """Also with a price that is too high."""
    plates = resembled(leaf, confusion)
    unlimited = tuple(one._replace(highest=_ABOVE_ALL) for one in plates.plates)
    found = plates.cheapest(attributes) or FuzzyPlates(unlimited, confusion).cheapest(attributes)
    if found is None:
        return node
    candidate = PlateCandidate(found.read, found.weight) if found.weight else None
    return node._replace(price=found.price, candidate=candidate)


def _together(answers: list[bool | None], needs_all: bool) -> bool | None:
    """One decisive answer decides, whatever was not read."""
    if (not needs_all) in answers:
        return not needs_all
    return None if None in answers else needs_all


def true_branch(
    tree: Expression,
    attributes: Mapping[str, str],
    times_ms: Sequence[int],
    references: References = NO_REFERENCES,
) -> str:
    """The text of the first branch of an `or` that holds; empty where a tree has no `or` that
    decides: all of it holds then."""
    for node in _alternatives(tree):
        for part in node.parts:
            if explain(part, attributes, times_ms, references)[0].answer:
                return to_text(part)
    return ""


def _alternatives(tree: Expression) -> Iterator[Disjunction]:
    """The `or` at the top, or those in an `and` there."""
    if isinstance(tree, Disjunction):
        yield tree
    elif isinstance(tree, Conjunction):
        yield from (part for part in tree.parts if isinstance(part, Disjunction))
