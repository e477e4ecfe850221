"""Proposals, approvals and emergency rules: every state and everything that can be asked for."""

from __future__ import annotations

import logging

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions.known_proposals import MAX_WAITING, KnownProposals
from alarm.decisions.known_rules import KnownRules
from alarm.decisions.requests import independent
from alarm.decisions.rule_states import ACTIONS, TRANSITIONS, RuleState
from alarm.watchlist_reader import command_of
from bus.client.model import KeyedValue
from bus.contracts.command_codes import (
    EMERGENCY_HOURS,
    EMERGENCY_RENEWED,
    NO_ACCOUNT,
    NO_CASE,
    NO_PROPOSAL,
    NO_REASON,
    NOT_OWN_PROPOSAL,
    NOT_PRIMARY,
    OTHER_TEXT,
    OWN_PROPOSAL,
    PROPOSAL_WAITS,
    STALE,
    TOO_MANY_PROPOSALS,
)
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import EmergencyTarget, SettledProposal, WatchProposal, beside_rules
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.domain.rule_targets import targets_of, text_sha256
from tests.alarm.decisions.proposal_world import (
    DAY_MS,
    HOUR_MS,
    NOW_MS,
    ProposalWorld,
    in_state,
    on_topic,
)

APPROVAL_ONLY = PolicySettings(requires_reason=False)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("state", RuleState)
def test_every_state_has_an_answer_to_everything_that_can_be_asked(state: RuleState, action: str) -> None:
    """The table is what happens: the next state, or a refusal that records nothing."""
    policy = NO_POLICY if action == "put" else PolicySettings()
    world = in_state(state, policy)
    op = "put" if action in ("propose", "emergency") else action
    fields = {"emergency_hours": 2} if action == "emergency" else {}
    before = len(world.records)
    answer = world.ask(op, 9, **fields)
    following = TRANSITIONS[state, action]
    if isinstance(following, str):
        assert (answer.state, answer.code) == ("refused", following)
        assert len(world.records) == before
        assert world.known.state("r", NOW_MS) is state
    else:
        assert answer.state == ("proposed" if action == "propose" else "accepted")
        assert world.known.state("r", NOW_MS) is following
        assert world.restarted().known.state("r", NOW_MS) is following


@pytest.mark.parametrize("state", RuleState)
def test_only_text_in_force_is_matched_whatever_waits(
    state: RuleState, caplog: pytest.LogCaptureFixture
) -> None:
    """A proposal is none, and readers say nothing about it."""
    with caplog.at_level(logging.WARNING):
        is_in_force = state in (RuleState.IN_FORCE, RuleState.CHANGING)
        assert in_state(state).in_force() == ({"r": "n"} if is_in_force else {})
    assert caplog.messages == []


def test_no_reader_of_rules_takes_what_stands_beside_them_for_one() -> None:
    """Those of an earlier version neither: to them `op` is none that they know."""
    world = in_state(RuleState.CHANGING)
    world.ask("put", 9, rule_id="x", emergency_hours=1, match={"plate_number": ["浙B1"]})
    world.ask("reject", 10, account="zhao")
    beside = [one for one in world.records if beside_rules(one.value) is not None]
    kinds = {type(beside_rules(one.value)) for one in beside}
    assert kinds == {WatchProposal, SettledProposal, EmergencyTarget}
    for one in beside:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(one.value or b"", type=DecidedRule)
        assert b"~" in one.key
        assert command_of(on_topic(one)) is None


def test_a_change_is_in_force_when_it_is_approved_and_the_old_text_until_then() -> None:
    world = in_state(RuleState.CHANGING)
    assert world.in_force() == {"r": "n"}
    assert world.ask("approve", 9, reason="checked").state == "accepted"
    assert world.in_force() == {"r": "changed"}
    [rule] = [msgspec.json.decode(one.value or b"", type=DecidedRule) for one in world.records[-2:-1]]
    assert (rule.account, rule.approved_by, rule.approval_reason) == ("li", "zhao", "checked")
    assert (rule.reason, rule.case, rule.text_sha256) == ("stolen", "K-1", "")


@pytest.mark.parametrize("op", ["remove", "put"])
def test_what_was_approved_never_waits_again_though_its_end_was_lost(op: str) -> None:
    """The decider died between the rule and the end of the proposal; the next decision names it on."""
    world = in_state(RuleState.PROPOSED)
    asked = world.request("approve", 9)
    rule, _ = world.decide(asked).records
    world.record(rule)
    world = world.restarted()
    world.carry_out(asked)
    assert world.known.state("r", NOW_MS) is RuleState.IN_FORCE
    fields = {"emergency_hours": 1, "rule_id": "r"} if op == "put" else {}
    if op == "put":
        world.ask("remove", 10)
    answer = world.ask(op, 11, NOW_MS + 1, **fields)
    assert answer.state == "accepted", answer
    assert world.restarted().known.waiting("r") is None


def test_an_approval_of_another_text_is_refused() -> None:
    """The proposer has changed it since the approver read it."""
    world = in_state(RuleState.PROPOSED)
    read = world.request("approve", 10)
    world.ask("put", 9, name="another")
    answer = world.carry_out(read)
    assert (answer.code, answer.field, world.in_force()) == (OTHER_TEXT, "text_sha256", {})
    assert world.ask("approve", 11, text_sha256="").code == OTHER_TEXT


def test_an_approval_that_saw_another_text_in_force_is_refused() -> None:
    """What is approved is a difference."""
    world = in_state(RuleState.CHANGING)
    assert world.ask("approve", 9, seen_version=1).code == STALE
    seen = world.known.get("r").version
    assert world.ask("approve", 10, seen_version=seen).state == "accepted"


@pytest.mark.parametrize("account", ["li", " LI "])
def test_nobody_approves_what_he_has_proposed(account: str) -> None:
    world = in_state(RuleState.PROPOSED)
    answer = world.ask("approve", 9, account=account)
    assert (answer.code, answer.field, world.in_force()) == (OWN_PROPOSAL, "account", {})


def test_who_changes_what_he_proposed_is_still_its_author_after_a_restart() -> None:
    world = in_state(RuleState.PROPOSED)
    world.ask("put", 9, name="another")
    assert world.restarted().ask("approve", 10, account="li").code == OWN_PROPOSAL


def test_a_proposal_of_somebody_else_is_not_overwritten() -> None:
    """Else its author would approve a text of his own under the other's name."""
    world = in_state(RuleState.PROPOSED)
    answer = world.ask("put", 9, account="zhao", name="another")
    assert (answer.code, "li" in answer.text) == (PROPOSAL_WAITS, True)


def test_a_proposal_is_withdrawn_by_its_author_and_rejected_by_others_with_a_reason() -> None:
    world = in_state(RuleState.CHANGING)
    assert world.ask("withdraw", 9, account="zhao").code == NOT_OWN_PROPOSAL
    assert world.ask("reject", 10, account="zhao", reason=" ").code == NO_REASON
    assert world.ask("reject", 11, account="zhao", text_sha256="f" * 64).code == OTHER_TEXT
    assert world.ask("reject", 12, account="zhao", reason="no case").state == "accepted"
    assert world.ask("approve", 13).code == NO_PROPOSAL
    ended = beside_rules(world.records[-1].value)
    assert isinstance(ended, SettledProposal)
    assert (ended.outcome, ended.decided_by, ended.reason) == ("rejected", "zhao", "no case")
    world.ask("put", 14, name="changed")
    assert world.ask("withdraw", 15, reason="").state == "accepted"


def test_who_approves_has_an_account() -> None:
    world = in_state(RuleState.PROPOSED)
    assert world.ask("approve", 9, account="", author="command line").code == NO_ACCOUNT


@pytest.mark.parametrize(("fields", "code"), [
    ({"reason": " "}, NO_REASON), ({"case": ""}, NO_CASE),
    ({"match": {"vehicle_color": ["白色"]}, "reason": "", "case": ""}, ""),
    ({"match": {}, "where": {"type": "contains", "attribute": "plate_number", "text": "A12"}, "case": ""}, NO_CASE),
    ({"kind": "face", "match": {"district_id": ["1"]}, "reason": ""}, NO_REASON),
])  # fmt: skip
def test_a_rule_that_names_somebody_has_a_reason_and_a_case(fields: dict[str, object], code: str) -> None:
    answer = ProposalWorld().ask("put", 9, **fields)
    assert answer.code == code
    assert not code or answer.field in ("reason", "case")


def test_a_removal_has_a_reason_where_the_site_asks_for_one() -> None:
    assert in_state(RuleState.IN_FORCE).ask("remove", 9, reason="").code == NO_REASON
    assert in_state(RuleState.IN_FORCE, APPROVAL_ONLY).ask("remove", 9, reason="").state == "accepted"


def test_more_proposals_than_a_decider_can_hold_are_refused_and_changed_ones_are_not() -> None:
    world = ProposalWorld()
    waiting = WatchProposal(
        rule_id="", version=NOW_MS, decided_at_ms=NOW_MS, command_id="x",
        text=WatchCommand(rule_id="", op="put", version=1, account="li"),
    )  # fmt: skip
    for number in range(MAX_WAITING):
        world.known.proposals.apply(msgspec.structs.replace(waiting, rule_id=f"p{number}"))
    assert world.ask("put", 9).code == TOO_MANY_PROPOSALS
    assert world.ask("put", 10, rule_id="p7").state == "proposed"
    assert world.ask("withdraw", 11, rule_id="p8").state == "accepted"
    assert world.ask("put", 12).state == "proposed"


def test_an_emergency_rule_is_in_force_at_once_and_ends_by_itself() -> None:
    world = ProposalWorld()
    assert world.ask("put", 9, emergency_hours=3).state == "accepted"
    rule = msgspec.json.decode(world.records[-1].value or b"", type=DecidedRule)
    assert (rule.valid_until_ms, rule.emergency_hours) == (NOW_MS + 3 * HOUR_MS, 3)
    for end_ms, state in ((3 * HOUR_MS - 1, RuleState.IN_FORCE), (3 * HOUR_MS, RuleState.ENDED)):
        assert world.restarted().known.state("r", NOW_MS + end_ms) is state


def test_an_emergency_rule_that_asks_for_less_time_ends_earlier_and_never_later() -> None:
    for asked_ms, end_ms in ((HOUR_MS, HOUR_MS), (9 * HOUR_MS, 2 * HOUR_MS)):
        world = ProposalWorld()
        world.ask("put", 9, emergency_hours=2, valid_until_ms=NOW_MS + asked_ms)
        rule = msgspec.json.decode(world.records[-1].value or b"", type=DecidedRule)
        assert rule.valid_until_ms == NOW_MS + end_ms


@pytest.mark.parametrize(("hours", "most"), [(25, 24), (-1, 24), (73, 72)])
def test_an_emergency_lasts_as_long_as_the_site_allows(hours: int, most: int) -> None:
    world = ProposalWorld(PolicySettings(emergency_hours=most))
    answer = world.ask("put", 9, emergency_hours=hours)
    assert (answer.code, str(most) in answer.text) == (EMERGENCY_HOURS, True)


@pytest.mark.parametrize("policy", [PolicySettings(), NO_POLICY])
@pytest.mark.parametrize("fields", [
    {}, {"rule_id": "other"}, {"rule_id": "other", "match": {"plate_number": ["浙C1", "~浙A12345"]}},
    {"rule_id": "other", "match": {}, "where": {
        "type": "and", "parts": [
            {"type": "in", "attribute": "plate_number", "values": ["浙A12345"]},
            {"type": "in", "attribute": "vehicle_color", "values": ["白色"]}]}},
])  # fmt: skip
def test_an_emergency_is_not_renewed_for_its_target_within_thirty_days_without_approval(
    fields: dict[str, object], policy: PolicySettings
) -> None:
    """Under no other id and with no other condition; also where the rule was removed or approved since."""
    world = ProposalWorld(policy)
    world.ask("put", 1, emergency_hours=1)
    world.ask("remove", 2)
    late = NOW_MS + 30 * DAY_MS - 1
    renewed = world.restarted()
    answer = renewed.ask("put", 9, late, emergency_hours=1, **fields)
    assert (answer.code, answer.field) == (EMERGENCY_RENEWED, "emergency_hours")
    expected = "proposed" if policy.requires_approval else "accepted"
    assert renewed.ask("put", 10, late, **fields).state == expected
    assert world.restarted().ask("put", 11, late + 1, emergency_hours=1, **fields).state == "accepted"


def test_a_proposal_waits_while_its_emergency_is_in_force_and_replaces_it() -> None:
    world = in_state(RuleState.PROPOSED)
    world.ask("put", 9, emergency_hours=1, name="now")
    assert (world.in_force(), world.known.state("r", NOW_MS)) == ({"r": "now"}, RuleState.CHANGING)
    world.ask("approve", 10)
    assert (world.in_force(), world.known.state("r", NOW_MS + DAY_MS)) == ({"r": "n"}, RuleState.IN_FORCE)


def test_who_saw_that_an_emergency_had_ended_may_approve_what_waits() -> None:
    """Nobody is shown its version any more; while it lasts the approver has to have seen it."""
    world = in_state(RuleState.PROPOSED)
    world.ask("put", 9, emergency_hours=1, name="now")
    assert world.ask("approve", 10, NOW_MS + HOUR_MS - 1, seen_version=0).code == STALE
    assert world.ask("approve", 11, NOW_MS + HOUR_MS, seen_version=0).state == "accepted"


def test_emergencies_are_decided_one_after_the_other() -> None:
    """Else two that come at once would both be the first of their target."""
    world = ProposalWorld()
    asked = [world.request("put", number, rule_id=f"r{number}", emergency_hours=1) for number in range(2)]
    assert [len(group) for group in independent(asked, world.machine.names)] == [1, 1]


def test_a_site_whose_data_are_anothers_neither_takes_nor_approves_proposals() -> None:
    world = in_state(RuleState.PROPOSED)
    for op in ("put", "approve", "reject", "withdraw"):
        decision = world.decide(world.request(op, 9), is_primary=False)
        assert decision.answer is not None
        assert (decision.records, decision.answer.code) == ((), NOT_PRIMARY)


def test_the_floor_ends_what_waits_below_it() -> None:
    """The decision that settled it may be gone with what was removed."""
    proposals, world = KnownProposals(), in_state(RuleState.PROPOSED)
    waiting = beside_rules(world.records[0].value)
    assert isinstance(waiting, WatchProposal)
    proposals.apply(waiting)
    proposals.raise_floor(waiting.version)
    assert proposals.get("r").waits is None


def test_a_text_has_one_digest_whoever_asks_for_it_and_each_change_another() -> None:
    first = WatchCommand(rule_id="r", op="put", version=1, name="n", match={"a": ["1"], "b": ["2"]})
    same = WatchCommand(
        rule_id="r", op="put", version=9, name="n", match={"b": ["2"], "a": ["1"]}, account="li", reason="x",
        case="k", seen_version=4, command_id="c", session="s", issuer="i", author="a", signature="z",
    )  # fmt: skip
    assert text_sha256(first) == text_sha256(same)
    changes: list[dict[str, object]] = [
        {"rule_id": "q"}, {"name": "m"}, {"match": {"a": ["1"]}}, {"kind": "face"}, {"note": "x"},
        {"severity": "info"}, {"valid_until_ms": 5}, {"valid_from_ms": 5}, {"emergency_hours": 1},
    ]  # fmt: skip
    digests = {text_sha256(msgspec.structs.replace(first, **one)) for one in changes}
    assert len(digests | {text_sha256(first)}) == len(changes) + 1


def test_a_rule_without_a_plate_has_its_conditions_as_its_target() -> None:
    white = WatchCommand(rule_id="r", op="put", version=1, match={"vehicle_color": ["白色"]})
    assert targets_of(white) == targets_of(msgspec.structs.replace(white, rule_id="q", name="m"))
    assert targets_of(white) != targets_of(msgspec.structs.replace(white, match={"vehicle_color": ["黑色"]}))


@given(st.none() | st.binary(max_size=80) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["rule_id", "op", "version", "text", "target", "until_ms", "outcome"]),
        inner | st.sampled_from(["proposed", "settled", "emergency", "put"]), max_size=7),
    max_leaves=9).map(lambda one: msgspec.json.encode(one)), st.sampled_from([b"r", b"r~proposed", b"t~emergency"]))  # fmt: skip
def test_any_bytes_are_one_of_ours_or_change_nothing(value: bytes | None, key: bytes) -> None:
    """For the decider and for whoever matches."""
    known = KnownRules()
    known.apply(on_topic(KeyedValue(key, b""))._replace(value=value))
    assert len(known.all_waiting()) == isinstance(beside_rules(value), WatchProposal)
    assert command_of(on_topic(KeyedValue(key, b""))._replace(value=value)) is None or beside_rules(value) is None


asks = st.tuples(
    st.sampled_from(["a", "b"]),
    st.sampled_from(["put", "put", "emergency", "approve", "approve", "reject", "withdraw", "remove"]),
    st.sampled_from(["li", "zhao"]), st.sampled_from(["n", "m"]), st.sampled_from(["", "", "1", "2"]),
    st.integers(-3, 3),
)  # fmt: skip


@given(st.lists(asks, max_size=12), st.sampled_from([PolicySettings(), NO_POLICY]), st.data())
def test_decided_recorded_and_replayed_is_the_same_with_a_crash_between_any_two_records(
    wanted: list[tuple[str, str, str, str, str, int]], policy: PolicySettings, data: st.DataObject
) -> None:
    """What is in force, what waits and each answer; and no emergency is counted twice."""
    alive, killed = ProposalWorld(policy), ProposalWorld(policy)
    asked = []
    for offset, (rule_id, op, account, name, command_id, drift) in enumerate(wanted):
        fields: dict[str, object] = {
            "rule_id": rule_id, "account": account, "name": name, "command_id": command_id or f"c{offset}",
        }  # fmt: skip
        if op == "emergency":
            fields |= {"emergency_hours": 1, "match": {"plate_number": [f"浙A1234{rule_id}", "浙A99999"]}}
        one = alive.request("put" if op == "emergency" else op, offset, **fields)
        asked.append(one)
        decision = alive.decide(one, NOW_MS + drift)
        alive.record(*decision.records)
        alive.answer(decision.answer)
    at = 0
    while at < len(asked):
        begin = data.draw(st.integers(max(0, at - 2), at))  # the last commit may be older
        killed = killed.restarted()
        for number in range(begin, len(asked)):
            at = max(at, number)
            decision = killed.decide(asked[number], NOW_MS + wanted[number][-1])
            written = data.draw(st.integers(0, len(decision.records)))
            killed.record(*decision.records[:written])
            if written < len(decision.records) or data.draw(st.booleans()):
                break  # killed before the next record, or before the answer
            killed.answer(decision.answer)
            at = max(at, number + 1)
    assert outcomes(killed) == outcomes(alive)
    assert killed.in_force() == alive.in_force()
    assert waiting(killed.known) == waiting(alive.known)


def waiting(known: KnownRules) -> dict[str, tuple[RuleState, str]]:
    found = {}
    for rule_id in "ab":
        one = known.waiting(rule_id)
        proposal = one.proposal() if one else None
        found[rule_id] = known.state(rule_id, NOW_MS), text_sha256(proposal.text) if proposal else ""
    return found


def outcomes(world: ProposalWorld) -> dict[str, tuple[str, str]]:
    """Of each id its one answer; repeated ones say the same."""
    found: dict[str, tuple[str, str]] = {}
    for one in world.answers:
        assert found.setdefault(one.command_id, (one.state, one.code)) == (one.state, one.code)
    return found
