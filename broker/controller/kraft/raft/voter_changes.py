"""Changes of the voter set, one at a time (KIP-853): add, remove, update, and the upgrade from
voters in the configuration (kraft.version 0) to voters in the log (1).

In: requests at the leader, commits. Out: voter sets to append, results. Never: two changes at once,
a change before the leader's epoch is established (the committed set is not known before), or a new
voter that has not caught up (it would delay every commit).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.controller.kraft.raft.leader import LeaderState
from broker.controller.kraft.raft.messages import AppendVoters, Tick
from broker.controller.kraft.raft.quorum_state import QuorumState
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterSet
from bus.errors import ErrorCode

DYNAMIC_VOTERS_VERSION = 1
"""The kraft.version from which on the log names the voters; the highest there is."""


@dataclass(frozen=True, slots=True)
class VoterChangeResult:
    """The result of a voter change; while `is_pending` the shell asks again."""

    error: ErrorCode
    message: str = ""
    is_pending: bool = False


DONE = VoterChangeResult(ErrorCode.NONE)
PENDING = VoterChangeResult(ErrorCode.NONE, is_pending=True)
BUSY = VoterChangeResult(
    ErrorCode.KAFKA_STORAGE_ERROR, "the metadata directory refuses, or is too slow"
)


class VoterChanges:
    """The part of a leader that changes the voter set.

    Invariant: `_pending` is the set that was appended and is not committed yet.
    """

    def __init__(self, quorum: QuorumState, leader_state: LeaderState) -> None:
        self._quorum = quorum
        self._leader_state = leader_state
        self._pending: VoterSet | None = None

    @property
    def kraft_version(self) -> int:
        """The kraft.version in force."""
        return 0 if self._quorum.voters.static else DYNAMIC_VOTERS_VERSION

    def add(self, voter: Voter) -> VoterChangeResult:
        """Adds a voter. PENDING until it has caught up, then until the record is committed."""
        rejection = self._check_established() or self._check_dynamic()
        voters = self._quorum.voters.latest
        if rejection is not None:
            return rejection
        if self._pending is not None:
            return PENDING if self._pending.has(voter.key) else _already_changing()
        if voters.has(voter.key):
            return VoterChangeResult(
                ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already"
            )
        if voters.find(voter.key.id) is not None:
            return VoterChangeResult(
                ErrorCode.DUPLICATE_VOTER,
                f"node {voter.key.id} is a voter with another directory; remove that one first",
            )
        if not self._has_caught_up(voter.key):
            return PENDING
        return self._append(voters.with_voter(voter))

    def remove(self, key: ReplicaKey) -> VoterChangeResult:
        """Removes a voter. PENDING until the record is committed."""
        rejection = self._check_established() or self._check_dynamic()
        voters = self._quorum.voters.latest
        if rejection is not None:
            return rejection
        if self._pending is not None:
            return _already_changing()
        if not voters.has(key):
            return _voter_not_found(key)
        if len(voters.voters) == 1:
            return VoterChangeResult(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
        return self._append(voters.without(key.id))

    def update(self, voter: Voter) -> VoterChangeResult:
        """Records a voter's endpoint and supported kraft.version. Under kraft.version 0 they are
        only kept in memory, for `raise_version`."""
        rejection = self._check_established()
        voters = self._quorum.voters.latest
        if rejection is not None:
            return rejection
        if self._pending is not None:
            return _already_changing()
        found = voters.find(voter.key.id)
        if found is None or not found.key.matches(voter.key):
            return _voter_not_found(voter.key)
        if voter.max_kraft_version < self.kraft_version:
            return VoterChangeResult(
                ErrorCode.INVALID_REQUEST, f"kraft.version is {self.kraft_version}"
            )
        if self._quorum.voters.static:
            if self._leader_state.current is not None:
                self._leader_state.current.voter_updates[voter.key.id] = voter
            return DONE
        if found == voter:
            return DONE
        return self._append(voters.with_voter(voter))

    def raise_version(self, level: int, *, validate_only: bool = False) -> VoterChangeResult:
        """Moves the voters into the log, as they reported themselves to this leader. PENDING until
        that is committed; irreversible."""
        rejection = self._check_established()
        if rejection is not None:
            return rejection
        if self._pending is not None:
            return _already_changing()
        if level == self.kraft_version:
            return DONE
        if level != DYNAMIC_VOTERS_VERSION:
            return VoterChangeResult(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid upgrade of kraft.version from version {self.kraft_version} to {level}",
            )
        updates = (
            self._leader_state.current.voter_updates
            if self._leader_state.current is not None
            else {}
        )
        ids = self._quorum.voters.latest.ids
        missing = [
            one for one in ids if one not in updates or not any(updates[one].key.directory_id)
        ]
        missing += [one for one in ids if one in updates and updates[one].max_kraft_version < level]
        if missing:
            return VoterChangeResult(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid upgrade of kraft.version to {level} because not all of the voters "
                f"support it: {sorted(set(missing))} did not say so to this leader; see that they "
                "run and ask again in some seconds",
            )
        if validate_only:
            return DONE
        return self._append(VoterSet.of(updates[one] for one in ids), raises_version=True)

    def _check_established(self) -> VoterChangeResult | None:
        if self._quorum.role is not RaftRole.LEADER:
            return VoterChangeResult(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum"
            )
        if not self._leader_state.is_established:
            return VoterChangeResult(
                ErrorCode.REQUEST_TIMED_OUT, "the leader is not established yet"
            )
        return None

    def _check_dynamic(self) -> VoterChangeResult | None:
        if not self._quorum.voters.static:
            return None
        return VoterChangeResult(
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters stand in controller.quorum.voters (kraft.version 0); they change by the "
            "configuration of every node, or after kraft.version is raised to 1",
        )

    def _append(self, voters: VoterSet, *, raises_version: bool = False) -> VoterChangeResult:
        self._pending = voters
        self._quorum.effects.append(AppendVoters(voters, raises_version))
        return PENDING

    def _has_caught_up(self, key: ReplicaKey) -> bool:
        current = self._leader_state.current
        found = current.progress.get(key.id) if current else None
        return found is not None and found.key.matches(key) and found.caught_up_at_ms >= 0

    def on_committed(self, now: Tick) -> None:
        """The high watermark advanced: the pending set may be committed."""
        quorum = self._quorum
        if quorum.role is not RaftRole.LEADER:
            self._pending = None
            return
        if quorum.high_watermark > quorum.voters.latest_offset:
            self._pending = None
            if not quorum.voters.latest.has(quorum.me):
                self._leader_state.resign(now)  # its own removal is committed


def _already_changing() -> VoterChangeResult:
    return VoterChangeResult(
        ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
    )


def _voter_not_found(key: ReplicaKey) -> VoterChangeResult:
    return VoterChangeResult(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} is no voter")
