"""The members of a group: who they are, what protocols they share, who leads.

In: members. Out: answers about them. Never: states, timers, records; those are the machine's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.coordinator.effects import Deadline
from broker.coordinator.member import Member
from bus.errors import ErrorCode


class Roster:
    """All members, in the order in which they came.

    Invariant: `leader_id` is a member's id or None; `_static` maps every instance id present to
    its member's id.
    """

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        self.leader_id: str | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def get(self, member_id: str) -> Member | None:
        """The member with this id."""
        return self._members.get(member_id)

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        """Who holds this instance id."""
        return None if group_instance_id is None else self._static.get(group_instance_id)

    def add(self, member: Member) -> None:
        """Take a member in; the first one leads."""
        self._members[member.member_id] = member
        if member.group_instance_id is not None:
            self._static[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> None:
        """Let a member go; if it led, the next one in line leads (joined ones first)."""
        member = self._members.pop(member_id)
        if member.group_instance_id is not None:
            self._static.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = self._next_leader()

    def rename(self, old_id: str, new_id: str) -> Member:
        """A static member came back under a new id and keeps its place and its lead.

        Its session does not come with it: the timer that is set names the old id and finds nobody.
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
        """Make sure the leader is one that has joined; False if nobody has."""
        leader = self._members.get(self.leader_id or "")
        if leader is None or leader.join_token is None:
            joined = [member.member_id for member in self if member.join_token is not None]
            if not joined:
                return False
            self.leader_id = joined[0]
        return True

    def check(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether a request of this member is its own: NONE, UNKNOWN_MEMBER_ID or FENCED."""
        if group_instance_id is not None:
            holder = self._static.get(group_instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asks to be waited for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def all_joined(self) -> bool:
        """Whether every member's join waits here."""
        return all(member.join_token is not None for member in self)

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
        joined = [member.member_id for member in self if member.join_token is not None]
        return next(iter(joined or self._members), None)
