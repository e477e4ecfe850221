"""What becomes of a request: every state and everything that can be asked for."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.decisions.alarm_machine import AlarmMachine
from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.known_rules import KnownRules
from alarm.decisions.machine import Decided, decide
from alarm.decisions.requests import (
    MAX_REQUEST_BYTES,
    CommandRequest,
    UnreadableRequest,
    independent,
)
from alarm.decisions.rule_machine import RuleMachine
from alarm.decisions.rule_records import recorded
from alarm.decisions.rule_states import ACTIONS, REFUSALS, TRANSITIONS, RuleState
from alarm.dispatch.decider import machines_of
from bus.client.model import ConsumedRecord
from bus.contracts.command_codes import (
    EMERGENCY_IN_FORCE,
    NO_PROPOSAL,
    NO_SUCH_RULE,
    NOT_A_REQUEST,
    NOT_PRIMARY,
    STALE,
)
from bus.contracts.commands import CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.contracts.topics import CONTROL_WATCHLIST, EVENT_COMMAND, REQUEST_TOPICS, STATE_WATCHLIST
from bus.domain.policy import NO_POLICY
from bus.domain.rule_demand import MAX_UNINDEXED_RULES

NOW_MS = 1_795_000_000_000
OPS = ("put", "remove", "floor")
UNPROPOSED = (RuleState.ABSENT, RuleState.IN_FORCE, RuleState.ENDED)
MACHINE = RuleMachine(NO_POLICY)


def record(value: bytes | None, offset: int = 0, topic: str = CONTROL_WATCHLIST) -> ConsumedRecord:
    return ConsumedRecord(topic, 0, offset, 1, b"r", value, ())


def request(op: str = "put", offset: int = 7, **fields: object) -> CommandRequest[WatchCommand]:
    usual: dict[str, object] = {
        "rule_id": "r", "op": op, "version": 1, "name": "n", "command_id": f"c{offset}",
        "match": {"plate_number": ["浙A12345"]}, "account": "li",
    }  # fmt: skip
    command = msgspec.convert({**usual, **fields}, WatchCommand)
    return MACHINE.decode(record(msgspec.json.encode(command), offset), "t")


class DecidedWorld:
    """Topics of decisions and answers, and what is known of them."""

    def __init__(self) -> None:
        self.known, self.answered = KnownRules(), AnsweredCommands()
        self.rules: list[DecidedRule] = []
        self.answers: list[CommandAnswer] = []

    def decide(
        self, asked: CommandRequest[WatchCommand], now_ms: int = NOW_MS, *, is_primary: bool = True
    ) -> Decided:
        return decide(MACHINE, asked, self.known, self.answered, now_ms, is_primary=is_primary)

    def record(self, decision: Decided) -> None:
        for key, value in decision.records:
            rule = msgspec.json.decode(value, type=DecidedRule)
            assert key == rule.rule_id.encode()
            self.rules.append(rule)
            self.known.apply(record(value, topic=STATE_WATCHLIST))

    def answer(self, decision: Decided) -> None:
        if decision.answer is not None:
            self.answers.append(decision.answer)
            self.answered.apply(record(msgspec.json.encode(decision.answer), topic=EVENT_COMMAND))

    def carry_out(self, asked: CommandRequest[WatchCommand], now_ms: int = NOW_MS) -> CommandAnswer:
        decision = self.decide(asked, now_ms)
        self.record(decision)
        self.answer(decision)
        assert decision.answer is not None
        return decision.answer

    def restarted(self) -> DecidedWorld:
        """Another decider, which knows what stands on the topics."""
        other = DecidedWorld()
        for rule in self.rules:
            other.record(Decided((recorded(rule),), None))
        for answer in self.answers:
            other.answer(Decided((), answer))
        return other


def in_state(state: RuleState) -> DecidedWorld:
    world = DecidedWorld()
    if state is not RuleState.ABSENT:
        world.carry_out(request("put", 1))
    if state is RuleState.ENDED:
        world.carry_out(request("remove", 2), NOW_MS + 1)
    assert world.known.get("r").state is state
    return world


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("state", UNPROPOSED)
def test_every_state_has_an_answer_to_everything_that_can_be_asked(state: RuleState, op: str) -> None:
    """The table is what happens: the next state, or a refusal that changes nothing."""
    world = in_state(state)
    following = TRANSITIONS[state, op]
    before = world.known.get("r")
    answer = world.carry_out(request(op, 9), NOW_MS + 5)
    after = world.known.get("r")
    if isinstance(following, str):
        assert (answer.state, answer.code, answer.version) == ("refused", following, 0)
        assert after == before
    else:
        assert (answer.state, answer.version) == ("accepted", NOW_MS + 5)
        assert (after.state, after.version, after.command_id) == (following, NOW_MS + 5, "c9")


def test_every_topic_of_requests_has_a_machine() -> None:
    """The watch goes by the list of topics, the decider by its machines."""
    assert tuple(machines_of(NO_POLICY, AlarmMachine(lambda: 0))) == REQUEST_TOPICS


def test_the_table_knows_every_state_and_every_action() -> None:
    """A new one has to be decided about."""
    assert set(TRANSITIONS) == {(state, action) for state in RuleState for action in ACTIONS}
    refusals = {one for one in TRANSITIONS.values() if isinstance(one, str)}
    assert refusals == set(REFUSALS) == {NO_SUCH_RULE, NOT_A_REQUEST, NO_PROPOSAL, EMERGENCY_IN_FORCE}


def test_a_version_is_greater_than_the_last_one_where_the_clock_went_back() -> None:
    world = in_state(RuleState.IN_FORCE)
    assert world.carry_out(request("put", 3), NOW_MS - 1000).version == NOW_MS + 1
    world.known.on_decided(DecidedRule(rule_id="version-floor", op="floor", version=NOW_MS + 50))
    assert world.carry_out(request("put", 4), NOW_MS).version == NOW_MS + 51


@given(st.lists(st.tuples(st.sampled_from(OPS), st.integers(-5, 10**25)), max_size=6), st.integers(0, 2 * NOW_MS))
def test_a_decision_wins_over_all_that_is_known(before: list[tuple[str, int]], now_ms: int) -> None:
    """Whoever wrote it, by whatever clock; otherwise a removal would be without effect."""
    world = DecidedWorld()
    for op, version in before:
        world.known.on_decided(msgspec.convert({"rule_id": "r", "op": op, "version": version}, DecidedRule))
    answer = world.carry_out(request("put"), now_ms)
    assert world.known.get("r").version == answer.version
    assert world.known.get("r").command_id == "c7"


def test_a_decision_has_the_text_that_was_asked_for_and_who_asked() -> None:
    world = DecidedWorld()
    world.carry_out(request(reason="stolen", case="K-1", note="x", session="s", signature="abc"))
    [rule] = world.rules
    assert (rule.match, rule.note, rule.reason, rule.case) == ({"plate_number": ["浙A12345"]}, "x", "stolen", "K-1")
    assert (rule.command_id, rule.account, rule.decided_by, rule.decided_at_ms) == ("c7", "li", "li", NOW_MS)
    assert (rule.session, rule.signature) == ("", "")


def test_a_removal_says_who_and_why_and_repeats_no_text() -> None:
    """It may have come with anything."""
    world = in_state(RuleState.IN_FORCE)
    world.carry_out(request("remove", 3, name="n" * 9999, valid_from_ms=1 << 80, reason="over"))
    rule = world.rules[-1]
    assert (rule.op, rule.name, rule.match, rule.valid_from_ms, rule.reason) == ("remove", "", {}, 0, "over")


@pytest.mark.parametrize("op", ["put", "remove"])
def test_of_two_who_saw_the_same_version_the_second_learns_who_was_first_and_when(op: str) -> None:
    """Before, the later one overwrote the earlier one, and neither knew."""
    world = in_state(RuleState.IN_FORCE)
    seen = world.known.get("r").version
    first = world.carry_out(request("put", 3, seen_version=seen, account="zhao"), NOW_MS + 10)
    second = world.carry_out(request(op, 4, seen_version=seen, account="wang"), NOW_MS + 20)
    assert (first.state, second.state, second.code, second.field) == (
        "accepted", "refused", STALE, "seen_version",
    )  # fmt: skip
    assert (second.version, second.changed_by, second.changed_at_ms) == (first.version, "zhao", NOW_MS + 10)


def test_who_saw_that_there_was_no_rule_may_put_one_only_where_there_is_none() -> None:
    for state in UNPROPOSED:
        answer = in_state(state).carry_out(request("put", 3, seen_version=0), NOW_MS + 5)
        assert (answer.code == STALE) == (state is RuleState.IN_FORCE)


def test_a_rule_that_was_removed_meanwhile_names_who_removed_it() -> None:
    world = in_state(RuleState.IN_FORCE)
    seen = world.known.get("r").version
    world.carry_out(request("remove", 3, account="zhao"), NOW_MS + 10)
    answer = world.carry_out(request("put", 4, seen_version=seen))
    assert (answer.code, answer.version, answer.changed_by) == (STALE, 0, "zhao")


@pytest.mark.parametrize(("fields", "field", "code"), [
    ({"name": ""}, "name", "name_length"), ({"match": {}}, "match", "no_attribute"),
    ({"match": {"shoe_size": ["9"]}}, "shoe_size", "no_such_attribute"),
    ({"valid_until_ms": 5}, "valid_until_ms", "past"), ({"rule_id": "version-floor"}, "rule_id", "reserved"),
    ({"rule_id": "r~proposed"}, "rule_id", "reserved"),
    ({"rule_id": ""}, "rule_id", "text_length"), ({"rule_id": "r" * 201}, "rule_id", "text_length"),
    ({"reason": "r" * 501}, "reason", "text_length"), ({"author": "a" * 201}, "author", "text_length"),
    ({"note": "n" * MAX_REQUEST_BYTES}, "", "too_large"),
    ({"match": {"x" * 5000: ["9"]}}, "x" * 200, "no_such_attribute"),
])  # fmt: skip
def test_a_refusal_names_field_and_code_and_is_short(
    fields: dict[str, object], field: str, code: str
) -> None:
    world = DecidedWorld()
    answer = world.carry_out(request(**fields))
    assert (answer.state, answer.field, answer.code, world.rules) == ("refused", field, code, [])
    assert len(msgspec.json.encode(answer)) < 10_000


def without_index(rule_id: str, offset: int, speed: int = 5) -> CommandRequest[WatchCommand]:
    where = {"type": "range", "attribute": "speed_kmh", "above": speed}
    return request(offset=offset, rule_id=rule_id, match={}, where=where)


def test_one_rule_more_that_no_index_serves_is_refused_and_each_of_them_may_be_changed() -> None:
    """Also by who takes over; what ends makes room."""
    world = DecidedWorld()
    for number in range(MAX_UNINDEXED_RULES):
        assert world.carry_out(without_index(f"r{number}", number)).state == "accepted"
    for decider in (world, world.restarted()):
        refused = decider.decide(without_index("more", 200)).answer
        assert refused is not None
        assert (refused.state, refused.field, refused.code) == ("refused", "where", "unindexed_rules")
        changed = decider.decide(without_index("r7", 201, speed=9)).answer
        assert changed is not None
        assert changed.state == "accepted"
    assert world.carry_out(request("remove", 202, rule_id="r7")).state == "accepted"
    assert world.carry_out(without_index("more", 203)).state == "accepted"


def test_rules_that_no_index_serves_are_decided_one_after_the_other() -> None:
    """Else a hundred that come at once would each be the hundredth."""
    asked = [without_index(f"r{number}", number) for number in range(3)]
    usual = [request(offset=n, rule_id=f"r{n}") for n in range(10, 13)]
    assert [len(group) for group in independent([*asked, *usual], MACHINE.names)] == [1, 1, 4]


def test_a_site_whose_data_are_anothers_decides_nothing() -> None:
    world = DecidedWorld()
    decision = world.decide(request(), is_primary=False)
    assert not decision.records
    assert decision.answer is not None
    assert (decision.answer.state, decision.answer.code) == ("refused", NOT_PRIMARY)


def test_a_command_that_comes_again_is_answered_the_same_and_changes_nothing() -> None:
    """Also where its text is another one now, and where it was refused."""
    world = DecidedWorld()
    first = world.carry_out(request(offset=1, command_id="c"))
    world.carry_out(request("remove", 2), NOW_MS + 5)
    again = world.decide(request(offset=3, command_id="c", name="another"), NOW_MS + 9)
    assert again == Decided((), first)
    refused = world.carry_out(request("remove", 4, command_id="d"))
    world.carry_out(request("put", 5))
    assert world.decide(request("remove", 6, command_id="d")) == Decided((), refused)


def test_a_request_that_is_read_again_is_not_answered_again() -> None:
    """The group's commit is behind what was answered."""
    world = DecidedWorld()
    world.carry_out(request(offset=1))
    assert world.restarted().decide(request(offset=1)) == Decided((), None)


def test_killed_between_record_and_answer_the_answer_comes_from_the_record() -> None:
    world = DecidedWorld()
    decision = world.decide(request())
    world.record(decision)
    again = world.restarted().decide(request(), NOW_MS + 60_000)
    assert not again.records
    assert again.answer is not None
    assert decision.answer is not None
    assert (again.answer.state, again.answer.version) == ("accepted", decision.answer.version)


def test_the_oldest_answers_are_forgotten_first() -> None:
    answered = AnsweredCommands(limit=2)
    for number in range(3):
        answer = CommandAnswer(command_id=str(number), topic="t", offset=number, key="r", state="accepted")
        answered.apply(record(msgspec.json.encode(answer)))
    answered.apply(record(b"{"))
    assert [answered.get(str(number)) is not None for number in range(3)] == [False, True, True]


def test_a_message_of_an_earlier_version_has_its_place_as_its_id() -> None:
    """Of another topic of that name the same offset is another place."""
    value = b'{"rule_id": "r", "op": "put", "version": 1}'
    ids = {MACHINE.decode(record(value, n), topic).command_id for n in (1, 2) for topic in ("a", "b")}
    assert len(ids) == 4
    assert "control.watchlist-0-1:a" in ids
    long = request(command_id="c" * 201)
    assert long.command_id == "control.watchlist-0-7:t"


def test_what_was_carried_from_the_other_site_is_no_request_of_this_one() -> None:
    value = msgspec.json.encode(request().command)
    with pytest.raises(UnreadableRequest, match="other site"):
        MACHINE.decode(record(value)._replace(headers=[(MIRROR_ORIGIN, b"A:1")]), "t")


@given(st.none() | st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["rule_id", "op", "version", "match", "seen_version", "x"]), inner, max_size=5),
    max_leaves=8).map(lambda one: msgspec.json.encode(one)))  # fmt: skip
def test_any_bytes_are_a_request_or_unreadable(value: bytes | None) -> None:
    """And a request is answered, whatever it says."""
    try:
        asked = MACHINE.decode(record(value), "t")
    except UnreadableRequest:
        return
    answer = DecidedWorld().carry_out(asked)
    assert (answer.command_id, answer.offset) == (asked.command_id, asked.offset)
    assert answer.state in ("accepted", "refused")


def test_requests_are_grouped_so_that_each_rule_and_each_id_is_once_in_a_group() -> None:
    asked = [
        request(offset=1, rule_id="a"), request(offset=2, rule_id="b"), request(offset=3, rule_id="a"),
        request(offset=4, rule_id="c", command_id="c3"), request(offset=5, rule_id="d"),
    ]  # fmt: skip
    groups = list(independent(asked, MACHINE.names))
    assert [[one.offset for one in group] for group in groups] == [[1, 2], [3], [4, 5]]


asks = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from(OPS), st.sampled_from(["", "1", "2", "3", "4"]),
    st.sampled_from([-1, -1, 0, NOW_MS, NOW_MS + 1]), st.integers(-3, 3),
)  # fmt: skip


@given(st.lists(asks, max_size=12), st.data())
def test_decided_recorded_and_replayed_is_the_same_with_a_crash_at_any_point(
    wanted: list[tuple[str, str, str, int, int]], data: st.DataObject
) -> None:
    """One decider that lives, and deciders that are killed before or behind any record, answer or
    commit: the rules in force are the same, each request has one answer, and no id two decisions."""
    asked = [
        request(op, offset, rule_id=rule_id, command_id=command_id, seen_version=seen)
        for offset, (rule_id, op, command_id, seen, _) in enumerate(wanted)
    ]
    alive, killed = DecidedWorld(), DecidedWorld()
    for one, (*_, drift) in zip(asked, wanted, strict=True):
        decision = alive.decide(one, NOW_MS + drift)
        alive.record(decision)
        alive.answer(decision)
    at = 0
    while at < len(asked):
        begin = data.draw(st.integers(max(0, at - 2), at))  # the last commit may be older
        killed = killed.restarted()
        for one in range(begin, len(asked)):
            at = max(at, one)
            decision = killed.decide(asked[one], NOW_MS + wanted[one][-1])
            killed.record(decision)
            if data.draw(st.booleans()):
                break  # killed before the answer
            killed.answer(decision)
            at = max(at, one + 1)
    assert killed.rules == alive.rules
    ids = [rule.command_id for rule in killed.rules]
    assert len(ids) == len(set(ids))
    assert outcomes(killed) == outcomes(alive)
    assert set(outcomes(alive)) == {one.command_id for one in asked}


def outcomes(world: DecidedWorld) -> dict[str, tuple[str, int, str]]:
    """Of each id its one answer; repeated ones say the same."""
    found: dict[str, tuple[str, int, str]] = {}
    for one in world.answers:
        assert found.setdefault(one.command_id, (one.state, one.version, one.code)) == (
            one.state, one.version, one.code,
        )  # fmt: skip
    return found
