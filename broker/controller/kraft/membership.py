"""Changing the voters, one at a time (KIP-853): add, remove, move.

In: requests at the leader, commits. Out: sets of voters to append, outcomes to answer. Never: two
changes under way, a change before the leader's epoch is established (it would not know which set is
committed), or a new voter that has not caught up (it would hold up every commit).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.kraft.core import Core
from broker.controller.kraft.leading import Leading
from broker.controller.kraft.messages import AppendVoters, Moment
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from bus.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request to change the voters; `waits` until the shell may ask again."""

    error: ErrorCode
    message: str = ""
    waits: bool = False


DONE = Outcome(ErrorCode.NONE)
WAIT = Outcome(ErrorCode.NONE, waits=True)


class Membership:
    """The part of a leading machine that changes the voters.

    Invariant: `_pending` is the set that was appended and is not committed yet.
    """

    def __init__(self, core: Core, leading: Leading) -> None:
        self._core = core
        self._leading = leading
        self._pending: VoterSet | None = None

    def add(self, voter: Voter) -> Outcome:
        """Let a replica vote. WAIT until it has caught up, then until the record is committed."""
        refused = self._refusal()
        voters = self._core.voters.latest
        if refused is not None:
            return refused
        if self._pending is not None:
            return WAIT if self._pending.has(voter.key) else _busy()
        if voters.has(voter.key):
            return Outcome(ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already")
        if voters.find(voter.key.id) is not None:
            return Outcome(
                ErrorCode.DUPLICATE_VOTER,
                f"node {voter.key.id} is a voter with another directory; remove that one first",
            )
        if not self._has_caught_up(voter.key):
            return WAIT
        return self._append(voters.with_voter(voter))

    def remove(self, key: ReplicaKey) -> Outcome:
        """Take the vote away. WAIT until the record is committed."""
        refused = self._refusal()
        voters = self._core.voters.latest
        if refused is not None:
            return refused
        if self._pending is not None:
            return _busy()
        if not voters.has(key):
            return Outcome(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} is no voter")
        if len(voters.voters) == 1:
            return Outcome(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
        return self._append(voters.without(key.id))

    def update(self, key: ReplicaKey, endpoints: tuple[Endpoint, ...]) -> Outcome:
        """A voter listens elsewhere now."""
        refused = self._refusal()
        voters = self._core.voters.latest
        if refused is not None:
            return refused
        if self._pending is not None:
            return _busy()
        found = voters.find(key.id)
        if found is None or not found.key.matches(key):
            return Outcome(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} is no voter")
        if found.endpoints == endpoints:
            return DONE
        return self._append(voters.moved(key.id, endpoints))

    def _refusal(self) -> Outcome | None:
        core = self._core
        if core.role is not Role.LEADER:
            return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum")
        if core.voters.static:
            return Outcome(
                ErrorCode.UNSUPPORTED_VERSION,
                "the voters stand in controller.quorum.voters (kraft.version 0); "
                "they change by the configuration of every node",
            )
        if not self._leading.is_established:
            return Outcome(ErrorCode.REQUEST_TIMED_OUT, "the leader is not established yet")
        return None

    def _append(self, voters: VoterSet) -> Outcome:
        self._pending = voters
        self._core.effects.append(AppendVoters(voters))
        return WAIT

    def _has_caught_up(self, key: ReplicaKey) -> bool:
        term = self._leading.term
        found = term.progress.get(key.id) if term else None
        return found is not None and found.key.matches(key) and found.caught_up_at_ms >= 0

    @property
    def is_changing(self) -> bool:
        """Whether a set is appended and not committed."""
        return self._pending is not None

    def on_committed(self, now: Moment) -> None:
        """The high watermark rose: the pending set may be in force for good."""
        core = self._core
        if core.role is not Role.LEADER:
            self._pending = None
            return
        if core.high_watermark > core.voters.latest_offset:
            self._pending = None
            if not core.voters.latest.has(core.me):
                self._leading.resign(now)  # it took its own vote away, and that stands now


def _busy() -> Outcome:
    return Outcome(ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way")
