"""What the console shows as waiting, in whatever order its topic tells it."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from alarm.decisions.known_rules import KnownRules
from bus.client.model import ConsumedRecord
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.proposals import (
    EmergencyTarget,
    SettledProposal,
    WatchProposal,
    beside_rules,
    key_of,
)
from bus.contracts.topics import STATE_WATCHLIST
from monitor.live.live_state import LiveState
from monitor.live.rule_table import decode_command

TEXT = WatchCommand(rule_id="r", op="put", version=1, account="li", match={"plate_number": ["浙A1"]})


def proposed(version: int, rule_id: str = "r") -> WatchProposal:
    return WatchProposal(
        rule_id=rule_id, version=version, text=TEXT, decided_at_ms=version, command_id=f"c{version}"
    )


def settled(version: int, proposal: int) -> SettledProposal:
    return SettledProposal(
        rule_id="r", version=version, outcome="rejected", proposal=proposal, decided_at_ms=version,
        command_id="s",
    )  # fmt: skip


def approved(version: int, proposal: int, op: str = "put") -> DecidedRule:
    return msgspec.convert({"rule_id": "r", "op": op, "version": version, "proposal": proposal}, DecidedRule)


FLOOR = DecidedRule(rule_id="version-floor", op="floor", version=5)
EMERGENCY = EmergencyTarget(target="t", version=3, rule_id="r", command_id="e", until_ms=9)


def shown(state: LiveState, values: tuple[msgspec.Struct, ...]) -> list[int]:
    """As the consumer hands them on."""
    for one in values:
        value = msgspec.json.encode(one)
        command, beside = decode_command(value), beside_rules(value)
        assert (command is None) != (beside is None)
        if command is not None:
            state.on_command(command.rule_id, command)
        elif beside is not None:
            state.on_beside_rules(beside)
    return [one.version for one in state.proposals.waiting()]


@pytest.mark.parametrize(("values", "waits"), [
    ((proposed(2),), [2]), ((proposed(2), proposed(4)), [4]), ((proposed(2), settled(3, 2)), []),
    ((proposed(2), settled(3, 2), proposed(4)), [4]), ((proposed(2), approved(7, 2)), []),
    ((proposed(2), approved(7, 2, "remove")), []), ((proposed(2), approved(7, 1)), [2]),
    ((proposed(2), approved(7, 0), EMERGENCY), [2]),
])  # fmt: skip
def test_the_order_makes_no_difference_and_the_decider_knows_the_same(
    values: tuple[msgspec.Struct, ...], waits: list[int]
) -> None:
    """The end of one that an approval has settled may be missing."""
    for order in itertools.permutations(values):
        assert shown(LiveState(rows=5), order) == waits
        known = KnownRules()
        for one in order:
            key = one.rule_id if isinstance(one, DecidedRule) else key_of(one)  # type: ignore[arg-type]
            known.apply(ConsumedRecord(STATE_WATCHLIST, 0, 0, 1, key.encode(), msgspec.json.encode(one), ()))
        assert [one.version for one in known.all_waiting()] == waits


def test_what_waits_below_the_floor_waits_no_longer_and_a_topic_made_anew_says_it_again() -> None:
    state = LiveState(rows=5)
    assert shown(state, (proposed(2), proposed(6, "q"), FLOOR)) == [6]
    assert shown(state, (proposed(3, "p"),)) == [6]
    state.on_recreated(STATE_WATCHLIST)
    assert len(state.proposals) == 0
    assert shown(state, (proposed(3, "p"),)) == [3]


def test_pages_are_told_of_a_proposal_and_its_end() -> None:
    state = LiveState(rows=5)
    for values, changes in (((proposed(2),), True), ((proposed(2),), True), ((EMERGENCY,), False),
                            ((settled(3, 2),), True), ((proposed(2),), False)):  # fmt: skip
        shown(state, values)
        assert state.delta(1).rules_changed == changes
