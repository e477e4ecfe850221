"""By which part of a tree an index finds its rule. Pure.

In: a tree that was checked. Out: cells; every record that meets the tree has one of them. Never: a
look at rules or records: how rare a part is is guessed by its form.

Of an `and` the rarest part is taken, and the index need not know the others; of an `or` each branch
has its own cells. What no index serves (`not`, a range, presence, a time) makes a rule that each
record is held against, unless another part of its `and` is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import NamedTuple

from alarm.rules.face_gallery import FaceGallery
from alarm.rules.fuzzy_plates import NARROW, resembled
from alarm.rules.index_cells import ANY_RECORD, IndexCells, cells_of_values, joined
from alarm.rules.leaf_predicates import MAX_COMPARED_CHARACTERS
from alarm.rules.plate_fragments import fragment_of
from alarm.rules.plate_lists import PlateList
from alarm.rules.references import NO_REFERENCES, References
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
    Resemblance,
    TravelHeading,
)
from bus.domain.expressions.indexing import TextLeaf, indexed_run, is_plate_pattern
from bus.domain.expressions.leaf_text import wildcard_form
from bus.domain.plate_patterns import PlatePattern
from bus.domain.registered_places import PlaceSets
from bus.domain.registered_ways import LaneHeadings
from bus.domain.rule_values import CHECKPOINT, DEVICE, FEATURE, PLATE, values_of, wanted

MAX_GRAM = 5
"""Characters in a row by which rules are found: as many as a plate has behind its region."""
_SHARE_OF_PLACE = 0.001
_SHARE_OF_VALUE = 0.1
_SHARE_OF_PLATE = 1e-6
_SHARE_OF_RESEMBLANCE, _SHARE_OF_WIDE_RESEMBLANCE = 3e-4, 1e-2
_SHARE_OF_LIST = 1e-3
_SHARE_OF_HEADING = 0.25
_SHARE_OF_CHARACTER = 0.1
"""Guesses: of how many records one value, or one character at its place, is true; how many have a
part of a plate that may be misread, at a price that is narrow or wide, where most plates begin
alike."""
_PLACES = frozenset({"checkpoint_id", "camera_ip", "recognizer_ip"})


class TextGram(NamedTuple):
    """The runs of so many characters in the values that an attribute may have."""

    attribute: str
    length: int

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """Those of a record."""
        form = attributes.get(self.attribute, "")
        if len(form) > MAX_COMPARED_CHARACTERS:
            return ()
        values, last = values_of(self.attribute, form), self.length - 1
        return tuple({
            value[at : at + self.length] for value in values for at in range(len(value) - last)
        })  # fmt: skip


class PlateOnList(NamedTuple):
    """Whether a plate is on a list."""

    plate_list: PlateList

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """One value where it is, none where it is not."""
        return () if self.plate_list.find_read(attributes) is None else _ON_LIST


class FaceInGallery(NamedTuple):
    """Whether a feature resembles a face of a gallery, by this threshold."""

    gallery: FaceGallery
    threshold: float | None

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """One value where it does, none where it does not."""
        gallery = self.gallery
        return _ON_LIST if gallery.is_hit(gallery.find(attributes), self.threshold) else ()


class HeadingOfRecord(NamedTuple):
    """Where it travels to."""

    lanes: LaneHeadings

    def of(self, attributes: Mapping[str, str]) -> tuple[object, ...]:
        """One value where it is known."""
        heading = self.lanes.of(attributes)
        return () if heading is None else (heading,)


_ON_LIST = (True,)


class IndexPlan(NamedTuple):
    """Cells, and the share of all records that they are expected to find."""

    share: float
    cells: tuple[IndexCells, ...]


_UNSERVED = IndexPlan(float("inf"), ANY_RECORD)


def cells_of(
    tree: Expression, references: References = NO_REFERENCES
) -> tuple[IndexCells, ...]:
    """See `RuleCondition.index_cells`."""
    return _plan(tree, references, negated=False).cells


def _plan(node: Expression, references: References, *, negated: bool) -> IndexPlan:
    if isinstance(node, Negation):
        return _plan(node.part, references, negated=not negated)
    if isinstance(node, Conjunction | Disjunction):
        parts = [_plan(part, references, negated=negated) for part in node.parts]
        if isinstance(node, Conjunction) is negated:
            return _of_any(parts)
        if not negated:
            parts.append(_of_values_together(node.parts))
        return min(parts, key=lambda plan: plan.share)
    if isinstance(node, OnList) and node.attribute == FEATURE:
        gallery = references.galleries.get(node.list_id)
        return _of_gallery(gallery, node.threshold, negated=negated)
    if isinstance(node, OnList):
        return _of_list(references.lists.get(node.list_id), negated=negated)
    if isinstance(node, AtPlace | InArea | AlongRoad):
        return _UNSERVED if negated else _of_place(references.places.find(node))
    if isinstance(node, TravelHeading):
        return _UNSERVED if negated else _of_headings(node, references.places.lanes)
    return _UNSERVED if negated else _of_leaf(node, references)


def _of_any(parts: list[IndexPlan]) -> IndexPlan:
    if any(plan.cells == ANY_RECORD for plan in parts):
        return _UNSERVED
    return IndexPlan(
        sum(plan.share for plan in parts), joined(one for plan in parts for one in plan.cells)
    )


def _of_values_together(parts: tuple[Expression, ...]) -> IndexPlan:
    """Of an `and`: a colour and a brand together are rarer than either."""
    accepted: dict[str, frozenset[str]] = {}
    for part in parts:
        if isinstance(part, OneOf):
            values = _forms(part)
            known = accepted.get(part.attribute, values)
            accepted[part.attribute] = min(known, values, key=len)
    if not accepted:
        return _UNSERVED
    found = cells_of_values(accepted)
    shares = (_share_of(str(name), len(accepted[str(name)])) for name in found.signature)
    return IndexPlan(reduce(mul, shares), (found,))


def _of_leaf(leaf: Leaf, references: References) -> IndexPlan:
    if isinstance(leaf, OneOf):
        return _of_values_together((leaf,))
    if isinstance(leaf, Resemblance):
        is_narrow = leaf.highest_price <= NARROW
        share = _SHARE_OF_RESEMBLANCE if is_narrow else _SHARE_OF_WIDE_RESEMBLANCE
        return IndexPlan(share, resembled(leaf, references.confusion).index_cells())
    if is_plate_pattern(leaf):
        pattern = PlatePattern(wildcard_form(PLATE, leaf.pattern))
        fragment, value = fragment_of(pattern)
        given = fragment.run or len(fragment.places)
        return IndexPlan(_SHARE_OF_CHARACTER**given, (IndexCells((fragment,), ((value,),)),))
    if not isinstance(leaf, TextLeaf) or not (run := indexed_run(leaf)):
        return _UNSERVED
    length = min(len(run), MAX_GRAM)
    gram = TextGram(leaf.attribute, length)
    # the last: plates of a city begin alike
    return IndexPlan(_SHARE_OF_CHARACTER**length, (IndexCells((gram,), ((run[-length:],),)),))


def _of_list(found: PlateList | None, *, negated: bool) -> IndexPlan:
    """One that is not in force meets no record: no cell."""
    if negated:
        return _UNSERVED
    if found is None:
        return IndexPlan(0.0, ())
    return IndexPlan(_SHARE_OF_LIST, (IndexCells((PlateOnList(found),), (_ON_LIST,)),))


def _of_gallery(
    found: FaceGallery | None, threshold: float | None, *, negated: bool
) -> IndexPlan:
    """As of a list."""
    if negated:
        return _UNSERVED
    if found is None:
        return IndexPlan(0.0, ())
    key = FaceInGallery(found, threshold)
    return IndexPlan(_SHARE_OF_LIST, (IndexCells((key,), (_ON_LIST,)),))


def _of_place(found: PlaceSets) -> IndexPlan:
    """By each checkpoint and device that lies there: as many cells as the register has, at most."""
    cells = (
        IndexCells((CHECKPOINT,), tuple((one,) for one in sorted(found.checkpoints))),
        IndexCells((DEVICE,), tuple((one,) for one in sorted(found.devices))),
    )
    known = max(len(found.known_checkpoints), len(found.known_devices), 1)
    share = max(len(found.checkpoints), len(found.devices)) / known
    return IndexPlan(share, tuple(one for one in cells if one.cells))


def _of_headings(leaf: TravelHeading, lanes: LaneHeadings) -> IndexPlan:
    """Cities have streets of four directions."""
    cells = tuple((heading,) for heading in leaf.headings)
    share = min(1.0, _SHARE_OF_HEADING * len(cells))
    return IndexPlan(share, (IndexCells((HeadingOfRecord(lanes),), cells),))


def _forms(leaf: OneOf) -> frozenset[str]:
    return frozenset(filter(None, (wanted(leaf.attribute, one) for one in leaf.values)))


def _share_of(attribute: str, values: int) -> float:
    if attribute == PLATE:
        return _SHARE_OF_PLATE * values
    return min(1.0, (_SHARE_OF_PLACE if attribute in _PLACES else _SHARE_OF_VALUE) * values)
