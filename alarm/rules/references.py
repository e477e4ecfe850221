"""What rules refer to and that does not stand in them. Picklable: Spark sends it to executors.

In: what is in force of it. Out: what a leaf needs. Never: how it is read from the bus. A leaf that
refers to something that is not there is met by no record, and so is its negation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from alarm.rules.face_gallery import FaceGallery
from alarm.rules.plate_lists import PlateList
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Expression,
    InArea,
    OnList,
    Resemblance,
    TravelHeading,
)
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.expressions.tree import nodes_of
from bus.domain.fuzzy_plate import is_fuzzy
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from bus.domain.rule_values import PLATE


class Reference(NamedTuple):
    """To one thing, by its id."""

    what: Literal["list", "places", "confusion"]
    id: str


PLACES = Reference("places", "")
"""To the register: a change of it concerns every rule that names a place."""
CONFUSION = Reference("confusion", "")
"""To the table of misreadings: of every rule whose plates may be misread."""


@dataclass(frozen=True, slots=True)
class References:
    """All that is in force of what rules may refer to."""

    lists: Mapping[str, PlateList] = field(default_factory=dict)
    """By the list's id."""
    places: RegisteredPlaces = field(default_factory=lambda: NO_PLACES)
    galleries: Mapping[str, FaceGallery] = field(default_factory=dict)
    """By theirs, which no list of plates has."""
    confusion: ConfusionTable = PACKAGED

    def changed_since(self, before: References) -> frozenset[Reference]:
        """What is there now and was not, is not any more, or is otherwise."""
        ids = self._ids() | before._ids()
        changed = {
            Reference("list", one) for one in ids if self.find(one) != before.find(one)
        }
        if self.places != before.places:
            changed.add(PLACES)
        if self.confusion != before.confusion:
            changed.add(CONFUSION)
        return frozenset(changed)

    def find(self, list_id: str) -> PlateList | FaceGallery | None:
        """The list or gallery of this id."""
        found = self.lists.get(list_id)
        return self.galleries.get(list_id) if found is None else found

    def _ids(self) -> set[str]:
        return self.lists.keys() | self.galleries.keys()

    def only(self, named: frozenset[Reference]) -> References:
        """Of all this only what is named: a rule holds what it refers to."""
        if not named:
            return NO_REFERENCES
        ids = [reference.id for reference in named if reference.what == "list"]
        lists = {one: self.lists[one] for one in ids if one in self.lists}
        galleries = {one: self.galleries[one] for one in ids if one in self.galleries}
        places = self.places if PLACES in named else NO_PLACES
        confusion = self.confusion if CONFUSION in named else PACKAGED
        return References(lists, places, galleries, confusion)


NO_REFERENCES = References()


def references_of(tree: Expression | None) -> frozenset[Reference]:
    """All that a tree refers to."""
    if tree is None:
        return frozenset()
    found = set()
    for node, _ in nodes_of(tree):
        if isinstance(node, OnList):
            found.add(Reference("list", node.list_id))
        elif isinstance(node, AtPlace | InArea | TravelHeading | AlongRoad):
            found.add(PLACES)
        elif isinstance(node, Resemblance):
            found.add(CONFUSION)
    return frozenset(found)


def references_of_rule(command: WatchCommand) -> frozenset[Reference]:
    """All that its tree refers to, and what its plates do."""
    found = references_of(command.where)
    return found | {CONFUSION} if any(map(is_fuzzy, command.match.get(PLATE, ()))) else found
