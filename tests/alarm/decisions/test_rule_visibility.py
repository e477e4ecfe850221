"""Rules that some units see: whom the decider lets put, change and settle them, and what it says of what is
hidden from who asks."""

from __future__ import annotations

import msgspec
import pytest

from alarm.decisions.rule_states import ACTIONS, RuleState
from bus.contracts.command_codes import (
    EMERGENCY_RENEWED,
    HIDDEN_PROPOSAL,
    ID_NOT_FREE,
    NO_PROPOSAL,
    NO_SUCH_RULE,
    NOT_VISIBLE,
    STALE,
)
from bus.contracts.commands import CommandAnswer, DecidedRule
from bus.contracts.proposals import EmergencyTarget, beside_rules
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.domain.visibility import EVERY_UNIT
from tests.alarm.decisions.proposal_world import NOW_MS, ProposalWorld

NORTH = {"unit": "north", "visible_to": ["north"]}


def hidden(state: RuleState) -> ProposalWorld:
    """Rule `r`, which the unit north alone sees."""
    world = ProposalWorld(PolicySettings())
    if state is not RuleState.ABSENT:
        assert world.ask("put", 1, **NORTH).state == "proposed"
    if state in (RuleState.IN_FORCE, RuleState.CHANGING, RuleState.ENDED):
        assert world.ask("approve", 2, unit="north").state == "accepted"
    if state is RuleState.CHANGING:
        assert world.ask("put", 3, name="changed", **NORTH).state == "proposed"
    if state is RuleState.ENDED:
        assert world.ask("remove", 4, unit="north").state == "accepted"
    return world


def said(answer: CommandAnswer) -> tuple[object, ...]:
    """Everything but which request it answers."""
    return msgspec.structs.astuple(
        msgspec.structs.replace(answer, command_id="", offset=0)
    )


@pytest.mark.parametrize("unit", ["", "south"])
@pytest.mark.parametrize("state", [one for one in RuleState if one is not RuleState.ABSENT])
@pytest.mark.parametrize("action", [one for one in ACTIONS if one != "floor"])
def test_of_a_hidden_rule_nothing_is_changed_and_it_answers_as_one_that_is_not_there(
    action: str, state: RuleState, unit: str
) -> None:
    """But for its id, which is not free: `put` cannot say that it is."""
    op = "put" if action in ("put", "propose", "emergency") else action
    fields = {"emergency_hours": 2} if action == "emergency" else {}
    world, empty = hidden(state), ProposalWorld(NO_POLICY if action == "put" else PolicySettings())
    if action == "put":
        world.policy, world.machine = NO_POLICY, empty.machine
    before = len(world.records)
    asked: dict[str, object] = {"unit": unit, "account": "zhao", "text_sha256": "0" * 64, **fields}
    answer = world.ask(op, 9, **asked)
    assert (answer.state, len(world.records)) == ("refused", before)
    if op == "put":
        assert answer.code == ID_NOT_FREE
        assert (answer.text.count("li"), answer.changed_by) == (0, "")
    else:
        assert said(answer) == said(empty.ask(op, 9, **asked))
        assert answer.code in (NO_SUCH_RULE, NO_PROPOSAL)


def test_a_stale_request_does_not_say_who_has_changed_a_hidden_rule() -> None:
    world, empty = hidden(RuleState.IN_FORCE), ProposalWorld()
    answer = world.ask("remove", 9, unit="south", seen_version=5)
    assert answer.code == STALE
    assert said(answer) == said(empty.ask("remove", 9, unit="south", seen_version=5))


@pytest.mark.parametrize("unit", ["", "south", EVERY_UNIT, "north"])
def test_nobody_puts_a_rule_that_he_would_not_see(unit: str) -> None:
    answer = ProposalWorld(NO_POLICY).ask("put", 1, unit=unit, visible_to=["north", "east"])
    if unit in ("north", EVERY_UNIT):
        assert answer.state == "accepted"
    else:
        assert (answer.code, answer.field) == (NOT_VISIBLE, "visible_to")


def test_an_approver_of_the_unit_or_an_administrator_approves_what_the_unit_sees() -> None:
    for unit, code in (("south", NO_PROPOSAL), ("", NO_PROPOSAL), ("north", ""), (EVERY_UNIT, "")):
        assert hidden(RuleState.PROPOSED).ask("approve", 9, unit=unit).code == code


def test_a_rule_in_force_and_its_end_say_who_sees_it() -> None:
    """A program that reads an end need not remember the rule."""
    world = hidden(RuleState.ENDED)
    decided = [
        msgspec.json.decode(one.value or b"", type=DecidedRule)
        for one in world.records if beside_rules(one.value) is None
    ]  # fmt: skip
    assert [(one.op, one.visible_to, one.unit) for one in decided] == [
        ("put", ["north"], ""), ("remove", ["north"], ""),
    ]  # fmt: skip


def test_a_change_that_hides_a_rule_waits_without_being_named_to_others() -> None:
    world = ProposalWorld()
    world.ask("put", 1)
    world.ask("approve", 2)
    assert world.ask("put", 3, **NORTH).state == "proposed"
    assert world.ask("put", 4, unit="south", account="wang").code == HIDDEN_PROPOSAL
    assert world.ask("reject", 5, unit="south", account="wang").code == NO_PROPOSAL
    assert world.in_force() == {"r": "n"}
    assert world.ask("remove", 6, unit="south", account="wang").state == "accepted"


def test_an_emergency_that_is_hidden_does_not_say_that_somebody_is_looked_for() -> None:
    """Whoever sees it has no other one for the target; to others it is as if there were none."""
    world = ProposalWorld(PolicySettings())
    assert world.ask("put", 1, rule_id="a", emergency_hours=2, **NORTH).state == "accepted"
    other = world.ask("put", 2, rule_id="b", emergency_hours=2, unit="south", visible_to=["south"])
    assert other.state == "accepted"
    for offset, unit in enumerate(("north", "south", EVERY_UNIT), start=3):
        again = world.ask("put", offset, rule_id=f"c{offset}", emergency_hours=2, unit=unit)
        assert again.code == EMERGENCY_RENEWED
    assert world.ask("put", 20, rule_id="d", emergency_hours=2, unit="east").state == "accepted"
    restarted = world.restarted()
    assert restarted.ask("put", 21, rule_id="e", emergency_hours=2, **NORTH).code == EMERGENCY_RENEWED
    keys = {one.key for one in world.records if isinstance(beside_rules(one.value), EmergencyTarget)}
    assert len(keys) == 3, "one is not compacted away by that of another unit"


@pytest.mark.parametrize(
    ("units", "code"),
    [
        (["a", "a"], "unit_count"), ([str(n) for n in range(21)], "unit_count"), ([""], "unit_name"),
        (["*"], "unit_name"), (["a|b"], "unit_name"), (["a,b"], "unit_name"), (["x" * 41], "unit_name"),
        ([" a"], "unit_name"), (["a\x00"], "unit_name"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_units_is_refused(units: list[str], code: str) -> None:
    answer = ProposalWorld(NO_POLICY).ask("put", 1, NOW_MS, unit=EVERY_UNIT, visible_to=units)
    assert (answer.code, answer.field) == (code, "visible_to")


def test_a_request_of_a_program_that_knows_no_units_puts_what_everybody_sees() -> None:
    world = ProposalWorld(NO_POLICY)
    assert world.ask("put", 1).state == "accepted"
    assert world.ask("put", 2, name="m").state == "accepted"
    assert world.in_force() == {"r": "m"}
