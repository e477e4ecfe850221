"""A rule's tree in the words of the page (pure): what an operator reads to see that he was
understood."""

from __future__ import annotations

from collections.abc import Iterable

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
from bus.contracts.travel_headings import Heading
from bus.domain.expressions.leaf_text import number_text
from bus.domain.expressions.to_text import corners_text
from bus.domain.rule_values import FEATURE
from monitor.i18n import Texts
from monitor.i18n.values import device_values

Line = tuple[int, str]
"""How deep it stands, and what it says."""


def tree_lines(tree: Expression, t: Texts, depth: int = 0) -> list[Line]:
    """Of a tree that was checked."""
    match tree:
        case Conjunction(parts=parts):
            return [(depth, t("tree.and")), *_below(parts, t, depth)]
        case Disjunction(parts=parts):
            return [(depth, t("tree.or")), *_below(parts, t, depth)]
        case Negation(part=part):
            return [(depth, t("tree.not")), *_below((part,), t, depth)]
    return [(depth, _leaf_words(tree, t))]


def _below(parts: tuple[Expression, ...], t: Texts, depth: int) -> list[Line]:
    return [line for part in parts for line in tree_lines(part, t, depth + 1)]


def _leaf_words(leaf: Leaf, t: Texts) -> str:
    if isinstance(leaf, TimeWindow):
        days = t("list.comma").join(t.word("day", day) for day in leaf.days)
        return t(
            "tree.time", days=days or t("tree.every_day"),
            begin=leaf.begin, end=leaf.end, zone=leaf.zone,
        )  # fmt: skip
    if isinstance(leaf, AtPlace):
        return t("tree.place", kind=t.word("places", leaf.kind), names=" / ".join(leaf.names))
    if isinstance(leaf, InArea):
        return t("tree.area", count=len(leaf.corners), corners=corners_text(leaf.corners[:4]))
    if isinstance(leaf, TravelHeading):
        return t("tree.heading", headings=_heading_words(leaf.headings, t))
    if isinstance(leaf, AlongRoad):
        return t("tree.way", road=leaf.road, begin=leaf.begin, end=leaf.end)
    is_feature = leaf.attribute == FEATURE  # no attribute that pages show
    attribute = t("tree.feature") if is_feature else t.word("attribute", leaf.attribute)
    match leaf:
        case OneOf(values=values):
            words = dict.fromkeys(t.value(leaf.attribute, value) for value in values)
            return t("tree.in", attribute=attribute, values=" / ".join(words))
        case Wildcard(pattern=text):
            return t("tree.like", attribute=attribute, text=text)
        case Substring(text=text):
            return t("tree.contains", attribute=attribute, text=text)
        case RegularExpression(pattern=text):
            return t("tree.regex", attribute=attribute, text=text)
        case Resemblance(plate=text, highest_price=highest):
            price = number_text(highest)
            return t("tree.resembles", attribute=attribute, text=text, price=price)
        case OnList(list_id=list_id, attribute=name, threshold=threshold) if name == FEATURE:
            if threshold is None:
                return t("tree.face", gallery=list_id)
            return t("tree.face_limit", gallery=list_id, threshold=number_text(threshold))
        case OnList(list_id=list_id):
            return t("tree.listed", attribute=attribute, list=list_id)
        case Presence():
            return t("tree.present", attribute=attribute)
        case NumericRange():
            return _range_words(leaf, attribute, t)


def _heading_words(headings: Iterable[Heading], t: Texts) -> str:
    """Directions of travel."""
    return " / ".join(t.word("heading", one) for one in headings)


def _range_words(leaf: NumericRange, attribute: str, t: Texts) -> str:
    ends = (
        ("at_least", leaf.at_least), ("above", leaf.above),
        ("at_most", leaf.at_most), ("below", leaf.below),
    )  # fmt: skip
    words = (t(f"tree.{name}", number=number_text(end)) for name, end in ends if end is not None)
    return t("tree.range", attribute=attribute, ends=t("tree.both").join(words))


def with_device_values(tree: Expression) -> Expression:
    """The same where a value may be typed in either language, as in the form's other fields."""
    match tree:
        case OneOf(attribute=attribute, values=values):
            meant = (one for value in values for one in device_values(value))
            return OneOf(attribute=attribute, values=tuple(dict.fromkeys(meant)))
        case Conjunction(parts=parts) | Disjunction(parts=parts):
            return type(tree)(parts=tuple(map(with_device_values, parts)))
        case Negation(part=part):
            return Negation(part=with_device_values(part))
    return tree
