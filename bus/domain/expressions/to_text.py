"""A tree as people write it; `parse` reads it back to the same tree. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bus.contracts.expressions import (
    USUAL_HIGHEST_PRICE,
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
from bus.domain.expressions.leaf_text import number_text

_is_word = re.compile(r"[\w.·/-]+").fullmatch
_BEFORE = {"district": "in", "road": "on", "checkpoint": "at", "device": "at"}
_WHOLE_DAY = ("00:00", "24:00")


def to_text(tree: Expression, zone: str = "") -> str:
    """Of a tree that was checked. `zone`: of the site, which is then not written."""
    if isinstance(tree, Conjunction | Disjunction):
        word = " and " if isinstance(tree, Conjunction) else " or "
        return word.join(_part(part, type(tree), zone) for part in tree.parts)
    if isinstance(tree, Negation):
        if isinstance(tree.part, Presence):
            return f"{tree.part.attribute} is absent"
        return f"not {_part(tree.part, Negation, zone)}"
    return _leaf_text(tree, zone)


def _part(part: Expression, above: type[Expression], zone: str) -> str:
    """In brackets where it would be read otherwise."""
    text = to_text(part, zone)
    is_group = isinstance(part, Conjunction | Disjunction)
    if not is_group or (above is Disjunction and isinstance(part, Conjunction)):
        return text
    return f"({text})"


def _leaf_text(leaf: Leaf, zone: str) -> str:
    match leaf:
        case OneOf(attribute=name, values=(value,)):
            return f"{name} = {_value(value)}"
        case OneOf(attribute=name, values=values):
            return f"{name} in ({', '.join(map(_value, values))})"
        case Wildcard(attribute=name, pattern=pattern):
            return f"{name} like {quoted(pattern)}"
        case Substring(attribute=name, text=text):
            return f"{name} contains {quoted(text)}"
        case RegularExpression(attribute=name, pattern=pattern):
            return f"{name} matches {quoted(pattern)}"
        case Resemblance(attribute=name, plate=plate, highest_price=highest):
            limit = "" if highest == USUAL_HIGHEST_PRICE else f" up to {number_text(highest)}"
            return f"{name} resembles {quoted(plate)}{limit}"
        case OnList(attribute=name, list_id=list_id, threshold=threshold):
            limit = "" if threshold is None else f" threshold {number_text(threshold)}"
            return f"{name} on {_value(list_id)}{limit}"
        case Presence(attribute=name):
            return f"{name} is present"
        case NumericRange():
            return f"{leaf.attribute} {_range(leaf)}"
        case AtPlace(kind=kind, names=names):
            words = ", ".join(map(_value, names))
            return f"{_BEFORE[kind]} {kind} {words if len(names) == 1 else f'({words})'}"
        case TravelHeading(headings=headings):
            words = ", ".join(headings)
            return f"heading {words if len(headings) == 1 else f'({words})'}"
        case AlongRoad():
            return (
                f"on road {_value(leaf.road)} from {_value(leaf.begin)} to {_value(leaf.end)}"
            )
        case InArea(corners=corners):
            return f"within ({corners_text(corners)})"
        case TimeWindow():
            return _window(leaf, zone)


def corners_text(corners: Iterable[tuple[float, float]]) -> str:
    """Of a polygon, longitude before latitude."""
    return ", ".join(f"{number_text(east)} {number_text(north)}" for east, north in corners)


def quoted(text: str) -> str:
    """A quotation mark inside is written twice, and nothing else is special."""
    return '"' + text.replace('"', '""') + '"'


def _value(value: str) -> str:
    return value if _is_word(value) else quoted(value)


def _range(leaf: NumericRange) -> str:
    low = _end(leaf.at_least, "", leaf.above, "above ")
    high = _end(leaf.at_most, "", leaf.below, "below ")
    if low and high:
        return f"between {low} and {high}"
    return _end(leaf.at_least, ">= ", leaf.above, "> ") or _end(
        leaf.at_most, "<= ", leaf.below, "< "
    )


def _end(closed: float | None, sign: str, open_end: float | None, open_sign: str) -> str:
    if closed is not None:
        return f"{sign}{number_text(closed)}"
    return "" if open_end is None else f"{open_sign}{number_text(open_end)}"


def _window(window: TimeWindow, zone: str) -> str:
    words = ["during"]
    if window.days:
        words.append(", ".join(window.days))
    if not window.days or (window.begin, window.end) != _WHOLE_DAY:
        words.append(f"{window.begin}-{window.end}")
    if window.zone not in ("", zone):
        words.append(f"in {window.zone}")
    return " ".join(words)
