"""What a group machine asks of its shell, and what it answers to its members.

Plain values; the shell carries effects out in their order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from broker.coordinator.records import GroupRecord, StoredMember
from bus.errors import ErrorCode


class TimerKind(Enum):
    """What a timer of a group is about."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


@dataclass(slots=True)
class Deadline:
    """A moment that often moves, and the earliest timer already set for it.

    A heartbeat moves only the moment; the timer looks at it when it fires. So a heartbeat costs
    nothing, whatever the number of members.
    """

    at_ms: int | None = None
    armed_ms: int | None = None

    def move(self, at_ms: int) -> bool:
        """Set the moment; True if a timer must be armed for it."""
        self.at_ms = at_ms
        if self.armed_ms is not None and self.armed_ms <= at_ms:
            return False
        self.armed_ms = at_ms
        return True

    def clear(self) -> None:
        """Nothing is awaited; a timer that still fires finds that out."""
        self.at_ms = None

    def fired(self, now_ms: int) -> int | None:
        """A timer fired: 0 if the moment has come, ms to re-arm for, None if cleared."""
        if self.armed_ms is not None and self.armed_ms <= now_ms:
            self.armed_ms = None
        if self.at_ms is None:
            return None
        if self.at_ms <= now_ms:
            self.at_ms = None
            return 0
        if self.armed_ms is not None and self.armed_ms <= self.at_ms:
            return None
        self.armed_ms = self.at_ms
        return self.at_ms - now_ms


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader hears of it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerJoin:
    """Give `result` to the request that waits under `token`."""

    token: object
    result: JoinResult


@dataclass(frozen=True, slots=True)
class AnswerSync:
    """Give `result` to the request that waits under `token`."""

    token: object
    result: SyncResult


@dataclass(frozen=True, slots=True)
class Arm:
    """Call `on_timer(kind, subject)` after `delay_ms`."""

    kind: TimerKind
    subject: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Persist:
    """Store `record`, then call `on_stored(generation, error)`."""

    record: GroupRecord
    generation: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that came back: the name and wishes it had, and its answer once stored."""

    before: StoredMember
    protocols: tuple[tuple[str, bytes], ...]
    token: object
    result: JoinResult


@dataclass(frozen=True, slots=True)
class PersistReplacement:
    """Store `record`, then call `on_replaced(replacement, error)`."""

    record: GroupRecord
    replacement: Replacement


Effect = AnswerJoin | AnswerSync | Arm | Persist | PersistReplacement


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup as the machine sees it; `token` is how the shell finds the waiting request."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    token: object
    fresh_member_id: str = ""
    require_known_member_id: bool = False
    supports_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """SyncGroup as the machine sees it; only the leader brings assignments."""

    member_id: str
    group_instance_id: str | None
    generation: int
    token: object
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)
