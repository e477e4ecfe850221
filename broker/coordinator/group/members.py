"""The members of a classic group: their protocols and requests, and which one leads.

Never: states, timers, records; those are `ClassicGroup`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from broker.coordinator.group.effects import Deadline, JoinedMember, JoinRequest
from broker.coordinator.group.records import StoredMember
from bus.errors import ErrorCode


@dataclass(slots=True)
class ClassicGroupMember:
    """A consumer in a group.

    Invariant: at most one of `join_reply` and `sync_reply` is set; a member with either is kept
    alive without heartbeats, since its request waits here.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_reply: object = None
    sync_reply: object = None
    supports_skip_assignment: bool = False
    session: Deadline = field(default_factory=Deadline)

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> ClassicGroupMember:
        """A member created by its first join."""
        return cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            supports_skip_assignment=request.supports_skip_assignment,
        )

    @classmethod
    def stored(cls, member: StoredMember, protocol_name: str | None) -> ClassicGroupMember:
        """A member read from the log."""
        return cls(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
            protocols=((protocol_name or "", member.subscription),),
            assignment=member.assignment,
        )

    @property
    def is_waiting(self) -> bool:
        """Whether a request of this member waits here."""
        return self.join_reply is not None or self.sync_reply is not None

    def update_from(self, request: JoinRequest) -> None:
        """Update from a later join of the same member."""
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def as_joined(self, protocol_name: str | None) -> JoinedMember:
        """The member as its leader sees it."""
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol_name))

    def as_stored(self, protocol_name: str | None, assignment: bytes) -> StoredMember:
        """The member as it is stored in the log."""
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.metadata(protocol_name),
            assignment=assignment,
        )


class MemberTable:
    """All members, in the sequence in which they joined.

    Invariant: `leader_id` is a member's id or None; `_static` maps every instance id present to
    its member's id.
    """

    def __init__(self) -> None:
        self._members: dict[str, ClassicGroupMember] = {}
        self._static: dict[str, str] = {}
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[ClassicGroupMember]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> ClassicGroupMember | None:
        """The member with this id."""
        return self._members.get(member_id)

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        """The member id of this instance id."""
        return None if group_instance_id is None else self._static.get(group_instance_id)

    def add(self, member: ClassicGroupMember) -> None:
        """Add a member; the first one leads."""
        self._members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Remove a member; if it was the leader, the next one leads (joined ones first)."""
        member = self._members.pop(member_id)
        if member.group_instance_id is not None:
            self._static.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = self._next_leader()

    def rename(self, old_id: str, new_id: str) -> ClassicGroupMember:
        """A static member returned under a new id and keeps its position and leadership.

        Its session does not move with it: the scheduled timer names the old id and has no effect.
        """
        member = self._members[old_id]
        member.member_id = new_id
        member.session = Deadline()
        self._members = {
            (new_id if member_id == old_id else member_id): held
            for member_id, held in self._members.items()
        }
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def elect_joined_leader(self) -> bool:
        """Make sure the leader is a member that has joined; False if none has."""
        leader = self._members.get(self.leader_id or "")
        if leader is None or leader.join_reply is None:
            joined = [member.member_id for member in self if member.join_reply is not None]
            if not joined:
                return False
            self.leader_id = joined[0]
        return True

    def check(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether the member id is valid for this instance id: NONE, UNKNOWN_MEMBER_ID or
        FENCED_INSTANCE_ID."""
        if group_instance_id is not None:
            holder = self._static.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def all_joined(self) -> bool:
        """Whether every member's join waits here."""
        return all(member.join_reply is not None for member in self)

    def common_protocols(self, without: str | None = None) -> set[str]:
        """Protocols that every member (but one) supports."""
        sets = [
            {name for name, _ in member.protocols} for member in self if member.member_id != without
        ]
        return set.intersection(*sets) if sets else set()

    def accepts(self, protocols: tuple[tuple[str, bytes], ...], without: str | None) -> bool:
        """Whether a member with these protocols shares one with all others."""
        names = {name for name, _ in protocols}
        others = [member for member in self if member.member_id != without]
        return bool(names) and (not others or bool(names & self.common_protocols(without)))

    def vote(self) -> str:
        """The protocol most members prefer among those all share."""
        candidates = self.common_protocols()
        votes: Counter[str] = Counter()
        for member in self:
            votes[next(name for name, _ in member.protocols if name in candidates)] += 1
        return votes.most_common(1)[0][0]

    def _next_leader(self) -> str | None:
        joined = [member.member_id for member in self if member.join_reply is not None]
        return next(iter(joined or self._members), None)
