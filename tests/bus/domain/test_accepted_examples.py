"""Examples of what a rule's conditions on plates accept."""

from __future__ import annotations

import random

import pytest

from alarm.rules.condition import condition_of
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import OnList
from bus.domain.accepted_examples import accepted_examples, pattern_examples
from bus.domain.expressions.parse import parse
from bus.domain.plate_patterns import PlatePattern, plate_pattern
from bus.domain.rule_values import PLATE, attributes_from


@pytest.mark.parametrize(("text", "examples"), [
    ("*345", ["京A28345", "辽B02345", "浙C30345"]), ("浙A*123", ["浙A28123", "浙A02123", "浙A30123"]),
    ("浙A1??45", ["浙A18545", "浙A12845", "浙A10245"]), ("*Y1234*", ["京AY1234", "辽Y12349", "浙Y12345"]),
    ("浙A12345", ["浙A12345"]),
])  # fmt: skip
def test_a_pattern_is_filled_to_a_plate(text: str, examples: list[str]) -> None:
    pattern = plate_pattern(text)
    assert pattern
    assert pattern_examples(pattern) == examples


def test_each_example_meets_its_pattern_whatever_that_is(dice: random.Random) -> None:
    """None that does not, and hardly a pattern without one."""
    without = 0
    for _ in range(2_000):
        text = "".join(dice.choices("浙A1?*", k=dice.randrange(1, 12)))
        pattern = PlatePattern(text)
        found = pattern_examples(pattern)
        assert all(pattern.is_met_by(plate) for plate in found), text
        without += not found
    assert without == 0


def test_of_a_tree_each_condition_on_plates_has_its_own_and_what_it_refuses_has_none() -> None:
    tree = parse(
        "plate_number resembles 浙A8D345 and not plate_number resembles 浙A80345 and plate_number like '*45'"
        " or plate_number contains Y1234 and vehicle_brand like '大*' or plate_number on stolen"
        " or plate_number resembles 浙A8D345",
        "vehicle",
    )  # fmt: skip
    misread, contains, listed = accepted_examples(tree)
    assert "浙A80345" in misread.plates
    assert len(misread.plates) == 5
    assert len(contains.plates) == 3
    assert isinstance(listed.leaf, OnList)
    assert any({"0", "D"} <= set(group) for group in listed.plates)


@pytest.mark.parametrize("where", [
    "plate_number resembles 浙A8D345 up to 0.6", "plate_number like '浙?1*5'", "plate_number contains 8D3",
])  # fmt: skip
def test_an_example_raises_the_alarm_of_the_rule(where: str) -> None:
    """As the matcher judges a record of it."""
    tree = parse(where, "vehicle")
    condition = condition_of(WatchCommand(rule_id="r", op="put", version=1, where=tree))
    (one,) = accepted_examples(tree)
    for plate in one.plates:
        assert condition.is_met(attributes_from([(PLATE, plate)]), (1,)), plate
