"""One member of a classic group."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.coordinator.effects import Deadline, JoinedMember, JoinRequest
from broker.coordinator.records import StoredMember


@dataclass(slots=True)
class Member:
    """A consumer in a group.

    Invariant: at most one of `join_token` and `sync_token` is set; a member with either is kept
    alive without heartbeats, since its request is waiting here.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""
    join_token: object = None
    sync_token: object = None
    supports_skip_assignment: bool = False
    session: Deadline = field(default_factory=Deadline)

    @classmethod
    def joining(cls, member_id: str, request: JoinRequest) -> Member:
        """A member made by its first join."""
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
    def stored(cls, member: StoredMember, protocol_name: str | None) -> Member:
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
        return self.join_token is not None or self.sync_token is not None

    def take_wishes(self, request: JoinRequest) -> None:
        """What a later join of the same member asks for."""
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms

    def metadata(self, protocol_name: str | None) -> bytes:
        """What the member said of itself under this protocol."""
        return next((data for name, data in self.protocols if name == protocol_name), b"")

    def as_joined(self, protocol_name: str | None) -> JoinedMember:
        """The member as its leader hears of it."""
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol_name))

    def as_stored(self, protocol_name: str | None, assignment: bytes) -> StoredMember:
        """The member as the log remembers it."""
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
