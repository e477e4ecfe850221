"""Rules for a part of a plate: what they meet, and that their index finds all of it."""

from __future__ import annotations

import pickle
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.rules import attributes_of, compile_rules
from alarm.rules.condition import AcceptedPlates
from alarm.rules.plate_fragments import fragment_of
from bus.contracts.commands import WatchCommand
from bus.domain.plate_patterns import plate_pattern


def put(rule_id: str, *plates: str, **others: list[str]) -> WatchCommand:
    match = {"plate_number": list(plates)} | others
    return WatchCommand(rule_id=rule_id, op="put", version=1, match=match)


def met(rules: list[WatchCommand], plate: str, **others: str) -> list[str]:
    attributes = attributes_of("vehicle", {"车牌号码": plate}) | others
    return [rule.rule_id for rule in compile_rules(rules).match("vehicle", attributes)]


@pytest.mark.parametrize(
    ("pattern", "meets", "others"),
    [
        ("浙A1?345", ["浙A12345", "浙a·1b345"], ["浙A1345", "浙A123456", "浙B12345"]),
        ("*345", ["浙A12345", "浙A012345", "345"], ["浙A12346", "浙A3450"]),
        ("浙A1*", ["浙A12345", "浙A1"], ["浙A21345"]),
        ("*A12*", ["浙A12345", "A12"], ["浙A21345"]),
        ("浙?1*5", ["浙A12345", "浙B15"], ["浙A12346", "沪A12345"]),
    ],
)
def test_a_part_of_a_plate_meets_the_plates_that_have_it(
    pattern: str, meets: list[str], others: list[str]
) -> None:
    assert [plate for plate in meets if met([put("r", pattern)], plate) != ["r"]] == []
    assert [plate for plate in others if met([put("r", pattern)], plate)] == []


@pytest.mark.parametrize("plate", ["浙A1?345", "浙A1#345", "无车牌", "识别异常", ""])
def test_a_plate_that_was_not_wholly_read_meets_none(plate: str) -> None:
    """Of it nobody knows which vehicle it names."""
    assert met([put("r", "浙A1?345", "浙A*")], plate) == []


def test_plates_in_full_patterns_and_features_stand_in_one_rule() -> None:
    rule = put("r", "沪B00001", "浙A1?345", vehicle_color=["白色"])
    assert met([rule], "浙A12345", vehicle_color="白色") == ["r"]
    assert met([rule], "沪B00001", vehicle_color="白色") == ["r"]
    assert met([rule], "浙A12345", vehicle_color="黑色") == []
    assert met([rule], "浙A12345") == []


def test_a_reading_of_which_a_hyphen_is_doubtful_meets_it_either_way() -> None:
    """It may separate, or stand for a character."""
    assert met([put("r", "浙A1*345")], "浙A1-2345") == ["r"]
    assert met([put("r", "浙A1X*345")], "浙A1-2345") == ["r"]


signs = st.text(alphabet="浙AB12?*", min_size=3, max_size=8)
plates = st.text(alphabet="浙AB12", min_size=1, max_size=8)


@given(st.lists(st.lists(signs, min_size=1, max_size=3), max_size=12), st.lists(plates, max_size=8))
def test_the_index_finds_every_rule_that_a_plate_meets(
    written: list[list[str]], seen: list[str]
) -> None:
    commands = [put(f"r{number}", *texts) for number, texts in enumerate(written)]
    rules = pickle.loads(pickle.dumps(compile_rules(commands)))
    for plate in seen:
        attributes = attributes_of("vehicle", {"车牌号码": plate})
        plain = {one.rule_id for one in rules.rules.values() if one.matches("vehicle", attributes, ())}
        assert plain <= rules.matcher.candidates("vehicle", attributes)
        assert [one.rule_id for one in rules.match("vehicle", attributes)] == sorted(plain)
    for command in commands:
        rules.matcher.drop(command.rule_id)
    assert rules.matcher.index == {}


@given(signs, plates)
def test_a_plate_that_meets_a_pattern_has_its_fragment(text: str, plate: str) -> None:
    pattern = plate_pattern(text)
    if pattern is None or not pattern.is_met_by(plate):
        return
    fragment, value = fragment_of(pattern)
    assert value in fragment.of({"plate_number": plate})


def test_ten_thousand_patterns_of_three_shapes_are_candidates_of_few_records(
    dice: random.Random,
) -> None:
    """By work done: a record meets the patterns that fit it without a look at all the others."""
    commands = []
    for number in range(10_000):
        serial = f"{dice.randrange(100_000):05d}"
        plate = f"浙{dice.choice('ABCDEFGH')}{serial}"
        at = dice.randrange(2, 7)
        shapes = (f"{plate[:at]}?{plate[at + 1:]}", f"{plate[:6]}*", f"*{plate[1:]}")
        commands.append(put(f"r{number}", shapes[number % 3]))
    rules = compile_rules(commands)
    assert all(isinstance(one.condition, AcceptedPlates) for one in rules.rules.values())
    looked_at = [
        len(rules.matcher.candidates("vehicle", {"plate_number": f"浙A{dice.randrange(100_000):05d}"}))
        for _ in range(300)
    ]
    assert sum(looked_at) / len(looked_at) < 5
    assert len(rules.matcher.index["vehicle"]) <= 7
