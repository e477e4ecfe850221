"""A form of condition that nothing but its own class knows: here a regular expression."""

from __future__ import annotations

import json
import pickle
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pytest

from alarm.rules import compile_rules, condition, ruleset, verdict
from alarm.rules.condition import RuleCondition
from alarm.rules.index_cells import IndexCells
from alarm.rules.matcher import Matcher, Rule
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.rule_values import values_of
from spark_apps.apps.watchlist import candidates
from spark_apps.batches.message import StreamMessage

ZONE = "Asia/Shanghai"
SIGN = "~"


@dataclass(frozen=True, slots=True)
class Expression:
    """What any plate of a record is matched by whole."""

    name: str
    pattern: re.Pattern[str]

    @property
    def attributes(self) -> tuple[str, ...]:
        return (self.name,)

    def index_cells(self) -> tuple[IndexCells, ...]:
        return (IndexCells((), ((),)),)

    def is_met(self, attributes: Mapping[str, str], times_ms: Sequence[int] = ()) -> bool:
        values = values_of(self.name, attributes.get(self.name, ""))
        return any(self.pattern.fullmatch(value) for value in values)


def with_expressions(
    command: WatchCommand, references: References = NO_REFERENCES
) -> RuleCondition:
    """As `condition_of` would be with one more form."""
    for name, values in command.match.items():
        if values and values[0].startswith(SIGN):
            return Expression(name, re.compile(values[0].removeprefix(SIGN)))
    return condition.condition_of(command, references)


def put(rule_id: str, *values: str, name: str = "plate_number") -> WatchCommand:
    return WatchCommand(rule_id=rule_id, op="put", version=1, match={name: list(values)})


def record(plate: str) -> StreamMessage:
    value = {
        "卡口编号": "c1", "抓拍时间": "2026-03-01 10:00:00", "车牌号码": plate, "车辆颜色": "白色",
    }  # fmt: skip
    body = json.dumps(value, ensure_ascii=False).encode()
    return StreamMessage(DATA_VEHICLE, 0, 0, 1_772_330_400_000, body, record_id=f"id-{plate}")


def test_a_regular_expression_becomes_an_alarm_with_no_change_outside_of_the_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From Spark's candidates, with rules that were sent to an executor, to the dispatcher's
    verdict."""
    monkeypatch.setattr(ruleset, "condition_of", with_expressions)
    rules = compile_rules([put("expression", "~浙A12.*"), put("plate", "浙B99999")])
    sent = pickle.loads(pickle.dumps(rules))
    records = [record(plate) for plate in ("浙A12345", "浙B99999", "浙C00000")]
    found = list(candidates(sent, records, ZONE))
    assert [(one.rule_id, one.record_id) for one in found] == [
        ("expression", "id-浙A12345"), ("plate", "id-浙B99999"),
    ]  # fmt: skip
    alarms = [verdict(rules, one, now_ms=1) for one in found]
    assert [alarm.attributes for alarm in alarms if alarm is not None] == [
        {"plate_number": "浙A12345"}, {"plate_number": "浙B99999"},
    ]  # fmt: skip


def test_candidates_of_all_forms_are_those_that_a_look_at_every_rule_finds(
    dice: random.Random,
) -> None:
    """After any history; an index may find too much, and never too little. Also plates that may be
    misread, few or many of them."""
    matcher = Matcher()
    for number in range(600):
        value = f"{SIGN}浙A{dice.randrange(9)}.*" if dice.random() < 0.3 else f"浙A{dice.randrange(30):05d}"
        if dice.random() < 0.4:
            value = f"～浙A{dice.randrange(30):05d}"  # the wide form of the mark of a fuzzy plate
        name = "plate_number" if dice.random() < 0.8 else "vehicle_color"
        command = put(f"r{dice.randrange(120)}", value, name=name)
        if dice.random() < 0.3:
            matcher.drop(command.rule_id)
        else:
            matcher.add(Rule(command, with_expressions(command)))
        attributes = {"plate_number": f"浙A{dice.randrange(30):05d}", "vehicle_color": f"浙A{number % 30:05d}"}
        plain = {r.rule_id for r in matcher.rules.values() if r.matches("vehicle", attributes, ())}
        assert plain <= matcher.candidates("vehicle", attributes)
        assert [rule.rule_id for rule in matcher.match("vehicle", attributes)] == sorted(plain)
        assert matcher.names.get("vehicle", frozenset()) == {
            name for rule in matcher.rules.values() for name in rule.condition.attributes
        }
    assert matcher.compared["vehicle"]
    for rule_id in list(matcher.rules):
        matcher.drop(rule_id)
    assert not matcher.index
    assert not any(matcher.compared.values())


def test_an_alarm_shows_what_its_rule_asks_in_the_order_of_the_rule() -> None:
    """As people have written it."""
    command = msgspec.structs.replace(
        put("r", "浙A12345"), match={"vehicle_color": ["白色"], "plate_number": ["浙A12345"]}
    )
    [found] = candidates(compile_rules([command]), [record("浙A12345")], ZONE)
    alarm = verdict(compile_rules([command]), found, now_ms=1)
    assert alarm is not None
    assert list(alarm.attributes) == ["vehicle_color", "plate_number"]
