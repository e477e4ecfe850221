"""What each form of leaf asks of a record, as it is judged: True, False, or None where nothing was
read that would say it. Pure; it can be pickled.

In: a leaf that was checked, comparable attributes, times. Out: one of three answers. Never: `not`,
`and`, `or` (`expression`), where an index finds it (`planner`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from alarm.rules.face_gallery import FaceGallery
from alarm.rules.fuzzy_plates import resembled
from alarm.rules.plate_lists import PlateList
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    InArea,
    Leaf,
    NumericRange,
    OneOf,
    OnList,
    Presence,
    RegularExpression,
    Resemblance,
    Substring,
    TimeWindow,
    TravelHeading,
    Wildcard,
)
from bus.domain.confusion_table import ConfusionTable
from bus.domain.expressions.leaf_text import number_of, substring_form, wildcard_form
from bus.domain.expressions.regular import compiled
from bus.domain.expressions.time_window import is_within
from bus.domain.plate_patterns import PlatePattern
from bus.domain.registered_places import PlaceSets, WaySets
from bus.domain.registered_ways import LaneHeadings
from bus.domain.rule_values import CHECKPOINT, DEVICE, FEATURE, PLATE, values_of, wanted

MAX_COMPARED_CHARACTERS = 1_000
"""Of a value; a longer one is none that a device reads, and counts as not read."""
_KEPT_PROGRAMS = 1_024  # regular expressions in force are fewer


class LeafPredicate(Protocol):
    """What a leaf asks."""

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """Of a record; None where what it asks about was not read."""


class ValuePredicate:
    """Of a value: each that a doubtful plate may be is tried, and one is enough."""

    def __init__(self, leaf: Leaf, attribute: str) -> None:
        self._leaf, self._attribute = leaf, attribute
        self._accepts: Callable[[str], bool] | None = None

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        form = attributes.get(self._attribute, "")
        if not form or len(form) > MAX_COMPARED_CHARACTERS:
            return None
        values = values_of(self._attribute, form)
        if not values:  # a plate of which a character was not read
            return None
        if self._accepts is None:
            self._accepts = _acceptance(self._leaf)
        return any(map(self._accepts, values))

    def __reduce__(self) -> tuple[type[ValuePredicate], tuple[Leaf, str]]:
        """Without the program of RE2, which no pickle holds: it is made where it is first asked."""
        return ValuePredicate, (self._leaf, self._attribute)


class RangePredicate:
    """Of a number; a value that is none was not read as one."""

    def __init__(self, leaf: NumericRange) -> None:
        self._leaf = leaf

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        leaf, form = self._leaf, attributes.get(self._leaf.attribute, "")
        number = number_of(form) if len(form) <= MAX_COMPARED_CHARACTERS else None
        if number is None:
            return None
        return (
            (leaf.at_least is None or number >= leaf.at_least)
            and (leaf.above is None or number > leaf.above)
            and (leaf.at_most is None or number <= leaf.at_most)
            and (leaf.below is None or number < leaf.below)
        )


class ResemblancePredicate:
    """Of a plate, also of one that was read in part: what was not read has its price, too."""

    def __init__(self, leaf: Resemblance, confusion: ConfusionTable) -> None:
        self._plates = resembled(leaf, confusion)

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        return self._plates.is_met(attributes) if attributes.get(PLATE) else None


class ListPredicate:
    """Whether a plate is on a list; of one that is not in force there is no answer."""

    def __init__(self, found: PlateList | None) -> None:
        self._list = found

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        if self._list is None:
            return None
        if self._list.find_read(attributes) is not None:
            return True
        return False if values_of(PLATE, attributes.get(PLATE, "")) else None


class GalleryPredicate:
    """Whether a feature resembles a face of a gallery; of one that is not in force, and of a
    feature of another model, there is no answer."""

    def __init__(self, found: FaceGallery | None, threshold: float | None) -> None:
        self._gallery, self._threshold = found, threshold

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        gallery = self._gallery
        if gallery is None or not gallery.compares(attributes):
            return None
        return gallery.is_hit(gallery.find(attributes), self._threshold)


class PlacePredicate:
    """Where it was made, by its checkpoint or its device."""

    def __init__(self, found: PlaceSets) -> None:
        self._sets = found

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        return self._sets.has(attributes.get(CHECKPOINT, ""), attributes.get(DEVICE, ""))


class HeadingPredicate:
    """Where it travels to, by the record or by its lane."""

    def __init__(self, leaf: TravelHeading, lanes: LaneHeadings) -> None:
        self._headings, self._lanes = frozenset(leaf.headings), lanes

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        heading = self._lanes.of(attributes)
        return None if heading is None else heading in self._headings


class WayPredicate:
    """Where it was made, and where it travels to from there."""

    def __init__(self, found: WaySets) -> None:
        self._sets = found

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        return self._sets.has(attributes)


class PresencePredicate:
    """Whether anything was read; of this there is always an answer."""

    def __init__(self, leaf: Presence) -> None:
        self._attribute = leaf.attribute

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        return bool(attributes.get(self._attribute))


class WindowPredicate:
    """Of the times of capture and of arrival, as with the validity of a rule: either may lie
    within."""

    def __init__(self, leaf: TimeWindow) -> None:
        self._leaf = leaf

    def holds(self, attributes: Mapping[str, str], times_ms: Sequence[int]) -> bool | None:
        """See `LeafPredicate.holds`."""
        if not times_ms:
            return None
        return any(is_within(self._leaf, time_ms) for time_ms in times_ms)


def predicate_of(leaf: Leaf, references: References = NO_REFERENCES) -> LeafPredicate:
    """What judges it."""
    match leaf:
        case OnList(attribute=name, list_id=list_id) if name == FEATURE:
            return GalleryPredicate(references.galleries.get(list_id), leaf.threshold)
        case OnList():
            return ListPredicate(references.lists.get(leaf.list_id))
        case AtPlace() | InArea():
            return PlacePredicate(references.places.find(leaf))
        case TravelHeading():
            return HeadingPredicate(leaf, references.places.lanes)
        case AlongRoad():
            return WayPredicate(references.places.find_way(leaf))
        case NumericRange():
            return RangePredicate(leaf)
        case Resemblance():
            return ResemblancePredicate(leaf, references.confusion)
        case Presence():
            return PresencePredicate(leaf)
        case TimeWindow():
            return WindowPredicate(leaf)
        case OneOf() | Wildcard() | Substring() | RegularExpression():
            return ValuePredicate(leaf, leaf.attribute)


def _acceptance(leaf: Leaf) -> Callable[[str], bool]:
    match leaf:
        case OneOf(attribute=name, values=values):
            return frozenset(filter(None, (wanted(name, one) for one in values))).__contains__
        case Wildcard(attribute=name, pattern=pattern):
            return PlatePattern(wildcard_form(name, pattern)).is_met_by
        case Substring(attribute=name, text=text):
            part = substring_form(name, text)
            return lambda value: part in value
        case RegularExpression(pattern=pattern):
            return _program(pattern)
    raise TypeError(f"{type(leaf).__name__} asks of no value")


_program = lru_cache(maxsize=_KEPT_PROGRAMS)(compiled)
"""One per pattern and process: several rules and each broadcast of them share it."""
