"""Stories of one classic group, as events to the pure state machine."""

from __future__ import annotations

import random
from typing import Any

import pytest

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.effects import (
    Effect,
    JoinRequest,
    PersistGroup,
    ReplyToJoin,
    ReplyToSync,
    ScheduleTimer,
    SyncRequest,
    TimerKind,
)
from broker.coordinator.group.states import GroupState
from bus.errors import ErrorCode
from tests.broker.coordinator.group.clock_readings import at

NOW = 1_000_000


def join(member_id: str = "", **changes: Any) -> JoinRequest:
    values: dict[str, Any] = {
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 5000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (("range", b"r"), ("sticky", b"s")),
        "reply": f"join-{member_id}{changes.get('fresh_member_id', '')}",
    }
    return JoinRequest(**values | changes)


def group(**changes: Any) -> ClassicGroup:
    return ClassicGroup("g", at(NOW), **{"initial_delay_ms": 0, "max_size": 100} | changes)


def answers(effects: list[Effect]) -> dict[object, Any]:
    return {e.reply: e.result for e in effects if isinstance(e, ReplyToJoin | ReplyToSync)}


def persisted(effects: list[Effect]) -> PersistGroup:
    return next(effect for effect in effects if isinstance(effect, PersistGroup))


def stable(count: int = 2, **changes: Any) -> ClassicGroup:
    """Members m0 (leader), m1, ... in a stable generation, each assigned its own name."""
    made = group()
    for index in range(count):
        made.join(join(fresh_member_id=f"m{index}", **changes), at(NOW))
    for index in range(count):
        made.join(join(f"m{index}"), at(NOW))
    assert made.state is GroupState.COMPLETING_REBALANCE
    settle(made)
    return made


def settle(made: ClassicGroup) -> dict[object, Any]:
    found: dict[object, Any] = {}
    assignments = {m.member_id: m.member_id.encode() for m in made.members}
    for member in made.members:
        request = SyncRequest(
            member.member_id,
            member.group_instance_id,
            made.generation,
            f"sync-{member.member_id}",
            assignments=assignments if member.member_id == made.members.leader_id else {},
        )
        found |= answers(made.sync(request, at(NOW)))
    found |= answers(made.on_stored(made.generation, ErrorCode.NONE, at(NOW)))
    assert made.state is GroupState.STABLE
    return found


def test_the_leader_hears_of_all_members_and_followers_of_none() -> None:
    """All are answered when the last one has joined, with one generation and protocol."""
    made = group()
    first = answers(made.join(join(fresh_member_id="a"), at(NOW)))
    assert first["join-a"].leader == "a"
    assert [m.member_id for m in first["join-a"].members] == ["a"]
    assert not answers(made.join(join(fresh_member_id="b"), at(NOW)))
    both = answers(made.join(join("a"), at(NOW)))
    assert {m.member_id for m in both["join-a"].members} == {"a", "b"}
    assert both["join-b"].members == ()
    assert {result.generation for result in both.values()} == {2}
    assert both["join-b"].protocol_name == "range"


def test_assignments_are_given_out_only_after_they_are_stored() -> None:
    """Decide, record, replay: no member may have seen an assignment that was lost."""
    made = group()
    made.join(join(fresh_member_id="a"), at(NOW))
    request = SyncRequest("a", None, 1, "sync-a", assignments={"a": b"all"})
    effects = made.sync(request, at(NOW))
    assert not answers(effects)
    record = persisted(effects).record
    assert record.value is not None
    assert record.value.members[0].assignment == b"all"
    told = answers(made.on_stored(1, ErrorCode.NONE, at(NOW)))
    assert told["sync-a"].assignment == b"all"


def test_if_the_assignment_cannot_be_stored_the_group_rebalances() -> None:
    """The members get the error and rejoin."""
    made = group()
    made.join(join(fresh_member_id="a"), at(NOW))
    made.sync(SyncRequest("a", None, 1, "sync-a", assignments={}), at(NOW))
    told = answers(made.on_stored(1, ErrorCode.NOT_COORDINATOR, at(NOW)))
    assert told["sync-a"].error is ErrorCode.NOT_COORDINATOR
    assert made.state is GroupState.PREPARING_REBALANCE


def test_a_new_dynamic_member_is_asked_to_come_back_with_its_id() -> None:
    """KIP-394: a member that never returns is removed without a rebalance."""
    made = group()
    effects = made.join(join(fresh_member_id="a", require_known_member_id=True), at(NOW))
    assert answers(effects)["join-a"].error is ErrorCode.MEMBER_ID_REQUIRED
    assert made.state is GroupState.EMPTY
    again = answers(made.join(join("a", require_known_member_id=True), at(NOW)))
    assert again["join-a"].error is ErrorCode.NONE


def test_an_empty_group_waits_for_more_members_before_its_first_generation() -> None:
    """group.initial.rebalance.delay.ms, prolonged by each newcomer up to the rebalance time."""
    made = group(initial_delay_ms=3000)
    effects = made.join(join(fresh_member_id="a"), at(NOW))
    assert not answers(effects)
    assert ScheduleTimer(TimerKind.JOIN, "", 3000) in effects
    assert not answers(made.join(join(fresh_member_id="b"), at(NOW + 2000)))
    again = made.on_timer(TimerKind.JOIN, "", at(NOW + 3000))
    assert again == [ScheduleTimer(TimerKind.JOIN, "", 2000)]
    told = answers(made.on_timer(TimerKind.JOIN, "", at(NOW + 5000)))
    assert set(told) == {"join-a", "join-b"}


def test_who_does_not_rejoin_in_time_is_out() -> None:
    """The join phase ends with the members that rejoined."""
    made = stable(3)
    made.join(join("m1", protocols=(("range", b"new"),)), at(NOW))
    told = answers(made.on_timer(TimerKind.JOIN, "", at(NOW + 5000)))
    assert set(told) == {"join-m1"}
    assert told["join-m1"].leader == "m1"
    assert len(made.members) == 1


def test_a_silent_member_is_removed_when_its_session_is_over_and_not_before() -> None:
    """A heartbeat moves the deadline without a new timer."""
    made = stable(2)
    error, effects = made.heartbeat("m1", None, made.generation, at(NOW + 9000))
    assert (error, effects) == (ErrorCode.NONE, [])
    left = made.on_timer(TimerKind.SESSION, "m1", at(NOW + 10_000))
    assert left == [ScheduleTimer(TimerKind.SESSION, "m1", 9000)]
    made.on_timer(TimerKind.SESSION, "m1", at(NOW + 19_000))
    assert "m1" not in made.members
    assert made.state is GroupState.PREPARING_REBALANCE


def test_a_member_whose_join_waits_needs_no_heartbeat() -> None:
    """Its request waits here; the session starts again."""
    made = stable(2)
    made.join(join("m1", protocols=(("range", b"new"),)), at(NOW))
    made.on_timer(TimerKind.SESSION, "m1", at(NOW + 60_000))
    assert "m1" in made.members


def test_during_a_rebalance_heartbeats_and_commits_say_so() -> None:
    """Stable members learn by heartbeat that they must rejoin; commits are taken meanwhile."""
    made = stable(2)
    generation = made.generation
    made.join(join(fresh_member_id="new"), at(NOW))
    error, _ = made.heartbeat("m0", None, generation, at(NOW))
    assert error is ErrorCode.REBALANCE_IN_PROGRESS
    assert made.check_commit("m0", None, generation) is ErrorCode.NONE
    assert made.check_commit("m0", None, generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert made.check_commit("x", None, generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert made.check_commit("", None, -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_be_removed_by_its_instance_id() -> None:
    """As kafka-consumer-groups and admin clients do."""
    made = stable(1, group_instance_id="one")
    error, member_id, _ = made.leave("", "one", at(NOW))
    assert (error, member_id) == (ErrorCode.NONE, "m0")
    assert made.state is GroupState.EMPTY


def test_members_without_a_common_protocol_are_refused() -> None:
    """The group stays unchanged."""
    made = stable(1)
    told = answers(made.join(join(fresh_member_id="x", protocols=(("odd", b""),)), at(NOW)))
    assert told["join-x"].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other = answers(made.join(join(fresh_member_id="y", protocol_type="connect"), at(NOW)))
    assert other["join-y"].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert made.state is GroupState.STABLE


def test_a_full_group_takes_nobody_in() -> None:
    """group.max.size."""
    made = group(max_size=1)
    made.join(join(fresh_member_id="a"), at(NOW))
    told = answers(made.join(join(fresh_member_id="b"), at(NOW)))
    assert told["join-b"].error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_the_last_one_out_leaves_an_empty_group_in_the_log() -> None:
    """So that its offsets begin to age."""
    made = stable(1)
    _, _, effects = made.leave("m0", None, at(NOW))
    value = persisted(effects).record.value
    assert value is not None
    assert value.members == ()
    assert value.protocol_type == "consumer"


@pytest.mark.parametrize("seed", range(20))
def test_replaying_what_was_stored_gives_the_live_state(seed: int) -> None:
    """After any story that ends stable or empty, the newest record is the state."""
    dice = random.Random(seed)
    made, stored, names = group(), None, 0
    for _ in range(30):
        effects: list[Effect] = []
        members = [member.member_id for member in made.members]
        if dice.random() < 0.5 or not members:
            names += 1
            effects = made.join(join(fresh_member_id=f"n{names}"), at(NOW))
        elif dice.random() < 0.5:
            effects = made.leave(dice.choice(members), None, at(NOW))[2]
        stored = _run_to_rest(made, effects) or stored
        assert made.state in (GroupState.STABLE, GroupState.EMPTY)
        assert stored is not None
        assert stored.record.value is not None
        copy = group()
        copy.replay(stored.record.value, at(NOW))
        assert _state(copy) == _state(made), f"seed {seed}"


def _run_to_rest(made: ClassicGroup, effects: list[Effect]) -> PersistGroup | None:
    """Let every member rejoin and sync until nothing moves; the newest record."""
    stored = next((e for e in effects if isinstance(e, PersistGroup)), None)
    if made.state is GroupState.PREPARING_REBALANCE:
        for member in made.members:
            if member.join_reply is None:
                made.join(join(member.member_id), at(NOW))
    if made.state is GroupState.COMPLETING_REBALANCE:
        leader = made.members.leader_id or ""
        request = SyncRequest(
            leader, None, made.generation, "s", assignments={leader: b"everything"}
        )
        stored = persisted(made.sync(request, at(NOW)))
        made.on_stored(made.generation, ErrorCode.NONE, at(NOW))
    return stored


def _state(made: ClassicGroup) -> tuple[object, ...]:
    members = {m.member_id: m.assignment for m in made.members}
    leader = made.members.leader_id
    return made.state, made.generation, made.protocol_type, made.protocol_name, leader, members
