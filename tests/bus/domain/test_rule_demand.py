"""What rules in force cost, and how much of it there may be."""

from __future__ import annotations

import random

import msgspec
import pytest

from alarm.decisions.known_rules import KnownRules
from alarm.watchlist_reader import command_of
from bus.client.model import ConsumedRecord
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.expressions import RegularExpression
from bus.domain.rule_check import RuleError, parsed_where
from bus.domain.rule_demand import (
    MAX_REGULAR_EXPRESSIONS,
    MAX_UNINDEXED_RULES,
    RuleDemand,
    check_demand,
    demand_in_force,
    demand_of,
)
from monitor.live.rule_table import decode_command

BARE = "not vehicle_color = 白色"
PATTERN = 'plate_number matches "浙A12.*"'


def put(text: str, rule_id: str = "r", version: int = 1, **match: list[str]) -> WatchCommand:
    where = parsed_where("vehicle", text, "Asia/Shanghai")
    return WatchCommand(rule_id=rule_id, op="put", version=version, match=match, where=where)


@pytest.mark.parametrize(
    ("command", "demand"),
    [
        (put(BARE), (1, 0)), (put(PATTERN), (0, 1)), (put(f"{BARE} or {PATTERN}"), (1, 1)),
        (put(f"{BARE} and {PATTERN} and {PATTERN}"), (0, 2)), (put(BARE, plate_number=["浙A12345"]), (0, 0)),
        (put("", plate_number=["浙A12345"]), (0, 0)),
        (put('plate_number resembles "浙A12345"'), (0, 0)),
        (put('not plate_number resembles "浙A12345" and not plate_number resembles "浙B12345"'), (3, 0)),
        (WatchCommand(rule_id="r", op="remove", version=1, where=put(BARE).where), (0, 0)),
        (WatchCommand(rule_id="r", op="put", version=1, where=RegularExpression(attribute="x", pattern="(")), (0, 0)),
    ],
)  # fmt: skip
def test_what_a_rule_costs(command: WatchCommand, demand: tuple[int, int]) -> None:
    """A value that is asked for beside it makes a bare `not` cheap."""
    assert demand_of(command) == demand


def test_so_many_regular_expressions_and_no_more() -> None:
    others = RuleDemand(patterns=MAX_REGULAR_EXPRESSIONS - 1)
    check_demand(put(PATTERN), others)
    check_demand(put(BARE), RuleDemand(MAX_UNINDEXED_RULES - 1, MAX_REGULAR_EXPRESSIONS))
    with pytest.raises(RuleError, match="write like or contains") as caught:
        check_demand(put(f"{PATTERN} or {PATTERN}"), others)
    assert (caught.value.field, caught.value.code) == ("where", "regular_expressions")


def test_who_decides_knows_what_all_other_rules_cost(dice: random.Random) -> None:
    """After any history, the same as counting."""
    known, texts = KnownRules(), (BARE, PATTERN, f"{BARE} or {PATTERN}", "lane_id = 1")
    newest: dict[str, WatchCommand] = {}
    for version in range(1, 300):
        command = put(dice.choice(texts), f"r{dice.randrange(9)}", version)
        if dice.random() < 0.2:
            command = WatchCommand(rule_id=command.rule_id, op="remove", version=version)
        elif dice.random() < 0.05:
            command = WatchCommand(rule_id="floor", op="floor", version=version - 20)
        known.on_decided(msgspec.convert(command, DecidedRule, from_attributes=True))
        if known.get(command.rule_id).version == version:
            newest[command.rule_id] = command
        others = [one for rule_id, one in newest.items() if rule_id != "r1"]
        assert known.demand_beside("r1", 0) == demand_in_force(others)
        assert known.demand_beside("none", 0) == demand_in_force(newest.values())


def test_a_tree_too_deep_to_be_handed_on_is_no_command() -> None:
    """Whatever program wrote it: executors are sent the rules."""
    deep = b'{"type":"not","part":' * 60 + b'{"type":"in","attribute":"lane_id","values":["1"]}' + b"}" * 60
    value = b'{"rule_id":"r","op":"put","version":1,"where":' + deep + b"}"
    record = ConsumedRecord("t", 0, 0, 0, b"r", value, ())
    assert command_of(record) is None
    assert decode_command(value) is None
