"""What voters say of themselves, and what a leader makes of two that have one id. Pure machines."""

from __future__ import annotations

import pytest

from broker.controller.kraft.membership import DONE, WAIT
from broker.controller.kraft.messages import Fetch
from broker.controller.kraft.voters import (
    Endpoint,
    ReplicaKey,
    Voter,
    VoterHistory,
)
from bus.errors import ErrorCode
from tests.broker.controller.kraft.quorum_world import Entry, Replica, World, key, voter_set

IDS = (1, 2, 3)
MOVED = (Endpoint("elsewhere", 9),)


def dynamic() -> World:
    """Three voters that the log names."""
    return World(IDS, begin=[Entry(1, "voters", IDS)])


def say_all(leader: Replica, ids: tuple[int, ...] = IDS, level: int = 1) -> None:
    """These voters tell the leader that they listen elsewhere and what they can work with."""
    for one in ids:
        assert leader.machine.membership.update(Voter(key(one), MOVED, level)) == DONE


def test_a_voter_that_moved_is_entered_and_one_that_did_not_leaves_no_record() -> None:
    """UpdateRaftVoter under kraft.version 1."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in IDS if one != leader.id)
    update = Voter(key(other), MOVED)
    assert world.change_voters(lambda machine: machine.membership.update(update)) == WAIT
    end = leader.log.end
    world.run_for(1000)
    assert leader.machine.core.voters.latest.find(other) == update
    assert world.change_voters(lambda machine: machine.membership.update(update)) == DONE
    assert leader.log.end == end


@pytest.mark.parametrize(
    ("voter", "error"),
    [
        (Voter(key(4)), ErrorCode.VOTER_NOT_FOUND),
        (Voter(ReplicaKey(2, bytes(15) + b"x")), ErrorCode.VOTER_NOT_FOUND),
        (Voter(key(2), MOVED, 0), ErrorCode.INVALID_REQUEST),
    ],
    ids=["no voter", "another directory", "too old for the level in force"],
)
def test_nobody_else_is_entered(voter: Voter, error: ErrorCode) -> None:
    """And the log stays as it was."""
    world = dynamic()
    leader = world.until_leader()
    end = leader.log.end
    assert leader.machine.membership.update(voter).error is error
    leader.settle()
    assert leader.log.end == end


def test_only_an_established_leader_takes_a_voters_word() -> None:
    """Others do not know which set of voters is committed."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in world.replicas.values() if one is not leader)
    outcome = other.machine.membership.update(Voter(key(1), MOVED))
    assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_static_quorum_moves_its_voters_into_the_log_once_all_have_said_that_they_can() -> None:
    """kraft.version 0 to 1: with the places and directories that the voters told this leader."""
    world = World(IDS)
    leader = world.until_leader()
    membership = leader.machine.membership
    end = leader.log.end
    assert membership.level == 0
    assert membership.raise_version(1).error is ErrorCode.INVALID_UPDATE_VERSION
    say_all(leader, (1, 2))
    assert "[3]" in membership.raise_version(1).message
    say_all(leader, (3,), level=0)
    assert "[3]" in membership.raise_version(1).message
    say_all(leader, (3,))
    assert membership.raise_version(1, validate_only=True) == DONE
    assert membership.raise_version(2).error is ErrorCode.INVALID_UPDATE_VERSION
    leader.settle()
    assert leader.log.end == end
    assert membership.level == 0
    assert world.change_voters(lambda machine: machine.membership.raise_version(1)) == WAIT
    assert membership.add(Voter(key(4))).error is ErrorCode.REQUEST_TIMED_OUT
    world.run_for(1000)
    assert not membership.is_changing
    for replica in world.replicas.values():
        assert replica.machine.membership.level == 1
        assert replica.machine.core.voters.latest.ids == IDS
    assert leader.machine.core.voters.latest.find(3) == Voter(key(3), MOVED)
    assert membership.raise_version(1) == DONE
    assert membership.raise_version(0).error is ErrorCode.INVALID_UPDATE_VERSION


def test_what_voters_said_to_the_last_leader_counts_for_nothing() -> None:
    """It may have changed since; each leader hears it anew."""
    world = World(IDS)
    leader = world.until_leader()
    say_all(leader)
    leader.crash(keep_cache=True)
    new = world.until_leader()
    assert new.machine.membership.raise_version(1).error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_step_that_was_never_committed_is_taken_back_with_its_record() -> None:
    """The others elect a leader that has not seen it: the configuration counts again, everywhere."""
    world = World(IDS)
    old = world.until_leader()
    say_all(old)
    world.partition([old.id], [one for one in IDS if one != old.id])
    assert world.change_voters(lambda machine: machine.membership.raise_version(1)) == WAIT
    assert old.machine.membership.level == 1
    world.run_for(10_000)
    world.heal()
    world.run_for(10_000)
    assert world.until_leader() is not old
    assert [one.machine.membership.level for one in world.replicas.values()] == [0, 0, 0]
    assert old.machine.core.voters.latest.ids == IDS


def test_the_history_of_voters_is_static_as_long_as_no_record_names_them() -> None:
    """Also again, when the only record is truncated."""
    history = VoterHistory(voter_set(IDS))
    assert history.static
    history.add(7, voter_set(IDS))
    assert not history.static
    history.truncate_to(7)
    assert history.static
    history.restart_at(9, voter_set([1, 2]))
    assert not history.static
    assert history.latest.ids == (1, 2)


def fetch(leader: Replica, replica: ReplicaKey) -> ErrorCode:
    """What the leader answers to a fetch at its end, at once."""
    end = leader.log.end
    ask = Fetch(replica, leader.machine.epoch, end.offset, end.epoch, 0)
    answer = leader.machine.on_fetch(ask, leader.world.moment(), may_wait=False)
    assert answer is not None
    return answer.error


@pytest.mark.parametrize("world", [World(IDS), dynamic()], ids=["static", "dynamic"])
def test_a_second_process_of_one_id_is_refused_while_the_first_one_lives(world: World) -> None:
    """Else what the one has stored would be counted as the other's. A directory that was replaced
    is another process too; it is let in once the old one is silent."""
    leader = world.until_leader()
    world.run_for(500)
    other = next(one for one in IDS if one != leader.id)
    second = ReplicaKey(other, bytes(15) + b"x")
    progress = leader.machine.leading.term.progress  # type: ignore[union-attr]
    assert fetch(leader, second) is ErrorCode.DUPLICATE_VOTER
    assert progress[other].key == key(other)
    assert fetch(leader, ReplicaKey(leader.id, bytes(15) + b"x")) is ErrorCode.DUPLICATE_VOTER
    world.replicas[other].crash(keep_cache=True)
    world.run_for(world.settings.fetch_timeout_ms + 1)
    assert fetch(leader, second) is ErrorCode.NONE


def test_a_voter_that_the_log_names_is_never_refused_for_a_stranger() -> None:
    """Even if the stranger came first in this epoch."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in IDS if one != leader.id)
    leader.machine.leading.term.progress.pop(other, None)  # type: ignore[union-attr]
    assert fetch(leader, ReplicaKey(other, bytes(15) + b"x")) is ErrorCode.NONE
    assert fetch(leader, key(other)) is ErrorCode.NONE
    assert fetch(leader, ReplicaKey(other, bytes(15) + b"x")) is ErrorCode.DUPLICATE_VOTER
