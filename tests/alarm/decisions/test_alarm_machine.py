"""What becomes of a request about an alarm: every stage and everything that can be asked for."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions import alarm_machine
from alarm.decisions.alarm_machine import AlarmMachine
from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.known_alarms import KnownAlarms
from alarm.decisions.machine import Decided, decide
from alarm.decisions.requests import CommandRequest
from bus.client.model import ConsumedRecord
from bus.contracts.alarm_states import AlarmRequest, AlarmState, RuleVerdicts
from bus.contracts.command_codes import (
    ALREADY_TAKEN,
    IS_CLOSED,
    NO_SUCH_ALARM,
    NOT_CLOSED,
    NOT_JUDGED,
    NOT_PRIMARY,
    NOT_TAKEN,
    STALE,
)
from bus.contracts.commands import CommandAnswer
from bus.contracts.topics import CONTROL_ALARM, EVENT_COMMAND, STATE_ALARM
from bus.domain.alarm_life import (
    MAX_COMMENTS,
    MAX_STEPS,
    OPS,
    STAGES,
    TRANSITIONS,
    alarm_state,
    allowed_ops,
    is_often_false,
)

NOW_MS = 1_795_000_000_000
ALARM = "r:1"
WAYS: dict[str, list[dict[str, object]]] = {
    "open": [],
    "taken": [{"op": "take"}],
    "assigned": [{"op": "assign", "to": "wang"}],
    "confirmed": [{"op": "take"}, {"op": "confirm"}],
    "false": [{"op": "take"}, {"op": "false", "why": "misread"}],
    "closed": [{"op": "take"}, {"op": "confirm"}, {"op": "close", "result": "checked"}],
}
SAID: dict[str, dict[str, object]] = {
    "assign": {"to": "zhao"}, "false": {"why": "resembles"}, "comment": {"text": "seen"},
    "close": {"result": "lost"},
}  # fmt: skip


def record(topic: str, value: bytes | None, key: str = ALARM, offset: int = 0) -> ConsumedRecord:
    return ConsumedRecord(topic, 0, offset, 1, key.encode(), value, ())


class AlarmWorld:
    """Topics of states and answers, and what is known of them."""

    def __init__(self, epoch: int = 0) -> None:
        self.machine = AlarmMachine(lambda: epoch)
        self.known, self.answered = self.machine.make_state(), AnsweredCommands()
        self.states: list[bytes] = []
        self.answers: list[bytes] = []
        self.offset = 0

    def request(self, **fields: object) -> CommandRequest[AlarmRequest]:
        self.offset += 1
        usual: dict[str, object] = {
            "alarm_id": ALARM, "account": "li", "command_id": f"c{self.offset}",
        }  # fmt: skip
        value = msgspec.json.encode(msgspec.convert({**usual, **fields}, AlarmRequest))
        return self.machine.decode(record(CONTROL_ALARM, value, offset=self.offset), "t")

    def decide(
        self, asked: CommandRequest[AlarmRequest], now_ms: int, *, is_primary: bool = True
    ) -> Decided:
        return decide(
            self.machine, asked, self.known, self.answered, now_ms, is_primary=is_primary
        )

    def record(self, decided: Decided) -> None:
        for one in decided.records:
            assert one.value is not None
            self.states.append(one.value)
            self.known.apply(record(STATE_ALARM, one.value))

    def answer(self, decided: Decided) -> None:
        if decided.answer is not None:
            self.answers.append(msgspec.json.encode(decided.answer))
            self.answered.apply(record(EVENT_COMMAND, self.answers[-1]))

    def ask(self, now_ms: int = NOW_MS, **fields: object) -> CommandAnswer:
        decided = self.decide(self.request(**fields), now_ms)
        self.record(decided)
        self.answer(decided)
        assert decided.answer is not None
        return decided.answer

    def restarted(self) -> AlarmWorld:
        """Another decider, which knows what stands on the topics."""
        other = AlarmWorld()
        other.states, other.answers = list(self.states), list(self.answers)
        other.offset = self.offset
        for value in self.states:
            other.known.apply(record(STATE_ALARM, value))
        for value in self.answers:
            other.answered.apply(record(EVENT_COMMAND, value))
        return other

    @property
    def state(self) -> AlarmState:
        return self.known.get(ALARM)


def in_stage(stage: str) -> AlarmWorld:
    world = AlarmWorld()
    for number, way in enumerate(WAYS[stage]):
        assert world.ask(NOW_MS + number, **way).state == "accepted"
    assert world.state.stage == stage
    return world


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("op", OPS)
def test_every_stage_answers_every_request_as_the_table_says(stage: str, op: str) -> None:
    """By another account than the one that has it in hand, which takes nobody's alarm."""
    world, before = in_stage(stage), in_stage(stage).state
    answer = world.ask(NOW_MS + 9, op=op, account="wu", **SAID.get(op, {}))
    following = TRANSITIONS[cast(Any, stage), cast(Any, op)]
    if (stage, op) == ("assigned", "take"):
        following = ALREADY_TAKEN
    is_code = following in {ALREADY_TAKEN, NOT_TAKEN, NOT_JUDGED, IS_CLOSED, NOT_CLOSED}
    assert (answer.state, answer.code) == (
        ("refused", following) if is_code else ("accepted", "")
    )
    assert world.state.stage == (before.stage if is_code else following)
    assert (op in allowed_ops(before.stage, before.owner, "wu")) == (not is_code)
    if not is_code:
        assert (answer.version, world.state.n) == (NOW_MS + 9,) * 2
        assert world.state.history[:-1] == before.history
        assert (world.state.history[-1].by, world.state.history[-1].op) == ("wu", op)


def test_of_two_who_take_an_alarm_the_first_has_it_and_the_other_learns_who_and_since_when() -> None:
    world = AlarmWorld()
    assert world.ask(op="take", account="li").state == "accepted"
    world.ask(NOW_MS + 5, op="confirm", account="chen")
    lost = world.ask(NOW_MS + 7, op="take", account="wang")
    assert (lost.code, lost.changed_by, lost.changed_at_ms) == (ALREADY_TAKEN, "li", NOW_MS)
    assert world.state.owner == "li"


def test_who_has_it_already_and_says_so_again_is_told_that_it_is_theirs() -> None:
    """A page has taken it where no decider was, and its first request was decided after all."""
    world = AlarmWorld()
    first = world.ask(op="take", at_ms=NOW_MS - 5_000)
    assert world.state.history[0].asked_at_ms == NOW_MS - 5_000
    assert world.ask(NOW_MS + 1, op="take").version == first.version
    assert len(world.states) == 1


def test_an_assigned_alarm_is_taken_by_the_one_it_was_given_to() -> None:
    world = in_stage("assigned")
    assert world.ask(op="take", account="li").changed_by == "wang"
    assert world.ask(op="take", account="wang").state == "accepted"
    assert (world.state.stage, world.state.owner) == ("taken", "wang")


def test_a_closed_alarm_that_is_reopened_belongs_to_who_did_it_and_is_to_be_judged_again() -> None:
    world = in_stage("closed")
    assert (world.state.verdict, world.state.result) == ("confirmed", "checked")
    world.ask(NOW_MS + 9, op="reopen", account="wu")
    state = world.state
    assert (state.stage, state.owner, state.verdict, state.result) == ("taken", "wu", "", "")
    assert [one.op for one in state.history] == ["take", "confirm", "close", "reopen"]


def test_a_judgement_of_what_has_changed_is_refused_and_says_who_changed_it() -> None:
    """Two operators look at one alarm: one says confirmed, the other false."""
    world = in_stage("taken")
    seen = world.state.n
    assert world.ask(NOW_MS + 1, op="confirm", seen_version=seen, account="wu").state == "accepted"
    late = world.ask(NOW_MS + 2, op="false", why="misread", seen_version=seen)
    assert (late.code, late.changed_by, late.version) == (STALE, "wu", NOW_MS + 1)
    assert world.state.verdict == "confirmed"
    assert AlarmWorld().ask(op="take", seen_version=0).state == "accepted"


@pytest.mark.parametrize(
    ("fields", "field", "code"),
    [
        ({"op": "take", "alarm_id": "no-colon"}, "alarm_id", NO_SUCH_ALARM),
        ({"op": "take", "alarm_id": ":1"}, "alarm_id", NO_SUCH_ALARM),
        ({"op": "take", "alarm_id": "r:" + "1" * 999}, "alarm_id", NO_SUCH_ALARM),
        ({"op": "assign", "to": " "}, "to", "no_account"),
        ({"op": "assign", "to": "x" * 201}, "to", "text_length"),
        ({"op": "comment"}, "text", "no_text"),
        ({"op": "comment", "text": "x" * 501}, "text", "text_length"),
        ({"op": "false"}, "why", "no_reason"),
        ({"op": "false", "why": "other"}, "text", "no_text"),
        ({"op": "close"}, "result", "no_result"),
        ({"op": "take", "account": ""}, "account", "nobody"),
        ({"op": "take", "account": "x" * 201}, "account", "text_length"),
    ],
)
def test_a_request_that_says_too_little_or_too_much_is_refused_and_told_what_to_say(
    fields: dict[str, object], field: str, code: str
) -> None:
    world = in_stage("taken")
    before = len(world.states)
    answer = world.ask(NOW_MS + 9, **fields)
    assert (answer.field, answer.code) == (field, code)
    assert answer.text
    assert len(world.states) == before


def test_a_request_that_comes_again_is_answered_the_same_again_and_changes_nothing() -> None:
    world = AlarmWorld()
    first = world.ask(op="take", command_id="same")
    again = world.ask(NOW_MS + 60_000, op="take", command_id="same", account="wang")
    assert again == first
    assert len(world.states) == 1


def test_comments_and_steps_are_bounded_and_an_alarm_can_always_be_closed() -> None:
    world = AlarmWorld()
    for number in range(MAX_COMMENTS):
        assert world.ask(NOW_MS + number, op="comment", text="x").state == "accepted"
    assert world.ask(op="comment", text="x").code == "full"
    assert world.ask(op="take").state == "accepted"
    while world.ask(op="assign", to="wang").state == "accepted":
        assert len(world.state.history) < MAX_STEPS
    assert len(world.state.history) == MAX_STEPS - 1
    assert world.ask(op="confirm").code == "full"
    assert len(msgspec.json.encode(world.state)) < 256 * 1024


def test_an_alarm_that_was_judged_is_closed_with_its_last_step() -> None:
    world = AlarmWorld()
    world.ask(op="take")
    world.ask(op="confirm")
    while world.ask(op="assign", to="wang").state == "accepted":
        assert len(world.state.history) < MAX_STEPS
    assert world.ask(op="close", result="lost").state == "accepted"
    assert len(world.state.history) == MAX_STEPS


def test_versions_grow_while_the_clock_goes_back_and_name_the_site_epoch() -> None:
    world = AlarmWorld(epoch=3)
    versions = []
    for now_ms in (NOW_MS, NOW_MS - 86_400_000, NOW_MS - 86_400_000):
        world.ask(now_ms, op="comment", text="x")
        versions.append(world.state.version)
    assert versions == [(3, NOW_MS), (3, NOW_MS + 1), (3, NOW_MS + 2)]


def test_the_larger_pair_of_site_epoch_and_number_counts_in_any_order() -> None:
    """What both sites have decided of an alarm while they did not hear each other."""
    a, b = AlarmWorld(epoch=1), AlarmWorld(epoch=2)
    a.ask(NOW_MS + 60_000, op="take", account="li")
    b.ask(NOW_MS, op="take", account="wang")
    for values in ((*a.states, *b.states), (*b.states, *a.states)):
        known = KnownAlarms()
        for value in values:
            known.apply(record(STATE_ALARM, value))
        assert known.get(ALARM).owner == "wang"


def test_a_site_whose_data_are_another_ones_decides_nothing() -> None:
    world = AlarmWorld()
    decided = world.decide(world.request(op="take"), NOW_MS, is_primary=False)
    assert decided.records == ()
    assert decided.answer is not None
    assert decided.answer.code == NOT_PRIMARY


def test_a_deleted_alarm_begins_anew_and_what_is_not_ours_changes_nothing() -> None:
    world = in_stage("closed")
    later = b'{"alarm_id":"r:1","stage":"open","epoch":9,"n":5,"history":"none"}'
    for value in (b"{", b"null", b'{"alarm_id":"r:1","stage":"open","epoch":-1,"n":5}', b"\xff", later):
        world.known.apply(record(STATE_ALARM, value))
    assert world.state.stage == "closed"
    world.known.apply(record(STATE_ALARM, None))
    assert (world.state.stage, world.state.n, len(world.known)) == ("open", 0, 0)


def test_no_more_alarms_get_a_state_than_a_decider_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_machine, "MAX_ALARMS", 2)
    world = AlarmWorld()
    answers = [world.ask(op="take", alarm_id=f"r:{n}").code for n in (1, 2, 3)]
    assert answers == ["", "", "full"]
    assert world.ask(op="confirm", alarm_id="r:2").state == "accepted"


ASKED = st.lists(
    st.tuples(
        st.sampled_from(OPS), st.sampled_from(["li", "wang"]), st.sampled_from(["r:1", "r:2"]),
        st.sampled_from(["decide", "record", "answer"]), st.booleans(),
    ),
    max_size=20,
)  # fmt: skip


@given(ASKED)
def test_a_decider_killed_anywhere_goes_on_from_what_it_wrote(
    asked: list[tuple[str, str, str, str, bool]],
) -> None:
    """Whatever came through before the kill, each request has one answer in the end, each change
    stands once, and every state follows from the table."""
    world = AlarmWorld()
    for number, (op, who, alarm_id, killed_after, sees) in enumerate(asked):
        fields = {"op": op, "account": who, "alarm_id": alarm_id, "command_id": f"c{number}"}
        seen = world.known.get(alarm_id).n if sees else -1
        request = world.request(**fields, seen_version=seen, **SAID.get(op, {}))
        decided = world.decide(request, NOW_MS + number)
        if killed_after in ("record", "answer"):
            world.record(decided)
        if killed_after == "answer":
            world.answer(decided)
        world = world.restarted()
        again = world.decide(request, NOW_MS + number + 100)
        world.record(again)
        world.answer(again)
        answer = world.answered.get(f"c{number}")
        assert answer is not None
        if killed_after == "answer":
            assert again == Decided((), None)
            assert answer == decided.answer
        if killed_after == "record":
            assert again.records == ()
    states = [one for value in world.states if (one := alarm_state(value)) is not None]
    accepted = {
        one.command_id for value in world.answers
        if (one := msgspec.json.decode(value, type=CommandAnswer)).state == "accepted"
    }  # fmt: skip
    assert len({one.command_id for one in states}) == len(states)
    assert {one.command_id for one in states} <= accepted
    for alarm_id in ("r:1", "r:2"):
        history = world.known.get(alarm_id).history
        stages = ["open", *(one.stage for one in history)]
        for before, step in zip(stages, history, strict=False):
            assert TRANSITIONS[cast(Any, before), step.op] == step.stage


@given(st.binary(max_size=200) | st.builds(lambda d: msgspec.json.encode(d), st.dictionaries(
    st.sampled_from(["alarm_id", "stage", "epoch", "n", "history"]),
    st.integers() | st.text() | st.lists(st.none()))))  # fmt: skip
def test_any_bytes_are_a_state_or_none(value: bytes) -> None:
    found = alarm_state(value)
    assert found is None or alarm_state(msgspec.json.encode(found)) == found


@pytest.mark.parametrize(
    ("judged", "false", "often"),
    [(9, 9, False), (10, 2, False), (10, 3, True), (100, 29, False), (100, 30, True), (0, 0, False)],
)
def test_a_rule_is_to_be_narrowed_when_enough_were_judged_and_too_many_false(
    judged: int, false: int, often: bool
) -> None:
    assert is_often_false(RuleVerdicts("r", judged, false)) is often
