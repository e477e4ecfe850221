"""The machine of one classic consumer group.

In: requests of members, fired timers, stored records; the time as a `ClockReading`. Out: effects,
in the order in which the shell must carry them out. `rebalance` has the phases between two
generations, `static_members` the return of a member with an instance id.
Never: I/O, clock, dice; member ids are drawn by the shell. Rules as of Kafka 4.3's ClassicGroup
(KIP-62, 134, 345, 394, 559).
"""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.effects import (
    AnswerJoin,
    Arm,
    Deadline,
    Effect,
    JoinRequest,
    JoinResult,
    TimerKind,
)
from broker.coordinator.member import Member
from broker.coordinator.records import StoredGroup
from broker.coordinator.roster import Roster
from broker.coordinator.states import GroupState
from broker.coordinator.static_members import StaticMembers
from bus.errors import ErrorCode


class ClassicGroup(StaticMembers):
    """One group, as its members meet it."""

    # -- life ------------------------------------------------------------------------------

    def replay(self, value: StoredGroup, now: ClockReading) -> list[Effect]:
        """Take the state that the log holds; members have a whole session to show up."""
        self.roster = Roster()
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol_name = value.protocol_name
        self.state_timestamp_ms = value.state_timestamp_ms
        for stored in value.members:
            self.roster.add(Member.stored(stored, value.protocol_name))
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.roster.leader_id = value.leader
        return [arm for member in self.roster for arm in self._touch(member, now)]

    def die(self, error: ErrorCode, now: ClockReading) -> list[Effect]:
        """The group is deleted or its partition is led elsewhere: everyone who waits hears it."""
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._answer_error(member, error)
        self._become(GroupState.DEAD, now)
        return effects

    # -- join ------------------------------------------------------------------------------

    def join(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """A member wants to take part in the next generation."""
        refusal = self._join_refusal(request)
        if refusal is not None:
            return [AnswerJoin(request.token, JoinResult(refusal, request.member_id))]
        if not request.member_id:
            return self._join_new(request, now)
        return self._join_known(request, now)

    def _join_refusal(self, request: JoinRequest) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not request.protocols or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        others = len(self.roster) - (request.member_id in self.roster)
        if others and request.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        static_id = self.roster.static_member_id(request.group_instance_id)
        replaced = request.member_id or static_id or ""
        if not self.roster.accepts(request.protocols, replaced):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if replaced not in self.roster and len(self.roster) + len(self._pending) >= self._max_size:
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return None

    def _join_new(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        old_id = self.roster.static_member_id(request.group_instance_id)
        if old_id is not None:
            return self._replace_static(old_id, request, now)
        if request.require_known_member_id and request.group_instance_id is None:
            return self._ask_to_come_back(request, now)
        return self._add(Member.joining(request.fresh_member_id, request), request, now)

    def _ask_to_come_back(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """KIP-394: a member that times out in its first join must not leave a ghost behind."""
        member_id = request.fresh_member_id
        deadline = self._pending.setdefault(member_id, Deadline())
        deadline.move(now.monotonic_ms + request.session_timeout_ms)
        return [
            Arm(TimerKind.SESSION, member_id, request.session_timeout_ms),
            AnswerJoin(request.token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)),
        ]

    def _join_known(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        if self._pending.pop(request.member_id, None) is not None:
            return self._add(Member.joining(request.member_id, request), request, now)
        error = self.roster.check(request.member_id, request.group_instance_id)
        member = self.roster.get(request.member_id)
        if error or member is None:
            return [AnswerJoin(request.token, JoinResult(error, request.member_id))]
        changed = member.protocols != request.protocols
        rejoins = self.state is GroupState.PREPARING_REBALANCE or changed
        if not rejoins and self.state is GroupState.COMPLETING_REBALANCE:
            return self._repeat_join_answer(member, request, now)
        if not rejoins and member.member_id != self.roster.leader_id:
            return self._repeat_join_answer(member, request, now)
        return self._rejoin(member, request, now)

    def _repeat_join_answer(
        self, member: Member, request: JoinRequest, now: ClockReading
    ) -> list[Effect]:
        """The answer to its join was lost, or nothing changed: the same generation again."""
        return [
            *self._touch(member, now),
            AnswerJoin(request.token, self._join_result(member)),
        ]

    def _add(self, member: Member, request: JoinRequest, now: ClockReading) -> list[Effect]:
        if not len(self.roster):
            self.protocol_type = request.protocol_type
        self.roster.add(member)
        member.join_token = request.token
        if self.state is GroupState.PREPARING_REBALANCE and self._is_initial(now):
            self._extend_initial_delay(now)
        return [*self._touch(member, now), *self._prepare_rebalance(now)]

    # -- heartbeat, leave, commit ----------------------------------------------------------

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation: int, now: ClockReading
    ) -> tuple[ErrorCode, list[Effect]]:
        """A member lives."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = self.check_member(member_id, group_instance_id, generation)
        member = self.roster.get(member_id)
        if error or member is None:
            return error, []
        preparing = self.state is GroupState.PREPARING_REBALANCE
        answer = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
        return answer, self._touch(member, now)

    def leave(
        self, member_id: str, group_instance_id: str | None, now: ClockReading
    ) -> tuple[ErrorCode, str, list[Effect]]:
        """A member goes; static ones may be named by instance id alone (KIP-345)."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, []
        if self._pending.pop(member_id, None) is not None:
            return ErrorCode.NONE, member_id, self._after_pending_left(now)
        if not member_id and group_instance_id is not None:
            member_id = self.roster.static_member_id(group_instance_id) or ""
        error = self.roster.check(member_id, group_instance_id)
        member = self.roster.get(member_id)
        if error or member is None:
            return error, member_id, []
        return ErrorCode.NONE, member_id, self._remove(member, now)

    def check_commit(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether these offsets may be committed."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is GroupState.EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self.check_member(member_id, group_instance_id, generation)
        if not error and self.state is GroupState.COMPLETING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    def touch(self, member_id: str, now: ClockReading) -> list[Effect]:
        """A commit counts as a sign of life."""
        member = self.roster.get(member_id)
        return [] if member is None else self._touch(member, now)

    # -- timers ----------------------------------------------------------------------------

    def on_timer(self, kind: TimerKind, subject: str, now: ClockReading) -> list[Effect]:
        """A timer fired; it may be one that nobody waits for any more."""
        if kind is TimerKind.SESSION:
            return self._on_session_timer(subject, now)
        deadline = self._join if kind is TimerKind.JOIN else self._sync
        left_ms = deadline.fired(now.monotonic_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [Arm(kind, subject, left_ms)]
        return self._on_join_over(now) if kind is TimerKind.JOIN else self._on_sync_over(now)

    def _on_session_timer(self, member_id: str, now: ClockReading) -> list[Effect]:
        pending = self._pending.get(member_id)
        if pending is not None:
            del self._pending[member_id]
            return self._after_pending_left(now)
        member = self.roster.get(member_id)
        if member is None:
            return []
        left_ms = member.session.fired(now.monotonic_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [Arm(TimerKind.SESSION, member_id, left_ms)]
        if member.is_waiting:
            return self._touch(member, now)
        return self._remove(member, now)
