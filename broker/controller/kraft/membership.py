"""Changing the voters, one at a time (KIP-853): add, remove, update, and the step from voters in
the configuration (kraft.version 0) to voters in the log (1).

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
from broker.controller.kraft.voters import ReplicaKey, Voter, VoterSet
from bus.errors import ErrorCode

DYNAMIC_LEVEL = 1
"""The level of kraft.version from which on the log names the voters; there is none above it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request to change the voters; `waits` until the shell may ask again."""

    error: ErrorCode
    message: str = ""
    waits: bool = False


DONE = Outcome(ErrorCode.NONE)
WAIT = Outcome(ErrorCode.NONE, waits=True)
BUSY = Outcome(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata directory refuses, or is too slow")


class Membership:
    """The part of a leading machine that changes the voters.

    Invariant: `_pending` is the set that was appended and is not committed yet.
    """

    def __init__(self, core: Core, leading: Leading) -> None:
        self._core = core
        self._leading = leading
        self._pending: VoterSet | None = None

    @property
    def level(self) -> int:
        """kraft.version as it is in force here."""
        return 0 if self._core.voters.static else DYNAMIC_LEVEL

    def add(self, voter: Voter) -> Outcome:
        """Let a replica vote. WAIT until it has caught up, then until the record is committed."""
        refused = self._refusal() or self._static_refusal()
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
        refused = self._refusal() or self._static_refusal()
        voters = self._core.voters.latest
        if refused is not None:
            return refused
        if self._pending is not None:
            return _busy()
        if not voters.has(key):
            return _no_voter(key)
        if len(voters.voters) == 1:
            return Outcome(ErrorCode.INVALID_REQUEST, "the last voter cannot be removed")
        return self._append(voters.without(key.id))

    def update(self, voter: Voter) -> Outcome:
        """A voter says where it listens and which kraft.version it can work with. Under
        kraft.version 0 that is only remembered, for `raise_version`."""
        refused = self._refusal()
        voters = self._core.voters.latest
        if refused is not None:
            return refused
        if self._pending is not None:
            return _busy()
        found = voters.find(voter.key.id)
        if found is None or not found.key.matches(voter.key):
            return _no_voter(voter.key)
        if voter.max_kraft_version < self.level:
            return Outcome(ErrorCode.INVALID_REQUEST, f"kraft.version is {self.level}")
        if self._core.voters.static:
            if self._leading.term is not None:
                self._leading.term.heard[voter.key.id] = voter
            return DONE
        if found == voter:
            return DONE
        return self._append(voters.with_voter(voter))

    def raise_version(self, level: int, *, validate_only: bool = False) -> Outcome:
        """Let the log name the voters from here on, as they themselves told this leader. WAIT until
        that is committed. There is no way back."""
        refused = self._refusal()
        if refused is not None:
            return refused
        if self._pending is not None:
            return _busy()
        if level == self.level:
            return DONE
        if level != DYNAMIC_LEVEL:
            return Outcome(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid upgrade of kraft.version from version {self.level} to {level}",
            )
        heard = self._leading.term.heard if self._leading.term is not None else {}
        ids = self._core.voters.latest.ids
        missing = [one for one in ids if one not in heard or not any(heard[one].key.directory_id)]
        missing += [one for one in ids if one in heard and heard[one].max_kraft_version < level]
        if missing:
            return Outcome(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Invalid upgrade of kraft.version to {level} because not all of the voters "
                f"support it: {sorted(set(missing))} did not say so to this leader; see that they "
                "run and ask again in some seconds",
            )
        if validate_only:
            return DONE
        return self._append(VoterSet.of(heard[one] for one in ids), raises_version=True)

    def _refusal(self) -> Outcome | None:
        if self._core.role is not Role.LEADER:
            return Outcome(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum")
        if not self._leading.is_established:
            return Outcome(ErrorCode.REQUEST_TIMED_OUT, "the leader is not established yet")
        return None

    def _static_refusal(self) -> Outcome | None:
        if not self._core.voters.static:
            return None
        return Outcome(
            ErrorCode.UNSUPPORTED_VERSION,
            "the voters stand in controller.quorum.voters (kraft.version 0); they change by the "
            "configuration of every node, or after kraft.version is raised to 1",
        )

    def _append(self, voters: VoterSet, *, raises_version: bool = False) -> Outcome:
        self._pending = voters
        self._core.effects.append(AppendVoters(voters, raises_version))
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


def _no_voter(key: ReplicaKey) -> Outcome:
    return Outcome(ErrorCode.VOTER_NOT_FOUND, f"node {key.id} is no voter")
