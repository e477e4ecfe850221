"""Rules of a version whose commands were the state themselves."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions.earlier_commands import EarlierCommands
from alarm.decisions.known_rules import KnownRules
from alarm.rules import compile_rules
from bus.client.model import ConsumedRecord
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import CONTROL_WATCHLIST, STATE_WATCHLIST

COMMANDS = st.builds(
    WatchCommand,
    rule_id=st.sampled_from(["a", "b", "c"]), op=st.sampled_from(["put", "put", "remove", "floor"]),
    version=st.integers(0, 9), name=st.sampled_from(["x", "y"]),
)  # fmt: skip


def record(value: bytes | None, offset: int, topic: str = CONTROL_WATCHLIST) -> ConsumedRecord:
    return ConsumedRecord(topic, 0, offset, 1, b"a", value, ())


def taken_over(records: list[bytes | None], known: KnownRules) -> EarlierCommands:
    earlier = EarlierCommands()
    for offset, value in enumerate(records):
        earlier.apply(record(value, offset))
    for rule in earlier.missing(known):
        known.apply(record(msgspec.json.encode(rule), 0, STATE_WATCHLIST))
    return earlier


@given(st.lists(COMMANDS, max_size=10))
def test_what_was_in_force_is_in_force_and_taken_over_once(commands: list[WatchCommand]) -> None:
    """By versions, in whatever order they came, as the readers of that version went by; a take-over
    that was killed is made again."""
    rules, known = compile_rules(commands), KnownRules()
    earlier = taken_over([msgspec.json.encode(one) for one in commands], known)
    in_force = {one for one in ("a", "b", "c") if known.get(one).state.value == "in force"}
    assert in_force == set(rules.rules)  # also what is below the floor and was there before it
    assert all(known.get(one).version == rules.rules[one].command.version for one in in_force)
    assert known.versions.floor == rules.versions.floor
    assert earlier.missing(known) == []
    assert earlier.end_offset == len(commands)


def test_requests_begin_with_the_first_command_that_has_an_id() -> None:
    """Also one that came before the take-over: it waits for an answer."""
    old = msgspec.json.encode(WatchCommand(rule_id="a", op="put", version=5))
    asked = msgspec.json.encode(WatchCommand(rule_id="b", op="put", version=6, command_id="c"))
    known = KnownRules()
    earlier = taken_over([old, b"{", None, asked, old], known)
    assert earlier.end_offset == 3
    assert [known.get(one).state.value for one in "ab"] == ["in force", "absent"]


@given(st.lists(st.none() | st.binary(max_size=30), max_size=5))
def test_any_bytes_are_passed_over(values: list[bytes | None]) -> None:
    assert taken_over(values, KnownRules()).end_offset == len(values)
