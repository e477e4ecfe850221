"""What all parts of a classic group's machine stand on: its state, its timers, its answers.

In: nothing; the parts above call it. Out: effects.
Never: a decision about who is in the group or when it rebalances.
"""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Arm,
    Deadline,
    Effect,
    JoinResult,
    SyncResult,
    TimerKind,
)
from broker.coordinator.member import Member
from broker.coordinator.records import StoredGroup
from broker.coordinator.roster import Roster
from broker.coordinator.states import TRANSITIONS, GroupState
from bus.errors import ErrorCode, check


class GroupCore:
    """The state of one group.

    Invariant: Empty has no members; Stable's members have the assignments that were stored;
    `generation` never falls.
    """

    def __init__(
        self, group_id: str, now: ClockReading, *, initial_delay_ms: int, max_size: int
    ) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.roster = Roster()
        self._pending: dict[str, Deadline] = {}
        self._unsynced: set[str] = set()
        self._assignments: dict[str, bytes] | None = None
        self._join = Deadline()
        self._sync = Deadline()
        self._join_give_up_ms = 0
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size

    def _become(self, state: GroupState, now: ClockReading) -> None:
        check(state in TRANSITIONS[self.state], f"no way from {self.state} to {state}")
        self.state = state
        self.state_timestamp_ms = now.wall_ms

    def _touch(self, member: Member, now: ClockReading) -> list[Effect]:
        if member.session.move(now.monotonic_ms + member.session_timeout_ms):
            return [Arm(TimerKind.SESSION, member.member_id, member.session_timeout_ms)]
        return []

    def _arm(
        self, deadline: Deadline, kind: TimerKind, delay_ms: int, now: ClockReading
    ) -> list[Effect]:
        return [Arm(kind, "", delay_ms)] if deadline.move(now.monotonic_ms + delay_ms) else []

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether a member of this very generation asks."""
        error = self.roster.check(member_id, group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _answer_error(self, member: Member, error: ErrorCode) -> list[Effect]:
        """Whatever waits for this member is answered with `error`."""
        effects: list[Effect] = []
        if member.join_token is not None:
            effects.append(AnswerJoin(member.join_token, JoinResult(error, member.member_id)))
            member.join_token = None
        if member.sync_token is not None:
            effects.append(AnswerSync(member.sync_token, SyncResult(error)))
            member.sync_token = None
        return effects

    def _join_result(
        self, member: Member, *, skip_assignment: bool = False, led_by: str | None = None
    ) -> JoinResult:
        leader = self.roster.leader_id if led_by is None else led_by
        leads = member.member_id == leader
        members = tuple(held.as_joined(self.protocol_name) for held in self.roster)
        return JoinResult(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=leader or "",
            members=members if leads else (),
            skip_assignment=skip_assignment,
        )

    def _sync_result(self, member: Member) -> SyncResult:
        return SyncResult(ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol_name)

    def _stored(self, now: ClockReading, assignments: dict[str, bytes] | None) -> StoredGroup:
        members = tuple(
            member.as_stored(
                self.protocol_name,
                member.assignment if assignments is None else assignments[member.member_id],
            )
            for member in self.roster
        )
        return StoredGroup(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id,
            state_timestamp_ms=now.wall_ms,
            members=members,
        )
