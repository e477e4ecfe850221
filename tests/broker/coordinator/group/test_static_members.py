"""Static members that restart (KIP-345), as events to the pure state machine."""

from __future__ import annotations

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.effects import (
    Effect,
    PersistReplacement,
    Replacement,
    ReplyToJoin,
    ScheduleTimer,
    TimerKind,
)
from broker.coordinator.group.states import GroupState
from bus.errors import ErrorCode
from tests.broker.coordinator.group.clock_readings import at
from tests.broker.coordinator.group.test_classic_group import NOW, answers, group, join, settle

SESSION_MS = 10_000


def two_static_members() -> ClassicGroup:
    """`one` (s1, the leader) and `two` (s2) in a stable generation."""
    made = group()
    made.join(join(fresh_member_id="s1", group_instance_id="one"), at(NOW))
    made.join(join(fresh_member_id="s2", group_instance_id="two"), at(NOW))
    made.join(join("s1", group_instance_id="one"), at(NOW))
    settle(made)
    assert made.members.leader_id == "s1"
    return made


def come_back(made: ClassicGroup, new_id: str, instance_id: str, **changes: object) -> ReplyToJoin:
    """The member restarts; its answer once its new name is stored."""
    asked = join(fresh_member_id=new_id, group_instance_id=instance_id, **changes)
    effects = made.join(asked, at(NOW))
    assert not answers(effects)
    told = made.on_replaced(replacement(effects), ErrorCode.NONE, at(NOW))
    return next(effect for effect in told if isinstance(effect, ReplyToJoin))


def replacement(effects: list[Effect]) -> Replacement:
    return next(e for e in effects if isinstance(e, PersistReplacement)).replacement


def test_a_restarted_follower_takes_its_place_without_a_rebalance() -> None:
    """Same generation, same assignment; the old process is fenced."""
    made = two_static_members()
    generation = made.generation
    told = come_back(made, "s2b", "two").result
    assert (told.error, told.generation, told.leader) == (ErrorCode.NONE, generation, "s1")
    assert made.state is GroupState.STABLE
    member = made.members.get("s2b")
    assert member is not None
    assert member.assignment == b"s2"
    error, _ = made.heartbeat("s2", "two", generation, at(NOW))
    assert error is ErrorCode.FENCED_INSTANCE_ID


def test_a_member_that_took_its_place_back_and_falls_silent_is_removed() -> None:
    """Regression: its new member id had no timer, so its partitions stayed unread for ever."""
    made = two_static_members()
    asked = join(fresh_member_id="s2b", group_instance_id="two")
    effects = made.join(asked, at(NOW + 1000))
    assert ScheduleTimer(TimerKind.SESSION, "s2b", SESSION_MS) in effects
    made.on_replaced(replacement(effects), ErrorCode.NONE, at(NOW + 1000))
    made.on_timer(TimerKind.SESSION, "s2", at(NOW + SESSION_MS))
    assert made.state is GroupState.STABLE
    made.on_timer(TimerKind.SESSION, "s2b", at(NOW + 1000 + SESSION_MS))
    assert "s2b" not in made.members
    assert made.state is GroupState.PREPARING_REBALANCE


def test_a_restarted_leader_below_version_9_hears_of_the_leader_it_was() -> None:
    """So it does not assign again, and no other member notices; the group rebalanced instead."""
    made = two_static_members()
    told = come_back(made, "s1b", "one").result
    assert (told.member_id, told.leader, told.members) == ("s1b", "s1", ())
    assert not told.skip_assignment
    assert made.state is GroupState.STABLE
    assert made.members.leader_id == "s1b"


def test_a_restarted_leader_of_version_9_is_told_to_skip_the_assignment() -> None:
    """KIP-814: it leads, gets all members and does not assign."""
    made = two_static_members()
    told = come_back(made, "s1b", "one", supports_skip_assignment=True).result
    assert (told.leader, told.skip_assignment) == ("s1b", True)
    assert {member.member_id for member in told.members} == {"s1b", "s2"}


def test_other_bytes_under_the_same_protocol_are_no_reason_to_rebalance() -> None:
    """Owned partitions and generation are in there; they differ at every restart."""
    made = two_static_members()
    told = come_back(made, "s2b", "two", protocols=(("range", b"new"), ("sticky", b"s"))).result
    assert (told.error, told.generation) == (ErrorCode.NONE, made.generation)
    assert made.state is GroupState.STABLE
    member = made.members.get("s2b")
    assert member is not None
    assert member.metadata("range") == b"new"


def test_a_change_of_the_protocol_the_group_would_choose_is() -> None:
    """The assignment in force was made by another."""
    made = two_static_members()
    asked = join(fresh_member_id="s2b", group_instance_id="two", protocols=(("sticky", b"s"),))
    assert not answers(made.join(asked, at(NOW)))
    assert made.state is GroupState.PREPARING_REBALANCE


def test_a_restart_takes_the_new_time_outs() -> None:
    """The session uses the timeout of the latest request."""
    made = two_static_members()
    asked = join(fresh_member_id="s2b", group_instance_id="two", session_timeout_ms=6000)
    assert ScheduleTimer(TimerKind.SESSION, "s2b", 6000) in made.join(asked, at(NOW))


def test_a_new_name_that_cannot_be_stored_is_taken_back() -> None:
    """Otherwise the next coordinator, which knows the old member id, would fence the new process
    for ever."""
    made = two_static_members()
    asked = join(fresh_member_id="s1b", group_instance_id="one", protocols=(("range", b"new"),))
    effects = made.join(asked, at(NOW))
    told = made.on_replaced(replacement(effects), ErrorCode.COORDINATOR_NOT_AVAILABLE, at(NOW))
    assert ScheduleTimer(TimerKind.SESSION, "s1", SESSION_MS) in told
    assert [result.error for result in answers(told).values()] == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    ]
    assert made.members.leader_id == "s1"
    member = made.members.get("s1")
    assert member is not None
    assert member.metadata("range") == b"r"


def test_one_that_restarts_twice_before_its_name_is_stored_is_answered_once() -> None:
    """The first process is fenced, the second takes the place; late storing changes nothing."""
    made = two_static_members()
    first = made.join(join(fresh_member_id="s2b", group_instance_id="two"), at(NOW))
    second = made.join(join(fresh_member_id="s2c", group_instance_id="two"), at(NOW))
    assert answers(second)["join-s2b"].error is ErrorCode.FENCED_INSTANCE_ID
    assert not made.on_replaced(replacement(first), ErrorCode.NONE, at(NOW))
    told = answers(made.on_replaced(replacement(second), ErrorCode.NONE, at(NOW)))
    assert told["join-s2c"].error is ErrorCode.NONE


def test_a_rebalance_before_the_name_is_stored_counts_the_member_as_joined() -> None:
    """Its join waits here; whichever comes first answers it, and only once."""
    made = two_static_members()
    back = made.join(join(fresh_member_id="s2b", group_instance_id="two"), at(NOW))
    made.join(join(fresh_member_id="new"), at(NOW))
    told = answers(made.join(join("s1", group_instance_id="one"), at(NOW)))
    assert told["join-s2b"].generation == made.generation
    assert made.state is GroupState.COMPLETING_REBALANCE
    assert not made.on_replaced(replacement(back), ErrorCode.NONE, at(NOW))
