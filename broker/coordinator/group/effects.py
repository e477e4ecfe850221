"""Requests to a group's state machine, and the effects it returns.

Plain values; the service executes effects in their sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from broker.coordinator.group.records import GroupRecord, StoredMember
from bus.errors import ErrorCode


class TimerKind(Enum):
    """The timers of a group."""

    SESSION = "session"
    JOIN = "join"
    SYNC = "sync"


@dataclass(slots=True)
class Deadline:
    """A time that often moves, and the earliest timer already scheduled for it.

    A heartbeat moves only the time; the timer compares with it when it fires. So a heartbeat costs
    nothing, for any number of members.
    """

    at_ms: int | None = None
    scheduled_ms: int | None = None

    def move(self, at_ms: int) -> bool:
        """Set the time; True if a timer must be scheduled for it."""
        self.at_ms = at_ms
        if self.scheduled_ms is not None and self.scheduled_ms <= at_ms:
            return False
        self.scheduled_ms = at_ms
        return True

    def clear(self) -> None:
        """Cancel the deadline; a timer that still fires has no effect."""
        self.at_ms = None

    def fired(self, now_ms: int) -> int | None:
        """A timer fired: 0 if the deadline is over, ms for the next timer, None if cancelled."""
        if self.scheduled_ms is not None and self.scheduled_ms <= now_ms:
            self.scheduled_ms = None
        if self.at_ms is None:
            return None
        if self.at_ms <= now_ms:
            self.at_ms = None
            return 0
        if self.scheduled_ms is not None and self.scheduled_ms <= self.at_ms:
            return None
        self.scheduled_ms = self.at_ms
        return self.at_ms - now_ms


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it."""

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
class ReplyToJoin:
    """Call `reply(result)` of the waiting request."""

    reply: object
    result: JoinResult


@dataclass(frozen=True, slots=True)
class ReplyToSync:
    """Call `reply(result)` of the waiting request."""

    reply: object
    result: SyncResult


@dataclass(frozen=True, slots=True)
class ScheduleTimer:
    """Call `on_timer(kind, subject)` after `delay_ms`."""

    kind: TimerKind
    subject: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class PersistGroup:
    """Store `record`, then call `on_stored(generation, error)`."""

    record: GroupRecord
    generation: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """A static member that returned: its former id and protocols, and its response once stored."""

    before: StoredMember
    protocols: tuple[tuple[str, bytes], ...]
    reply: object
    result: JoinResult


@dataclass(frozen=True, slots=True)
class PersistReplacement:
    """Store `record`, then call `on_replaced(replacement, error)`."""

    record: GroupRecord
    replacement: Replacement


Effect = ReplyToJoin | ReplyToSync | ScheduleTimer | PersistGroup | PersistReplacement


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """JoinGroup for the state machine; `reply` answers the waiting request."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reply: object
    fresh_member_id: str = ""
    require_known_member_id: bool = False
    supports_skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """SyncGroup for the state machine; only the leader sends assignments."""

    member_id: str
    group_instance_id: str | None
    generation: int
    reply: object
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: dict[str, bytes] = field(default_factory=dict)
