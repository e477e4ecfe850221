"""Trees that may not be put, from any program."""

from __future__ import annotations

import pytest
from hypothesis import given

from bus.contracts.expressions import (
    Conjunction,
    Disjunction,
    Expression,
    Negation,
    NumericRange,
    OneOf,
    RegularExpression,
    Resemblance,
    Substring,
    TimeWindow,
)
from bus.domain.expressions.check import check_complete, check_expression
from bus.domain.expressions.marked import marked
from bus.domain.expressions.regular import compiled, required_text
from bus.domain.expressions.time_window import is_within
from bus.domain.expressions.tree import (
    MAX_REGULAR_EXPRESSIONS,
    MAX_RESEMBLANCES,
    ExpressionError,
    attributes_of_tree,
)
from bus.domain.rule_values import normal
from tests.bus.domain.expressions.trees import KIND, regular, values

LANE = OneOf(attribute="lane_id", values=("1",))
MISREAD = Resemblance(attribute="plate_number", plate="浙A12345")
PATTERN = RegularExpression(attribute="lane_id", pattern="1.*")


def nested(depth: int) -> Expression:
    """`not` of `not` of …"""
    tree: Expression = LANE
    for _ in range(depth):
        tree = Negation(part=tree)
    return tree


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (Disjunction(parts=(LANE,) * 10_000), "more than 1000 conditions"),
        (nested(10_000), "nested more than 32 deep"),
        (OneOf(attribute="lane_id", values=("1",) * 1_001), "more than 1000 values"),
        (Disjunction(parts=(PATTERN,) * (MAX_REGULAR_EXPRESSIONS + 1)), "more than 20 regular"),
        (Disjunction(parts=(MISREAD,) * (MAX_RESEMBLANCES + 1)), "more than 50 plates"),
        (Resemblance(attribute="lane_id", plate="浙A12345"), "known of plate_number only"),
        (Resemblance(attribute="plate_number", plate="浙A12345", highest_price=float("nan")), "0.5 to 2.0"),
        (Resemblance(attribute="plate_number", plate="浙A12345", highest_price=0.4), "0.5 to 2.0"),
        (Resemblance(attribute="plate_number", plate="1:A12345"), "a whole plate"),
        (Resemblance(attribute="plate_number", plate="浙A1浙345"), "its province in front"),
        (Resemblance(attribute="plate_number", plate=" "), "1 to 100 characters"),
        (Conjunction(parts=()), "at least two parts"),
        (Disjunction(parts=(LANE,)), "at least two parts"),
        (OneOf(attribute="lane_id", values=()), "at least one value"),
        (OneOf(attribute="lane", values=("1",)), "perhaps lane_id"),
        (OneOf(attribute="", values=("1",)), "is no attribute"),
        (OneOf(attribute="captured_at", values=("1",)), "is no attribute"),
        (OneOf(attribute="lane_id", values=("1" * 101,)), "1 to 100 characters"),
        (Substring(attribute="plate_number", text="?·"), "names no character"),
        (RegularExpression(attribute="lane_id", pattern="1" * 201), "at most 200 characters"),
        (RegularExpression(attribute="lane_id", pattern="\ud800"), "no text in UTF-8"),
        (NumericRange(attribute="lane_id"), "a lower end, an upper end or both"),
        (NumericRange(attribute="lane_id", above=1, at_least=1), "once each"),
        (NumericRange(attribute="lane_id", above=1, below=1), "no number lies between 1 and 1"),
        (NumericRange(attribute="lane_id", above=float("nan")), "is a number"),
        (TimeWindow(begin="8:00", end="09:00"), "is written 08:30"),
        (TimeWindow(begin="24:00", end="09:00"), "is written 08:30"),
        (TimeWindow(begin="09:00", end="09:00"), "the window is empty"),
        (TimeWindow(days=("mon", "mon")), "once"),
        (TimeWindow(zone="../etc/passwd"), "no time zone"),
        (TimeWindow(zone="\x00"), "no time zone"),
    ],
)  # fmt: skip
def test_a_tree_that_cannot_be_meant_is_refused_and_says_what_to_do(
    tree: Expression, words: str
) -> None:
    with pytest.raises(ExpressionError) as caught:
        check_expression(KIND, tree)
    assert words in str(caught.value)


def test_a_window_in_a_rule_has_a_zone() -> None:
    """A rule is read at both sites."""
    check_complete(KIND, TimeWindow(begin="08:00", zone="UTC"))
    with pytest.raises(ExpressionError, match="needs a zone"):
        check_complete(KIND, Negation(part=TimeWindow(begin="08:00")))


def test_a_catastrophic_pattern_takes_no_time() -> None:
    """Python's `re` takes two to the power of the length."""
    assert not compiled("(a+)+$")("a" * 1_000 + "!")


@given(regular, values)
def test_what_a_pattern_accepts_contains_its_required_text(pattern: str, value: str) -> None:
    form = normal(value)
    try:
        accepts = compiled(pattern)
    except ExpressionError:
        return
    assert not accepts(form) or required_text(pattern) in form


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("浙A[0-9]{2}345", "345"), ("jeep.*", "JEEP"), ("a|b", ""), ("(ab|cd)efg", "EFG"), ("abc?d", "AB"),
        (r"ab\d+cde", "CDE"), (r"ab\Qc", ""), ("abc{0}", "AB"), ("ab+c", "AB"), ("[abc]", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_required_text_is_the_longest_that_is_certain(pattern: str, text: str) -> None:
    assert required_text(pattern) == text


@pytest.mark.parametrize(
    ("window", "moments", "others"),
    [
        (TimeWindow(begin="22:00", end="06:00", days=("mon",), zone="UTC"),
         (1_772_488_800_000, 1_772_517_599_999), (1_772_488_799_999, 1_772_517_600_000, 1_772_402_400_000)),
        (TimeWindow(days=("mon",), zone="UTC"), (1_772_409_600_000,), (1_772_409_599_999, 1_772_496_000_000)),
        (TimeWindow(begin="08:00", end="09:00", zone="Asia/Shanghai"), (1_772_409_600_000,), (3_600_000, -(10**17), 10**17)),
    ],
)  # fmt: skip
def test_a_window_takes_its_beginning_and_not_its_end(
    window: TimeWindow, moments: tuple[int, ...], others: tuple[int, ...]
) -> None:
    """One that passes midnight belongs to the day on which it begins: 2026-03-02 is a Monday."""
    assert [one for one in moments if not is_within(window, one)] == []
    assert [one for one in others if is_within(window, one)] == []


def test_the_attributes_of_a_tree_are_named_once_in_their_order() -> None:
    tree = Conjunction(parts=(Negation(part=PATTERN), OneOf(attribute="direction", values=("a",)), LANE, TimeWindow()))
    assert attributes_of_tree(tree) == ("lane_id", "direction")


def test_the_mark_stands_under_the_character_however_wide_the_others_are() -> None:
    assert marked("车牌 x = 1", 4) == "车牌 x = 1\n     ^"
    assert marked("a\tb\0c", 5) == "a b�c\n    ^"
    assert marked("x" * 100 + "!" + "y" * 100, 101).splitlines()[1] == " " * 36 + "^"
