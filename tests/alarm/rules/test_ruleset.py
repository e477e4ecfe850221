"""A record meets exactly the rules it should, however many there are and however they came."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from alarm.rules import RuleSet, attributes_of, compile_rules
from alarm.rules.matcher import Matcher, Rule
from alarm.rules.ruleset import rule_of
from bus.contracts.commands import WatchCommand

COLORS = ["白色", "黑色", "红色", "蓝色"]
BRANDS = ["Jeep", "大众", "奥迪", "丰田", "本田"]
TYPES = ["SUV", "轿车", "货车"]


def put(rule_id: str, version: int = 1, **match: list[str]) -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="put", version=version, match=match)


def gone(rule_id: str, version: int = 1) -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="remove", version=version)


def ids(rules: list[Rule]) -> list[str]:
    return [rule.rule_id for rule in rules]


def test_a_plate_rule_meets_its_plate_in_any_spelling() -> None:
    """Rule and record are normalised to one form."""
    rules = compile_rules([put("r", plate_number=["浙 awl999"])])
    assert ids(rules.match("vehicle", {"plate_number": "浙AWL999"})) == ["r"]
    assert rules.match("vehicle", {"plate_number": "浙AWL998"}) == []


def test_all_features_must_hold_and_any_value_of_each() -> None:
    """A conjunction of alternatives (A-3)."""
    rules = compile_rules([put("r", vehicle_color=["白色", "黑色"], vehicle_brand=["Jeep"])])
    assert ids(rules.match("vehicle", {"vehicle_color": "黑色", "vehicle_brand": "JEEP"})) == ["r"]
    assert rules.match("vehicle", {"vehicle_color": "红色", "vehicle_brand": "JEEP"}) == []
    assert rules.match("vehicle", {"vehicle_color": "黑色"}) == []


def test_a_rule_for_faces_meets_no_vehicle() -> None:
    """Kinds do not mix."""
    face = WatchCommand(rule_id="f", op="put", version=1, kind="face", match={"gender": ["男"]})
    rules = compile_rules([face])
    assert rules.match("vehicle", {"gender": "男"}) == []
    assert ids(rules.match("face", {"gender": "男"})) == ["f"]


@pytest.mark.parametrize("match", [{}, {"plate_number": ["识别异常"]}, {"vehicle_color": []}])
def test_a_rule_that_names_nothing_readable_meets_nothing(match: dict[str, list[str]]) -> None:
    """It must not meet every unreadable plate of the city."""
    rules = compile_rules([put("r", **match)])
    assert rules.match("vehicle", {}) == []
    assert rules.match("vehicle", attributes_of("vehicle", {"车牌号码": "识别异常"})) == []


def test_the_later_version_wins_in_every_order(dice: random.Random) -> None:
    """Commands may arrive in any order and twice; the state is the same."""
    commands = [put("r", v, plate_number=[f"A{v}"]) for v in (1, 3, 5)] + [gone("r", 4)]
    for _ in range(30):
        dice.shuffle(commands)
        rules = compile_rules([*commands, *commands])
        assert ids(rules.match("vehicle", {"plate_number": "A5"})) == ["r"]
        assert rules.match("vehicle", {"plate_number": "A3"}) == []


def test_a_removed_rule_stays_removed_when_an_older_put_comes_late() -> None:
    """Removals are remembered."""
    rules = compile_rules([gone("r", 2), put("r", 1, plate_number=["A1"])])
    assert len(rules) == 0


def test_of_one_version_the_removal_wins() -> None:
    """Two commands of one millisecond end the same in every order."""
    for commands in ([put("r", plate_number=["A1"]), gone("r")],
                     [gone("r"), put("r", plate_number=["A1"])]):  # fmt: skip
        assert len(compile_rules(commands)) == 0


def test_times_bound_a_rule_and_either_time_of_the_record_may_lie_within() -> None:
    """A camera with a wrong clock must not hide a stolen car."""
    command = WatchCommand(rule_id="r", op="put", version=1, match={"plate_number": ["A1"]},
                           valid_from_ms=100, valid_until_ms=200)  # fmt: skip
    rules = compile_rules([command])
    attributes = {"plate_number": "A1"}
    assert [bool(rules.match("vehicle", attributes, (t, 0))) for t in (99, 100, 199, 200)] == [
        False, True, True, False,
    ]  # fmt: skip
    assert rules.match("vehicle", attributes, (5, 150))


def random_command(dice: random.Random, number: int) -> WatchCommand:
    match: dict[str, list[str]] = {}
    if dice.random() < 0.3:
        match["plate_number"] = [f"浙A{dice.randrange(50):05d}"]
    for name, values in (
        ("vehicle_color", COLORS),
        ("vehicle_brand", BRANDS),
        ("vehicle_type", TYPES),
    ):
        if dice.random() < 0.5:
            match[name] = dice.sample(values, dice.randrange(1, 3))
    op = "remove" if dice.random() < 0.2 else "put"
    return WatchCommand(rule_id=f"r{number}", op=op, version=dice.randrange(5), match=match)


def random_record(dice: random.Random) -> dict[str, str]:
    record = {"plate_number": f"浙A{dice.randrange(50):05d}", "vehicle_color": dice.choice(COLORS),
              "vehicle_brand": dice.choice(BRANDS).upper(), "vehicle_type": dice.choice(TYPES)}  # fmt: skip
    return {name: value for name, value in record.items() if dice.random() < 0.9}


def test_the_index_finds_exactly_what_looking_at_every_rule_finds(dice: random.Random) -> None:
    """Property: index and plain search agree, after any history of puts and removals."""
    rules, newest = RuleSet(), dict[str, WatchCommand]()
    for _ in range(400):
        command = random_command(dice, dice.randrange(80))
        if rules.apply(command):
            newest[command.rule_id] = command
        record = random_record(dice)
        plain = [
            command.rule_id
            for _, command in sorted(newest.items())
            if command.op == "put" and rule_of(command).matches("vehicle", record, ())
        ]
        assert ids(rules.match("vehicle", record)) == plain


def test_an_index_that_was_emptied_holds_nothing() -> None:
    """Taking rules off gives their memory back."""
    rules = compile_rules(
        put(f"r{n}", plate_number=[f"A{n}"], vehicle_color=COLORS) for n in range(9)
    )
    for n in range(9):
        rules.apply(gone(f"r{n}", 2))
    assert rules.matcher == Matcher(readers={"vehicle": Counter()}, names={"vehicle": frozenset()})


def test_many_values_of_a_rule_do_not_fill_the_index() -> None:
    """The index has a bounded number of combinations; the whole rule is still checked."""
    many = {f"attribute{n}": [f"v{i}" for i in range(10)] for n in range(6)}
    rules = compile_rules([put("r", **many)])
    assert sum(map(len, rules.matcher.index["vehicle"].values())) <= 64
    assert ids(rules.match("vehicle", {f"attribute{n}": "V3" for n in range(6)})) == ["r"]
    assert rules.match("vehicle", {f"attribute{n}": "V3" for n in range(5)}) == []


@pytest.mark.slow
def test_ten_thousand_rules_cost_a_record_no_more_than_ten(dice: random.Random) -> None:
    """The cost follows the number of different signatures, not of rules."""
    records = [random_record(dice) for _ in range(2000)]

    def cost_s(count: int) -> float:
        rules = compile_rules(put(f"r{n}", plate_number=[f"京B{n:05d}"]) for n in range(count))
        best = float("inf")
        for _ in range(5):
            began = time.process_time()
            for record in records:
                rules.match("vehicle", record)
            best = min(best, time.process_time() - began)
        return best

    assert cost_s(10_000) < 3 * cost_s(10) + 0.01
