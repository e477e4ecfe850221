"""States × events of the classic group machine, the illegal cells too."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.coordinator.group.classic_group import ClassicGroup
from broker.coordinator.group.effects import (
    Effect,
    JoinRequest,
    SyncRequest,
    TimerKind,
)
from broker.coordinator.group.states import TRANSITIONS, GroupState
from bus.errors import CheckFailed, ErrorCode
from tests.broker.coordinator.group.clock_readings import at

NOW = 1_000_000
Event = Callable[[ClassicGroup, int], list[Effect]]


def join(member_id: str, fresh: str = "", data: bytes = b"s") -> JoinRequest:
    return JoinRequest(
        member_id=member_id,
        group_instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(("range", data),),
        reply=f"join-{member_id or fresh}",
        fresh_member_id=fresh,
    )


def new_group() -> ClassicGroup:
    return ClassicGroup("g", at(NOW), initial_delay_ms=0, max_size=10)


def in_state(state: GroupState) -> ClassicGroup:
    """A group put into a state by events, with members a (leader) and b if the state has
    members."""
    group = new_group()
    if state is GroupState.EMPTY:
        return group
    if state is GroupState.DEAD:
        group.fail_all(ErrorCode.NOT_COORDINATOR, at(NOW))
        return group
    group.join(join("", "a"), at(NOW))
    group.join(join("", "b"), at(NOW))
    if state is GroupState.PREPARING_REBALANCE:
        return group
    group.join(join("a"), at(NOW))
    if state is GroupState.STABLE:
        group.sync(sync("a", group.generation), at(NOW))
        group.on_stored(group.generation, ErrorCode.NONE, at(NOW))
    return group


def sync(member_id: str, generation: int) -> SyncRequest:
    return SyncRequest(member_id, None, generation, f"sync-{member_id}", assignments={})


EVENTS: dict[str, Event] = {
    "new member": lambda g, now: g.join(join("", "n"), at(now)),
    "leader rejoins": lambda g, now: g.join(join("a"), at(now)),
    "follower rejoins": lambda g, now: g.join(join("b"), at(now)),
    "follower changes": lambda g, now: g.join(join("b", data=b"other"), at(now)),
    "leader syncs": lambda g, now: g.sync(sync("a", g.generation), at(now)),
    "follower syncs": lambda g, now: g.sync(sync("b", g.generation), at(now)),
    "stored": lambda g, now: g.on_stored(g.generation, ErrorCode.NONE, at(now)),
    "heartbeat": lambda g, now: g.heartbeat("a", None, g.generation, at(now))[1],
    "leader leaves": lambda g, now: g.leave("a", None, at(now))[2],
    "unknown leaves": lambda g, now: g.leave("x", None, at(now))[2],
    "join is over": lambda g, now: g.on_timer(TimerKind.JOIN, "", at(now + 60_000)),
    "sync is over": lambda g, now: g.on_timer(TimerKind.SYNC, "", at(now + 60_000)),
    "session of a is over": lambda g, now: g.on_timer(TimerKind.SESSION, "a", at(now + 60_000)),
}

E, P, C, S, D = GroupState
EXPECTED: dict[str, tuple[GroupState, ...]] = {
    # what becomes of:       Empty Preparing Completing Stable Dead
    "new member":           (C, P, P, P, D),
    "leader rejoins":       (E, C, C, P, D),
    "follower rejoins":     (E, P, C, S, D),
    "follower changes":     (E, P, P, P, D),
    "leader syncs":         (E, P, C, S, D),
    "follower syncs":       (E, P, C, S, D),
    "stored":               (E, P, C, S, D),
    "heartbeat":            (E, P, C, S, D),
    "leader leaves":        (E, C, P, P, D),
    "unknown leaves":       (E, P, C, S, D),
    "join is over":         (E, C, C, S, D),
    "sync is over":         (E, P, E, P, D),
    "session of a is over": (E, C, P, P, D),
}  # fmt: skip


@pytest.mark.parametrize("state", list(GroupState))
@pytest.mark.parametrize("event", list(EVENTS))
def test_each_event_in_each_state_leads_where_the_table_says(
    state: GroupState, event: str
) -> None:
    """No cell raises, and every cell is the expected one."""
    group = in_state(state)
    assert group.state is state
    EVENTS[event](group, NOW)
    assert group.state is EXPECTED[event][list(GroupState).index(state)]


def test_a_way_that_is_not_in_the_table_stops_the_process() -> None:
    """A bug in the machine is not a protocol error."""
    group = new_group()
    with pytest.raises(CheckFailed):
        group._transition_to(GroupState.STABLE, at(NOW))


def test_the_dead_stay_dead() -> None:
    """No transition leads out of Dead, and every state leads to it."""
    assert TRANSITIONS[GroupState.DEAD] == frozenset()
    others = set(GroupState) - {GroupState.DEAD}
    assert all(GroupState.DEAD in TRANSITIONS[state] for state in others)
