"""Voters that update their own entry, and two voters with one id. Pure state machines."""

from __future__ import annotations

import pytest

from broker.controller.kraft.raft.messages import Fetch
from broker.controller.kraft.raft.voter_changes import DONE, PENDING
from broker.controller.kraft.raft.voters import (
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterSetHistory,
)
from bus.errors import ErrorCode
from tests.broker.controller.kraft.raft.quorum_world import (
    QuorumEntry,
    QuorumWorld,
    RaftReplica,
    key,
    voter_set,
)

IDS = (1, 2, 3)
MOVED = (VoterEndpoint("elsewhere", 9),)


def dynamic() -> QuorumWorld:
    """Three voters that the log names."""
    return QuorumWorld(IDS, begin=[QuorumEntry(1, "voters", IDS)])


def say_all(leader: RaftReplica, ids: tuple[int, ...] = IDS, level: int = 1) -> None:
    """These voters send the leader their new endpoints and the highest kraft.version they
    support."""
    for one in ids:
        assert leader.raft.voter_changes.update(Voter(key(one), MOVED, level)) == DONE


def test_a_voter_that_moved_is_entered_and_one_that_did_not_leaves_no_record() -> None:
    """Covers UpdateRaftVoter under kraft.version 1."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in IDS if one != leader.id)
    update = Voter(key(other), MOVED)
    assert world.change_voters(lambda machine: machine.voter_changes.update(update)) == PENDING
    end = leader.log.end
    world.run_for(1000)
    assert leader.raft.quorum.voters.latest.find(other) == update
    assert world.change_voters(lambda machine: machine.voter_changes.update(update)) == DONE
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
    """The log stays unchanged."""
    world = dynamic()
    leader = world.until_leader()
    end = leader.log.end
    assert leader.raft.voter_changes.update(voter).error is error
    leader.run_until_idle()
    assert leader.log.end == end


def test_only_an_established_leader_takes_a_voters_word() -> None:
    """Other nodes do not know which set of voters is committed."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in world.replicas.values() if one is not leader)
    outcome = other.raft.voter_changes.update(Voter(key(1), MOVED))
    assert outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_static_quorum_moves_its_voters_into_the_log_once_all_have_said_that_they_can() -> None:
    """kraft.version 0 to 1 stores the endpoints and directories that the voters sent to this
    leader."""
    world = QuorumWorld(IDS)
    leader = world.until_leader()
    membership = leader.raft.voter_changes
    end = leader.log.end
    assert membership.kraft_version == 0
    assert membership.raise_version(1).error is ErrorCode.INVALID_UPDATE_VERSION
    say_all(leader, (1, 2))
    assert "[3]" in membership.raise_version(1).message
    say_all(leader, (3,), level=0)
    assert "[3]" in membership.raise_version(1).message
    say_all(leader, (3,))
    assert membership.raise_version(1, validate_only=True) == DONE
    assert membership.raise_version(2).error is ErrorCode.INVALID_UPDATE_VERSION
    leader.run_until_idle()
    assert leader.log.end == end
    assert membership.kraft_version == 0
    assert world.change_voters(lambda machine: machine.voter_changes.raise_version(1)) == PENDING
    assert membership.add(Voter(key(4))).error is ErrorCode.REQUEST_TIMED_OUT
    world.run_for(1000)
    for replica in world.replicas.values():
        assert replica.raft.voter_changes.kraft_version == 1
        assert replica.raft.quorum.voters.latest.ids == IDS
    assert leader.raft.quorum.voters.latest.find(3) == Voter(key(3), MOVED)
    assert membership.raise_version(1) == DONE
    assert membership.raise_version(0).error is ErrorCode.INVALID_UPDATE_VERSION


def test_what_voters_said_to_the_last_leader_counts_for_nothing() -> None:
    """It may have changed since, so each leader collects it again."""
    world = QuorumWorld(IDS)
    leader = world.until_leader()
    say_all(leader)
    leader.crash(keep_cache=True)
    new = world.until_leader()
    assert new.raft.voter_changes.raise_version(1).error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_step_that_was_never_committed_is_taken_back_with_its_record() -> None:
    """The others elect a leader without the record: all nodes use the configured voters again."""
    world = QuorumWorld(IDS)
    old = world.until_leader()
    say_all(old)
    world.partition([old.id], [one for one in IDS if one != old.id])
    assert world.change_voters(lambda machine: machine.voter_changes.raise_version(1)) == PENDING
    assert old.raft.voter_changes.kraft_version == 1
    world.run_for(10_000)
    world.heal()
    world.run_for(10_000)
    assert world.until_leader() is not old
    assert [one.raft.voter_changes.kraft_version for one in world.replicas.values()] == [0, 0, 0]
    assert old.raft.quorum.voters.latest.ids == IDS


def test_the_history_of_voters_is_static_as_long_as_no_record_names_them() -> None:
    """It is static again when the only record is truncated."""
    history = VoterSetHistory(voter_set(IDS))
    assert history.static
    history.add(7, voter_set(IDS))
    assert not history.static
    history.truncate_to(7)
    assert history.static
    history.reset_to(9, voter_set([1, 2]))
    assert not history.static
    assert history.latest.ids == (1, 2)


def fetch(leader: RaftReplica, replica: ReplicaKey) -> ErrorCode:
    """The leader's immediate answer to a fetch at its end offset."""
    end = leader.log.end
    ask = Fetch(replica, leader.raft.epoch, end.offset, end.epoch, 0)
    answer = leader.raft.on_fetch(ask, leader.world.tick(), may_wait=False)
    assert answer is not None
    return answer.error


@pytest.mark.parametrize("world", [QuorumWorld(IDS), dynamic()], ids=["static", "dynamic"])
def test_a_second_process_of_one_id_is_refused_while_the_first_one_lives(world: QuorumWorld) -> None:
    """Otherwise records stored by one would count for the other. A replaced directory counts as
    another process, too; it is accepted once the old one is silent."""
    leader = world.until_leader()
    world.run_for(500)
    other = next(one for one in IDS if one != leader.id)
    second = ReplicaKey(other, bytes(15) + b"x")
    progress = leader.raft.leader_state.current.progress  # type: ignore[union-attr]
    assert fetch(leader, second) is ErrorCode.DUPLICATE_VOTER
    assert progress[other].key == key(other)
    assert fetch(leader, ReplicaKey(leader.id, bytes(15) + b"x")) is ErrorCode.DUPLICATE_VOTER
    world.replicas[other].crash(keep_cache=True)
    world.run_for(world.config.fetch_timeout_ms + 1)
    assert fetch(leader, second) is ErrorCode.NONE


def test_a_voter_that_the_log_names_is_never_refused_for_a_stranger() -> None:
    """It is accepted even if the unknown process fetched first in this epoch."""
    world = dynamic()
    leader = world.until_leader()
    other = next(one for one in IDS if one != leader.id)
    leader.raft.leader_state.current.progress.pop(other, None)  # type: ignore[union-attr]
    assert fetch(leader, ReplicaKey(other, bytes(15) + b"x")) is ErrorCode.NONE
    assert fetch(leader, key(other)) is ErrorCode.NONE
    assert fetch(leader, ReplicaKey(other, bytes(15) + b"x")) is ErrorCode.DUPLICATE_VOTER
