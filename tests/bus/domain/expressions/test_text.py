"""The text of a rule and its tree: the same thing written twice."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.contracts.expressions import (
    AlongRoad,
    Conjunction,
    Disjunction,
    Expression,
    Negation,
    NumericRange,
    OneOf,
    Presence,
    Resemblance,
    Substring,
    TimeWindow,
    TravelHeading,
    Wildcard,
)
from bus.domain.expressions.grammar import GRAMMAR, WORDS
from bus.domain.expressions.parse import MAX_TEXT_CHARACTERS, parse
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import MAX_DEPTH, ExpressionError, with_zone
from tests.bus.domain.expressions.trees import KIND, ZONE, trees

COLOR = OneOf(attribute="vehicle_color", values=("白色",))
LANE = OneOf(attribute="lane_id", values=("1",))
MANY = 100_000


def fault(text: str) -> tuple[int, str]:
    """The column of the error, and what it says."""
    with pytest.raises(ExpressionError) as caught:
        parse(text, KIND)
    return caught.value.column, str(caught.value)


@given(trees)
def test_a_tree_is_the_same_after_it_was_written_and_read(tree: Expression) -> None:
    """Also with the site's zone left out, and as JSON on the topic."""
    assert parse(to_text(tree), KIND) == tree
    again = with_zone(parse(to_text(tree, ZONE), KIND), ZONE)
    assert again == tree
    assert msgspec.json.decode(msgspec.json.encode(again), type=Expression) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("vehicle_color = 白色", COLOR),
        ("Vehicle_Color IN （“白色”）", COLOR),
        ("vehicle_color != 白色", Negation(part=COLOR)),
        ("vehicle_color not in (白色)", Negation(part=COLOR)),
        ("((vehicle_color = 白色))", COLOR),
        ("vehicle_color = 白色 and lane_id = 1", Conjunction(parts=(COLOR, LANE))),
        ("not vehicle_color = 白色 or lane_id = 1", Disjunction(parts=(Negation(part=COLOR), LANE))),
        (
            "lane_id = 1 or lane_id = 1 and vehicle_color = 白色",
            Disjunction(parts=(LANE, Conjunction(parts=(LANE, COLOR)))),
        ),
        ("vehicle_brand contains \"je\"\"ep\"", Substring(attribute="vehicle_brand", text='je"ep')),
        ("plate_number like 浙A*5", Wildcard(attribute="plate_number", pattern="浙A*5")),
        ("plate_number resembles 浙A12345", Resemblance(attribute="plate_number", plate="浙A12345")),
        (
            "plate_number not resembles 浙A12345 UP TO 0.5",
            Negation(part=Resemblance(attribute="plate_number", plate="浙A12345", highest_price=0.5)),
        ),
        ("speed_kmh > 80.5", NumericRange(attribute="speed_kmh", above=80.5)),
        ("speed_kmh <= 80", NumericRange(attribute="speed_kmh", at_most=80)),
        (
            "speed_kmh between above 80 and 100",
            NumericRange(attribute="speed_kmh", above=80, at_most=100),
        ),
        ("plate_number is absent", Negation(part=Presence(attribute="plate_number"))),
        (
            "during fri-sun, tue 22:00-6:30 in Asia/Shanghai",
            TimeWindow(days=("fri", "sat", "sun", "tue"), begin="22:00", end="06:30", zone=ZONE),
        ),
        ("heading north", TravelHeading(headings=("north",))),
        ("HEADING (由南向北, ne，Westbound)", TravelHeading(headings=("north", "north-east", "west"))),
        ("heading (北, N)", TravelHeading(headings=("north",))),
        ("on road 中山路 from c1 to \"c 2\"", AlongRoad(road="中山路", begin="c1", end="c 2")),
        ("during 08:00-09:00", TimeWindow(begin="08:00", end="09:00")),
    ],
)  # fmt: skip
def test_a_text_is_read_as_it_is_meant(text: str, tree: Expression) -> None:
    """`not` binds more than `and`, that more than `or`; signs of both scripts."""
    assert parse(text, KIND) == tree


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "expected: (, an attribute, at, during, heading, in, not, on, within"),
        ("lane_id = 1 and", 16, "the end is not expected"),
        ("lane_id == 1", 10, "expected: a text in quotation marks, a value"),
        ("lane_id = 1 2", 13, "expected: and, or, the end"),
        ("(lane_id = 1", 13, "the end is not expected here; expected: )"),
        ("lane_id = 1)", 12, "“)” is not expected here; expected: the end"),
        ("lane_id = 1 or colour = 白", 16, "'colour' is no attribute"),
        ("color = 白", 1, "perhaps plate_color"),
        ("speed_kmh > fast", 13, "expected: a number"),
        ("speed_kmh > 1e999", 13, "leave out an end that is open"),
        ("speed_kmh between 5 and 3", 19, "no number lies between 5 and 3"),
        ("plate_number > 5", 16, "is no number"),
        ("vehicle_color in (白, 识别异常)", 22, "is no value that was read"),
        ("plate_number = 浙A*", 16, "write plate_number like"),
        ("plate_number like ***", 19, "names no character"),
        ("lane_id resembles 浙A12345", 19, "of lane_id write in, like or contains"),
        ("plate_number resembles 浙A1?345", 24, "whole plate of at least 6 letters and digits"),
        ("plate_number resembles ~浙A12345", 24, "write resembles before a whole plate"),
        ("plate_number resembles 浙A12345 up to 2.1", 38, "0.5 to 2.0, not 2.1"),
        ("plate_number resembles 浙A12345 up 1", 35, "expected: to"),
        ("plate_number resembles 浙A12345 1", 32, "expected: and, or, the end, up"),
        ("lane_id = 1 up to 1", 13, "expected: and, or, the end"),
        ('vehicle_color = "白', 17, "no closing quotation mark"),
        ("vehicle_brand matches \"(\"", 23, "no regular expression of RE2: missing )"),
        ("vehicle_brand matches \"\\1\"", 23, "invalid escape"),
        ("lane_id = 1 and during 25:00-26:00", 17, "a time of day is written 08:30"),
        ("during mon in Mars/Base", 1, "there is no time zone"),
        ("lane_id = 1 or (lane_id = 1 and lane_id = 2)", 17, "contradicts itself"),
        ("lane_id = 1 and not lane_id in (1, 2)", 1, "contradicts itself"),
        ("lane_id = 1 and in city 杭州", 20, "expected: district"),
        ("at gate 1", 4, "expected: checkpoint, device"),
        ("on road", 8, "expected: (, a text in quotation marks, a value"),
        ("heading up", 9, "'up' is no direction; write one of north, north-east, east"),
        ("heading (north, 4)", 17, "is no direction"),
        ("lane_id = 1 and heading north and not heading (north, east)", 1, "of the direction contradicts itself"),
        ("on road a from b", 17, "expected: to"),
        ("on road (a, b) from c to d", 13, "along one road"),
        ("on road a from b to B", 21, "begins and ends at"),
        ("within (120 30, 121 30)", 1, "3 to 1000 corners, not 2"),
        ("within (120 30, 121 30, 121)", 28, "expected: a number"),
        ("within (120 30, 121 30, 30 121)", 25, "longitude, then latitude"),
        ("within (120 30, 121 30, 121 30, 120 31)", 25, "the same corner twice"),
        ("within (120 30, 121 31, 121 30, 120 31)", 9, "crosses or touches itself"),
        ("lane_id = \x00", 11, "is no value that was read"),
        ("\x00", 1, "not expected here"),
        ("lane_id = \ud800", 11, "no text in UTF-8"),
        ("\ud800 = 1", 1, "not expected here"),
    ],
)  # fmt: skip
def test_an_error_stands_under_the_character_it_concerns(text: str, column: int, words: str) -> None:
    """And says what to do, or what was expected."""
    found = fault(text)
    assert found[0] == column
    assert words in found[1]
    assert found[1].isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_000, "(" * 1_000 + ")" * 1_000, "(" * MANY, "not " * 4_000 + "lane_id = 1",
        " or ".join(["lane_id = 1"] * 1_400), "x" * MANY, "\x00" * MANY, '"' * MANY, "“" * 19_999,
        "lane_id in (" + "1," * 9_000, "lane_id = " + "1" * 19_000, "a" * 19_999 + " = 1",
        'lane_id matches "' + "(a+)+" * 3_000 + '"', "lane_id matches \"((a{100}){100}){100}\"",
        "lane_id between -" + "9" * 10_000, "during " + "mon-sun, " * 2_000,
    ],
)  # fmt: skip
def test_a_monstrous_text_is_refused_soon(text: str) -> None:
    """The bound is wide: a busy machine, not a slow parser, may need it."""
    begin = time.process_time()
    assert 1 <= fault(text)[0] <= MAX_TEXT_CHARACTERS + 1
    assert time.process_time() - begin < 5


def test_a_thousand_brackets_around_a_condition_are_no_depth() -> None:
    """They change nothing."""
    assert parse("(" * 1_000 + "lane_id = 1" + ")" * 1_000, KIND) == LANE


def test_a_tree_may_be_so_deep_and_no_deeper() -> None:
    """The error says how deep."""
    text = "not " * (MAX_DEPTH - 1) + "lane_id = 1"
    assert to_text(parse(text, KIND)) == text
    assert fault(f"not {text}") == (1, f"nested more than {MAX_DEPTH} deep; write it flatter")


SIGNS = (
    *("lane_id", "plate_number", "1", "08:00", '"a"', "浙A*", "-", ",", "(", ")", "=", ">", "<", "，"),
    *('"', "“", "\0", "\ud800", "mon", "and", "or", "not", "in", "like", "contains", "matches", "is"),
    *("present", "absent", "during", "between", "above", "below", "resembles", "up", "to", "浙A12345"),
    *("on", "road", "from", "heading", "north"),
)
words = st.sampled_from(SIGNS)


@given(st.one_of(st.text(max_size=40), st.lists(words, max_size=15).map(" ".join)))
def test_any_text_gives_a_tree_or_an_error_with_a_column(text: str) -> None:
    """And never another exception."""
    try:
        found: Expression | ExpressionError = parse(text, KIND)
    except ExpressionError as error:
        found = error
    if isinstance(found, ExpressionError):
        assert 1 <= found.column <= len(text) + 1
        assert str(found).isprintable()
    else:
        assert parse(to_text(found), KIND) == found


def test_each_sign_of_the_grammar_is_called_by_a_word_that_people_know() -> None:
    """Keywords stand for themselves; every other terminal has a word."""
    lines = (line.split(":") for line in GRAMMAR.splitlines() if line[:1].isupper())
    keywords = {name for name, pattern, *_ in lines if pattern.strip() == f'"{name.lower()}"i'}
    terminals = {line.partition(":")[0] for line in GRAMMAR.splitlines() if line[:1].isupper()}
    assert terminals - keywords - {"WHITESPACE"} == WORDS.keys() - {"$END"}
