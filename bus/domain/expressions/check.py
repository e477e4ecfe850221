"""Which trees may be put: every leaf can be met by some record, no branch contradicts itself. Pure.

In: a tree, the kind of data. Out: `ExpressionError`, or nothing. Never: another reading of values
than `bus.domain.rule_values`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches
from zoneinfo import ZoneInfo

from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Expression,
    InArea,
    Leaf,
    Negation,
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
from bus.domain.expressions.leaf_text import number_text, substring_form, wildcard_form
from bus.domain.expressions.regular import compiled
from bus.domain.expressions.time_window import minute_of_day
from bus.domain.expressions.tree import ExpressionError, check_size, nodes_of
from bus.domain.fuzzy_plate import LEAST_HIGHEST, MOST_HIGHEST, WHOLE_PLATE, plate_up_to
from bus.domain.kinds import WIRE_KEYS
from bus.domain.matchable import MATCHABLE
from bus.domain.plate_patterns import is_pattern
from bus.domain.plates import ANY_RUN, MAX_PLATE_CHARACTERS, UNREAD
from bus.domain.polygons import polygon_fault
from bus.domain.rule_values import DIRECTION, FEATURE, PLATE, normal, wanted
from bus.domain.travel_headings import HEADINGS

MAX_TEXT_CHARACTERS = 100  # of a value, a part of one, a pattern with ? and *


def check_expression(kind: str, tree: Expression) -> None:
    """Raises `ExpressionError`."""
    check_size(tree)
    for node, _ in nodes_of(tree):
        if isinstance(node, Conjunction | Disjunction):
            if len(node.parts) < 2:
                raise ExpressionError("and, or: at least two parts", "parts")
            if isinstance(node, Conjunction):
                check_contradiction(node)
        elif not isinstance(node, Negation):
            check_leaf(kind, node)


def check_leaf(kind: str, leaf: Leaf) -> None:
    """Raises `ExpressionError`."""
    if isinstance(leaf, TimeWindow):
        _check_window(leaf)
        return
    if isinstance(leaf, AtPlace):
        _check_names(leaf.kind, leaf.names)
        return
    if isinstance(leaf, TravelHeading | AlongRoad):
        check_attribute(kind, DIRECTION)
        _check_travel(leaf)
        return
    if isinstance(leaf, InArea):
        fault = polygon_fault(leaf.corners)
        if fault is not None:
            raise ExpressionError(fault.text, fault.code)
        return
    check_attribute(kind, leaf.attribute)
    if leaf.attribute == FEATURE and not isinstance(leaf, OnList | Presence):
        raise ExpressionError(
            f"a feature is compared with a gallery: write {FEATURE} on …", "feature_on_gallery"
        )
    match leaf:
        case OneOf():
            if not leaf.values:
                raise ExpressionError(f"{leaf.attribute} in: at least one value", "no_value")
            for value in leaf.values:
                _check_value(leaf.attribute, value)
        case Wildcard():
            _check_text(leaf.pattern)
            if not wildcard_form(leaf.attribute, leaf.pattern).strip(ANY_RUN + UNREAD):
                raise ExpressionError(
                    f"{leaf.pattern!r} names no character; to ask whether anything was read, write"
                    f" {leaf.attribute} is present",
                    "names_nothing",
                )
        case Substring():
            _check_text(leaf.text)
            if not substring_form(leaf.attribute, leaf.text):
                raise ExpressionError(
                    f"{leaf.text!r} names no character that values have", "names_nothing"
                )
        case RegularExpression():
            compiled(leaf.pattern)
        case Resemblance():
            _check_resemblance(leaf)
        case OnList():
            _check_list(leaf)
        case NumericRange():
            _check_range(leaf)


def check_attribute(kind: str, attribute: str) -> None:
    """Raises `ExpressionError` for one that no record of this kind has."""
    known = (*MATCHABLE[kind], *((FEATURE,) if FEATURE in WIRE_KEYS[kind] else ()))
    if attribute in known:
        return
    near = get_close_matches(attribute[:MAX_TEXT_CHARACTERS], known, n=1, cutoff=0.5) or [
        name for name in known if attribute and attribute in name.split("_")
    ]
    meant = f"; perhaps {near[0]}" if near else ""
    raise ExpressionError(
        f"{attribute[:MAX_TEXT_CHARACTERS]!a} is no attribute of a {kind} record{meant}."
        f" There are: {', '.join(known)}",
        "no_such_attribute",
    )


def _check_text(text: str) -> None:
    if not text.strip() or len(text) > MAX_TEXT_CHARACTERS:
        raise ExpressionError(f"a value has 1 to {MAX_TEXT_CHARACTERS} characters", "value_length")
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise ExpressionError(f"{text!a} is no text in UTF-8", "no_text")


def _check_value(attribute: str, value: str) -> None:
    _check_text(value)
    if wanted(attribute, value):
        return
    if attribute == PLATE and is_pattern(value):
        raise ExpressionError(
            f"{value!r} names a part of a plate; write {PLATE} like {value!r}", "part_of_plate"
        )
    what = f"plate of 1 to {MAX_PLATE_CHARACTERS} letters and digits" if attribute == PLATE else (
        "value that was read"
    )  # fmt: skip
    raise ExpressionError(f"{value!r} is no {what}: no record would match", "unread")


def _check_resemblance(leaf: Resemblance) -> None:
    if leaf.attribute != PLATE:
        raise ExpressionError(
            f"misreadings are known of {PLATE} only; of {leaf.attribute} write in, like or"
            " contains",
            "plate_only",
        )
    _check_text(leaf.plate)
    if not LEAST_HIGHEST <= leaf.highest_price <= MOST_HIGHEST:
        raise ExpressionError(
            f"the highest price of a misreading is {LEAST_HIGHEST} to {MOST_HIGHEST}, not"
            f" {leaf.highest_price}",
            "highest_price",
        )
    if plate_up_to(leaf.plate, leaf.highest_price) is None:
        raise ExpressionError(
            f"{leaf.plate!r}: write resembles before {WHOLE_PLATE}", "resembled_plate"
        )


def _check_names(kind: str, names: Sequence[str]) -> None:
    if not names:
        raise ExpressionError(f"{kind}: at least one name", "no_value")
    for name in names:
        _check_text(name)
        if not normal(name):
            raise ExpressionError(f"{name!r} names nothing", "names_nothing")


def _check_travel(leaf: TravelHeading | AlongRoad) -> None:
    if isinstance(leaf, AlongRoad):
        _check_names("road", (leaf.road, leaf.begin, leaf.end))
        if normal(leaf.begin) == normal(leaf.end):
            raise ExpressionError(
                f"the way begins and ends at {leaf.begin!r}; write two checkpoints of the road",
                "way_ends",
            )
    elif not leaf.headings:
        raise ExpressionError("heading: at least one direction", "no_value")
    elif len(set(leaf.headings)) != len(leaf.headings):
        raise ExpressionError("each direction once", "heading_twice")


def no_heading(text: str) -> ExpressionError:
    """Of what is no direction of travel."""
    return ExpressionError(
        f"{text[:MAX_TEXT_CHARACTERS]!r} is no direction; write one of {', '.join(HEADINGS)}",
        "no_heading",
    )


def one_road() -> ExpressionError:
    """Of a way along several."""
    return ExpressionError(
        "a way from one checkpoint to another is along one road; write the others with or",
        "one_road",
    )


def _check_list(leaf: OnList) -> None:
    if leaf.attribute not in (PLATE, FEATURE):
        raise ExpressionError(
            f"lists are of plates and faces; write {PLATE} on … or {FEATURE} on …, and of"
            f" {leaf.attribute} in, like or contains",
            "lists_of_plates",
        )
    _check_text(leaf.list_id)
    if leaf.threshold is None:
        return
    if leaf.attribute == PLATE:
        raise ExpressionError(
            "a list of plates has a tolerance of its own; leave the threshold out",
            "plate_threshold",
        )
    if not math.isfinite(leaf.threshold):
        raise ExpressionError("a threshold is a number", "threshold")


def _check_range(leaf: NumericRange) -> None:
    if leaf.attribute == PLATE:
        raise ExpressionError(
            f"{PLATE} is no number; write like, contains or matches", "plate_no_number"
        )
    low = [end for end in (leaf.at_least, leaf.above) if end is not None]
    high = [end for end in (leaf.at_most, leaf.below) if end is not None]
    if not low + high or len(low) > 1 or len(high) > 1:
        raise ExpressionError(
            "a range has a lower end, an upper end or both, once each", "range_ends"
        )
    if not all(map(math.isfinite, low + high)):
        raise ExpressionError(
            "the end of a range is a number; leave out an end that is open", "range_ends"
        )
    is_open = leaf.above is not None or leaf.below is not None
    if low and high and (low[0] > high[0] or (low[0] == high[0] and is_open)):
        raise ExpressionError(
            f"no number lies between {number_text(low[0])} and {number_text(high[0])}",
            "empty_range",
        )


def _check_window(window: TimeWindow) -> None:
    begin, end = minute_of_day(window.begin), minute_of_day(window.end)
    if begin is None or end is None or window.begin == "24:00":
        raise ExpressionError(
            "a time of day is written 08:30; a window ends at 24:00 at most", "no_time_of_day"
        )
    if begin == end:
        raise ExpressionError(
            "the window is empty; leave the times out for the whole day", "empty_window"
        )
    if len(set(window.days)) != len(window.days):
        raise ExpressionError("each day of the week once", "day_twice")
    if window.zone:
        try:
            ZoneInfo(window.zone)
        except (KeyError, ValueError, OSError):
            raise ExpressionError(
                f"there is no time zone {window.zone[:MAX_TEXT_CHARACTERS]!a}; write an IANA name"
                " as Asia/Shanghai, or leave it out for the site's own",
                "no_zone",
            ) from None


def check_contradiction(node: Conjunction) -> None:
    """Of values that are accepted and refused side by side one has to be left. Raises
    `ExpressionError`."""
    for attribute in {part.attribute for part in node.parts if isinstance(part, OneOf)}:
        accepted = [set(_forms(part)) for part in _values_beside(node, attribute)]
        refused = {
            form
            for part in node.parts
            if isinstance(part, Negation) and isinstance(part.part, OneOf)
            and part.part.attribute == attribute
            for form in _forms(part.part)
        }  # fmt: skip
        if not set.intersection(*accepted) - refused:
            raise ExpressionError(
                f"what is asked of {attribute} contradicts itself: no value is left; write or"
                " instead of and, or one list of values",
                "contradiction",
            )
    _check_headings(node)


def _check_headings(node: Conjunction) -> None:
    left = set(HEADINGS)
    for part in node.parts:
        if isinstance(part, TravelHeading):
            left &= set(part.headings)
        elif isinstance(part, Negation) and isinstance(part.part, TravelHeading):
            left -= set(part.part.headings)
    if not left:
        raise ExpressionError(
            "what is asked of the direction contradicts itself: none is left; write or instead of"
            " and, or heading with all that are meant",
            "contradiction",
        )


def _values_beside(node: Conjunction, attribute: str) -> list[OneOf]:
    return [part for part in node.parts if isinstance(part, OneOf) and part.attribute == attribute]


def _forms(leaf: OneOf) -> list[str]:
    return [wanted(leaf.attribute, value) for value in leaf.values]


def check_complete(kind: str, tree: Expression) -> None:
    """As it stands in a rule: raises `ExpressionError` also where a window does not say its zone.
    A rule is read at every site; a text is given the zone of the one where it is written."""
    check_expression(kind, tree)
    for node, _ in nodes_of(tree):
        if isinstance(node, TimeWindow) and not node.zone:
            raise ExpressionError("a window needs a zone, as Asia/Shanghai", "no_zone")
