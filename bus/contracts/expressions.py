"""What a rule asks of a record, as one tree: the field `where` of a `WatchCommand`.

In/out: frozen structs, JSON with a `type` per node. Never: whether a record meets one
(`alarm.rules`), what may be written (`bus.domain.expressions`).

A new form of leaf is a struct here, with its `tag`, and a member of `Leaf`.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from bus.contracts.travel_headings import Heading

USUAL_HIGHEST_PRICE = 1.0
"""Of a misreading: one edit of any kind, or two that are often seen."""

Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class _Node(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"
):
    """Of the tree."""


class Conjunction(_Node, frozen=True, tag="and"):
    """All of the parts hold."""

    parts: tuple[Expression, ...]


class Disjunction(_Node, frozen=True, tag="or"):
    """At least one of the parts holds."""

    parts: tuple[Expression, ...]


class Negation(_Node, frozen=True, tag="not"):
    """The part does not hold. Of a value that was not read neither it nor its negation holds."""

    part: Expression


class OneOf(_Node, frozen=True, tag="in"):
    """The attribute has one of these values, in comparable form."""

    attribute: str
    values: tuple[str, ...]


class Wildcard(_Node, frozen=True, tag="like"):
    """The whole value is like the pattern: `?` is one character, `*` any run of them."""

    attribute: str
    pattern: str


class Substring(_Node, frozen=True, tag="contains"):
    """The text stands somewhere in the value."""

    attribute: str
    text: str


class RegularExpression(_Node, frozen=True, tag="regex"):
    """The whole value matches the pattern, in the syntax of RE2; case does not matter."""

    attribute: str
    pattern: str


class Resemblance(_Node, frozen=True, tag="resembles"):
    """What was read is this plate, or a misreading of it that costs `highest_price` at most. The
    attribute is that of plates."""

    attribute: str
    plate: str
    highest_price: float = USUAL_HIGHEST_PRICE


class OnList(_Node, frozen=True, tag="listed"):
    """The plate is on the list of this id, as it is in force when a record is judged, with the
    list's own tolerance. Of the attribute of faces: the feature resembles a face of the gallery of
    this id, by the gallery's threshold or this one (`FeatureModel.threshold`). Of a list that is
    not in force, and of a feature of another model than the gallery's, neither the leaf nor its
    negation holds."""

    attribute: str
    list_id: str
    threshold: float | None = None


PlaceKind = Literal["district", "road", "checkpoint", "device"]
"""What of the register a rule may name."""


class AtPlace(_Node, frozen=True, tag="place"):
    """The record was made at one of these, as the register has them when it is judged: districts
    and checkpoints by id or name, roads by name, devices by address. Of a record whose place the
    register does not know, and of a name that it does not have, neither the leaf nor its negation
    holds."""

    kind: PlaceKind
    names: tuple[str, ...]


class InArea(_Node, frozen=True, tag="area"):
    """The record was made within a polygon: its checkpoint lies there, or, of a device with an area
    of its own, that area overlaps it. `corners`: [longitude, latitude] in degrees (WGS 84), the
    last one joined to the first. Of a record whose place is not known as with `place`."""

    corners: tuple[tuple[float, float], ...]


class TravelHeading(_Node, frozen=True, tag="heading"):
    """The vehicle travels in one of these directions: as the record says, in words or by the code
    of GA/T 1400, else as the register has it of the device's lane. Where neither is known neither
    the leaf nor its negation holds."""

    headings: tuple[Heading, ...]


class AlongRoad(_Node, frozen=True, tag="way"):
    """The record was made at a checkpoint of a road between two of its checkpoints, both of them
    included, and the vehicle travels from the first to the second, along the directed pieces of the
    road as the register has them when it is judged. Road and checkpoints by id or name; of what is
    not known as with `place` and `heading`."""

    road: str
    begin: str
    end: str


class NumericRange(_Node, frozen=True, tag="range"):
    """The value is a number within. `at_least` and `at_most` belong to the range, `above` and
    `below` do not; an end that is left out is open."""

    attribute: str
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None


class Presence(_Node, frozen=True, tag="present"):
    """The attribute was read, whatever its value."""

    attribute: str


class TimeWindow(_Node, frozen=True, tag="time"):
    """A time of the record, of capture or of arrival, lies in the window, on one of these days; on
    any day where none is named. `begin` belongs to it, `end` does not; one that passes midnight
    belongs to the day on which it begins. `zone`: an IANA name."""

    days: tuple[Weekday, ...] = ()
    begin: str = "00:00"
    end: str = "24:00"
    zone: str = ""


Leaf: TypeAlias = (
    OneOf
    | Wildcard
    | Substring
    | RegularExpression
    | Resemblance
    | OnList
    | AtPlace
    | InArea
    | TravelHeading
    | AlongRoad
    | NumericRange
    | Presence
    | TimeWindow
)
Expression: TypeAlias = Conjunction | Disjunction | Negation | Leaf
