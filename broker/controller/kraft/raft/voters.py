"""The voters: replica keys, the voter set, and its history along the log (KIP-853).

In: voters from the configuration (static, kraft.version 0) or from VotersRecords (dynamic,
kraft.version 1). Out: majorities and membership. Never: I/O. A set is in force from the moment its
record is in the log, committed or not, until that record is truncated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from bus.errors import check

NO_DIRECTORY = bytes(16)
STATIC_OFFSET = -2
"""The offset of the configured voters in the history: before every record and snapshot."""


class ReplicaKey(NamedTuple):
    """A replica: node id and metadata directory id (zeros where unknown)."""

    id: int
    directory_id: bytes = NO_DIRECTORY

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both name the same replica; an unknown directory matches any."""
        if self.id != other.id:
            return False
        known = NO_DIRECTORY not in (self.directory_id, other.directory_id)
        return not known or self.directory_id == other.directory_id


class VoterEndpoint(NamedTuple):
    """The address of a voter's controller listener."""

    host: str
    port: int
    listener: str = "CONTROLLER"


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter."""

    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...] = ()
    max_kraft_version: int = 1


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters in force. Invariant: sorted by id, ids unique."""

    voters: tuple[Voter, ...] = ()

    @classmethod
    def of(cls, voters: Iterable[Voter]) -> VoterSet:
        """Builds a set from these voters."""
        ordered = tuple(sorted(voters, key=lambda voter: voter.key.id))
        check(len({voter.key.id for voter in ordered}) == len(ordered), "no voter id twice")
        return cls(ordered)

    @property
    def ids(self) -> tuple[int, ...]:
        """The voters' node ids, ascending."""
        return tuple(voter.key.id for voter in self.voters)

    @property
    def majority(self) -> int:
        """The number of voters that form a majority."""
        return len(self.voters) // 2 + 1

    def find(self, node_id: int) -> Voter | None:
        """The voter with this id."""
        return next((voter for voter in self.voters if voter.key.id == node_id), None)

    def has(self, key: ReplicaKey) -> bool:
        """Whether this replica votes."""
        voter = self.find(key.id)
        return voter is not None and voter.key.matches(key)

    def is_only(self, key: ReplicaKey) -> bool:
        """Whether this replica is the only voter."""
        return len(self.voters) == 1 and self.has(key)

    def with_voter(self, voter: Voter) -> VoterSet:
        """This set with a voter added, or replaced by id."""
        return VoterSet.of([*(v for v in self.voters if v.key.id != voter.key.id), voter])

    def without(self, node_id: int) -> VoterSet:
        """This set without a voter."""
        return VoterSet(tuple(voter for voter in self.voters if voter.key.id != node_id))


class VoterSetHistory:
    """Voter sets by the offset of their record. Invariant: offsets ascend; the last set is in
    force."""

    def __init__(self, static: VoterSet | None = None) -> None:
        self._configured = static
        self._entries: list[tuple[int, VoterSet]] = self._configured_entries()

    def _configured_entries(self) -> list[tuple[int, VoterSet]]:
        return [] if self._configured is None else [(STATIC_OFFSET, self._configured)]

    @property
    def static(self) -> bool:
        """Whether the configuration names the voters (kraft.version 0), not a record in the log."""
        return self._configured is not None and self.latest_offset == STATIC_OFFSET

    @property
    def latest(self) -> VoterSet:
        """The voters in force; empty if neither the log nor the configuration names any."""
        return self._entries[-1][1] if self._entries else VoterSet()

    @property
    def latest_offset(self) -> int:
        """The offset of the newest set; negative if no record in the log names it."""
        return self._entries[-1][0] if self._entries else STATIC_OFFSET

    def add(self, offset: int, voters: VoterSet) -> None:
        """Adds the VotersRecord at `offset`."""
        check(offset > self.latest_offset, "sets of voters come in the order of the log")
        self._entries.append((offset, voters))

    def in_log_at(self, offset: int) -> VoterSet | None:
        """The voters named by records below `offset`, None where only the configuration names
        them."""
        found = [voters for at, voters in self._entries if STATIC_OFFSET < at < offset]
        return found[-1] if found else None

    def truncate_to(self, offset: int) -> None:
        """Drops the records at or after `offset`."""
        self._entries = [entry for entry in self._entries if entry[0] < offset]

    def reset_to(self, offset: int, voters: VoterSet | None) -> None:
        """The log restarts after a snapshot that contains this set."""
        self._entries = self._configured_entries() if voters is None else [(offset - 1, voters)]

    def truncate_before(self, offset: int) -> None:
        """Keeps only one set below `offset`: a snapshot covers everything before it."""
        older = [entry for entry in self._entries if entry[0] < offset]
        if len(older) > 1:
            self._entries = [older[-1], *(e for e in self._entries if e[0] >= offset)]
