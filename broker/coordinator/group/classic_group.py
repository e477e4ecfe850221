"""The state machine of one classic consumer group.

In: requests of members, fired timers, stored records; the time as a `ClockReading`. Out: effects,
in the sequence in which the service must execute them. Never: I/O, clock, randomness; the service
creates member ids. Rules as of Kafka 4.4's ClassicGroup (KIP-62, 134, 345, 394, 559).
"""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.group.effects import (
    Deadline,
    Effect,
    JoinRequest,
    JoinResult,
    PersistGroup,
    PersistReplacement,
    Replacement,
    ReplyToJoin,
    ReplyToSync,
    ScheduleTimer,
    SyncRequest,
    SyncResult,
    TimerKind,
)
from broker.coordinator.group.members import ClassicGroupMember, MemberTable
from broker.coordinator.group.records import GroupRecord, StoredGroup
from broker.coordinator.group.states import TRANSITIONS, GroupState
from bus.errors import ErrorCode, check


class ClassicGroup:
    """One group and its members.

    Invariant: Empty has no members; Stable's members have the assignments that were stored;
    `generation` never falls.

    Whole, though long: one state machine, whose transitions are read together; its members are a
    class beside it (`MemberTable`).
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
        self.members = MemberTable()
        self._pending: dict[str, Deadline] = {}
        self._unsynced: set[str] = set()
        self._assignments: dict[str, bytes] | None = None
        self._join = Deadline()
        self._sync = Deadline()
        self._initial_join_ends_ms = 0
        self._initial_delay_ms = initial_delay_ms
        self._max_size = max_size

    # -- life ------------------------------------------------------------------------------

    def replay(self, value: StoredGroup, now: ClockReading) -> list[Effect]:
        """Restore the state from the log; members have a whole session timeout to send a
        request."""
        self.members = MemberTable()
        self.generation = value.generation
        self.protocol_type = value.protocol_type
        self.protocol_name = value.protocol_name
        self.state_timestamp_ms = value.state_timestamp_ms
        for stored in value.members:
            self.members.add(ClassicGroupMember.stored(stored, value.protocol_name))
        self.state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.members.leader_id = value.leader
        return [arm for member in self.members for arm in self._touch(member, now)]

    def fail_all(self, error: ErrorCode, now: ClockReading) -> list[Effect]:
        """The group is deleted or another broker leads its partition: answer all waiting
        requests."""
        effects: list[Effect] = []
        for member in self.members:
            effects += self._reply_error(member, error)
        self._transition_to(GroupState.DEAD, now)
        return effects

    # -- join ------------------------------------------------------------------------------

    def join(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """A member joins the next generation."""
        refusal = self._join_error(request)
        if refusal is not None:
            return [ReplyToJoin(request.reply, JoinResult(refusal, request.member_id))]
        if not request.member_id:
            return self._join_new(request, now)
        return self._join_known(request, now)

    def _join_error(self, request: JoinRequest) -> ErrorCode | None:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not request.protocols or not request.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        others = len(self.members) - (request.member_id in self.members)
        if others and request.protocol_type != self.protocol_type:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        static_id = self.members.static_member_id(request.group_instance_id)
        replaced = request.member_id or static_id or ""
        if not self.members.accepts(request.protocols, replaced):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if (
            replaced not in self.members
            and len(self.members) + len(self._pending) >= self._max_size
        ):
            return ErrorCode.GROUP_MAX_SIZE_REACHED
        return None

    def _join_new(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        old_id = self.members.static_member_id(request.group_instance_id)
        if old_id is not None:
            return self._replace_static(old_id, request, now)
        if request.require_known_member_id and request.group_instance_id is None:
            return self._require_member_id(request, now)
        return self._add(ClassicGroupMember.joining(request.fresh_member_id, request), request, now)

    def _require_member_id(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """KIP-394: a member that times out in its first join must not stay in the group."""
        member_id = request.fresh_member_id
        deadline = self._pending.setdefault(member_id, Deadline())
        deadline.move(now.monotonic_ms + request.session_timeout_ms)
        return [
            ScheduleTimer(TimerKind.SESSION, member_id, request.session_timeout_ms),
            ReplyToJoin(request.reply, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)),
        ]

    def _join_known(self, request: JoinRequest, now: ClockReading) -> list[Effect]:
        if self._pending.pop(request.member_id, None) is not None:
            return self._add(ClassicGroupMember.joining(request.member_id, request), request, now)
        error = self.members.check(request.member_id, request.group_instance_id)
        member = self.members.get(request.member_id)
        if error or member is None:
            return [ReplyToJoin(request.reply, JoinResult(error, request.member_id))]
        changed = member.protocols != request.protocols
        rejoins = self.state is GroupState.PREPARING_REBALANCE or changed
        if not rejoins and self.state is GroupState.COMPLETING_REBALANCE:
            return self._repeat_join_reply(member, request, now)
        if not rejoins and member.member_id != self.members.leader_id:
            return self._repeat_join_reply(member, request, now)
        return self._rejoin(member, request, now)

    def _repeat_join_reply(
        self, member: ClassicGroupMember, request: JoinRequest, now: ClockReading
    ) -> list[Effect]:
        """Its response was lost, or nothing changed: respond with the same generation again."""
        return [
            *self._touch(member, now),
            ReplyToJoin(request.reply, self._join_result(member)),
        ]

    def _add(
        self, member: ClassicGroupMember, request: JoinRequest, now: ClockReading
    ) -> list[Effect]:
        if not len(self.members):
            self.protocol_type = request.protocol_type
        self.members.add(member)
        member.join_reply = request.reply
        if self.state is GroupState.PREPARING_REBALANCE and self._is_initial(now):
            self._extend_initial_delay(now)
        return [*self._touch(member, now), *self._prepare_rebalance(now)]

    # -- static members (KIP-345) -----------------------------------------------------------

    def _replace_static(self, old_id: str, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """A new process uses this instance id; the old one is fenced."""
        member = self.members.get(old_id)
        check(member is not None, "an instance id belongs to a member")
        assert member is not None
        effects = self._reply_error(member, ErrorCode.FENCED_INSTANCE_ID)
        before = member.as_stored(None, b""), member.protocols
        led_by = self.members.leader_id
        self.members.rename(old_id, request.fresh_member_id)
        self._unsynced.discard(old_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        member.update_from(request)
        # As in Kafka only the protocol that the group would choose now counts, not its metadata:
        # that of a cooperative member has its partitions and generation, which change every time.
        if self.state is not GroupState.STABLE or self.members.vote() != self.protocol_name:
            return [*effects, *self._rejoin(member, request, now)]
        member.join_reply = request.reply
        result = self._resumed(member, request, led_by or "")
        return [
            *effects,
            *self._touch(member, now),
            PersistReplacement(
                GroupRecord(self.group_id, self._to_stored(now, None)),
                Replacement(*before, request.reply, result),
            ),
        ]

    def _resumed(self, member: ClassicGroupMember, request: JoinRequest, led_by: str) -> JoinResult:
        """The running generation. A leader must not assign again: with KIP-814 the response says
        so; an older client gets another leader than itself, the id it had before."""
        if request.supports_skip_assignment:
            leads = member.member_id == self.members.leader_id
            return self._join_result(member, skip_assignment=leads)
        return self._join_result(member, led_by=led_by)

    def on_replaced(
        self, replacement: Replacement, error: ErrorCode, now: ClockReading
    ) -> list[Effect]:
        """The new id is in the log, or could not be stored: then the old one is restored."""
        member = self.members.get(replacement.result.member_id)
        if member is None or member.join_reply is not replacement.reply:
            return []  # a rebalance has answered it, or the member was replaced again
        member.join_reply = None
        if not error:
            return [
                *self._touch(member, now),
                ReplyToJoin(replacement.reply, replacement.result),
            ]
        before = replacement.before
        self.members.rename(member.member_id, before.member_id)
        member.client_id, member.client_host = before.client_id, before.client_host
        member.protocols = replacement.protocols
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        return [
            *self._touch(member, now),
            ReplyToJoin(replacement.reply, JoinResult(error)),
        ]

    # -- heartbeat, leave, commit ----------------------------------------------------------

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation: int, now: ClockReading
    ) -> tuple[ErrorCode, list[Effect]]:
        """Keep a member alive."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, []
        error = self.check_member(member_id, group_instance_id, generation)
        member = self.members.get(member_id)
        if error or member is None:
            return error, []
        preparing = self.state is GroupState.PREPARING_REBALANCE
        answer = ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE
        return answer, self._touch(member, now)

    def leave(
        self, member_id: str, group_instance_id: str | None, now: ClockReading
    ) -> tuple[ErrorCode, str, list[Effect]]:
        """Remove a member; a static one may be named by its instance id alone (KIP-345)."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, []
        if self._pending.pop(member_id, None) is not None:
            return ErrorCode.NONE, member_id, self._after_pending_left(now)
        if not member_id and group_instance_id is not None:
            member_id = self.members.static_member_id(group_instance_id) or ""
        error = self.members.check(member_id, group_instance_id)
        member = self.members.get(member_id)
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
        """A commit keeps the member alive like a heartbeat."""
        member = self.members.get(member_id)
        return [] if member is None else self._touch(member, now)

    # -- join phase ------------------------------------------------------------------------

    def _prepare_rebalance(self, now: ClockReading) -> list[Effect]:
        """Start the join phase, or continue it."""
        effects: list[Effect] = []
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now)
        self._assignments = None
        self._unsynced.clear()
        self._sync.clear()
        for member in self.members:
            if member.sync_reply is not None:
                effects += self._reply_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
                effects += self._touch(member, now)
        initial = self.state is GroupState.EMPTY and self._initial_delay_ms > 0
        self._transition_to(GroupState.PREPARING_REBALANCE, now)
        longest = self.members.rebalance_timeout_ms()
        self._initial_join_ends_ms = now.monotonic_ms + longest if initial else 0
        delay = min(self._initial_delay_ms, longest) if initial else longest
        effects += self._schedule(self._join, TimerKind.JOIN, delay, now)
        return effects if initial else [*effects, *self._try_complete_join(now)]

    def _rejoin(
        self, member: ClassicGroupMember, request: JoinRequest, now: ClockReading
    ) -> list[Effect]:
        """A member joins again with new metadata: the next generation begins."""
        effects = self._reply_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.update_from(request)
        member.join_reply = request.reply
        return [*effects, *self._touch(member, now), *self._prepare_rebalance(now)]

    def _is_initial(self, now: ClockReading) -> bool:
        """Whether a new group still waits for its first members."""
        return self._initial_join_ends_ms > now.monotonic_ms

    def _extend_initial_delay(self, now: ClockReading) -> None:
        """Each new member of a starting group extends the wait for the next one (KIP-134)."""
        self._join.at_ms = min(
            now.monotonic_ms + self._initial_delay_ms, self._initial_join_ends_ms
        )

    def _try_complete_join(self, now: ClockReading) -> list[Effect]:
        waits = self._pending or not self.members.all_joined() or self._is_initial(now)
        return [] if waits else self._complete_join(now)

    def _complete_join(self, now: ClockReading) -> list[Effect]:
        """The join phase is over: the members that joined are the next generation."""
        for member in self.members:
            if member.join_reply is None and member.group_instance_id is None:
                self._forget(member)
        self._initial_join_ends_ms = 0
        if len(self.members) and not self.members.elect_joined_leader():
            longest = self.members.rebalance_timeout_ms()
            return self._schedule(self._join, TimerKind.JOIN, longest, now)
        self._join.clear()
        self.generation += 1
        return self._start_generation(now) if len(self.members) else self._become_empty(now)

    def _become_empty(self, now: ClockReading) -> list[Effect]:
        self.protocol_name = None
        self.members.leader_id = None
        self._transition_to(GroupState.EMPTY, now)
        return [
            PersistGroup(GroupRecord(self.group_id, self._to_stored(now, None)), self.generation)
        ]

    def _start_generation(self, now: ClockReading) -> list[Effect]:
        self.protocol_name = self.members.vote()
        self._transition_to(GroupState.COMPLETING_REBALANCE, now)
        effects: list[Effect] = []
        for member in self.members:
            effects += self._touch(member, now)
            self._unsynced.add(member.member_id)
            if member.join_reply is not None:
                effects.append(ReplyToJoin(member.join_reply, self._join_result(member)))
                member.join_reply = None
        longest = self.members.rebalance_timeout_ms()
        return [*effects, *self._schedule(self._sync, TimerKind.SYNC, longest, now)]

    # -- sync phase ------------------------------------------------------------------------

    def sync(self, request: SyncRequest, now: ClockReading) -> list[Effect]:
        """A member requests its assignment; the leader sends all of them."""
        error = self._sync_error(request)
        member = self.members.get(request.member_id)
        if error or member is None:
            return [ReplyToSync(request.reply, SyncResult(error))]
        self._unsynced.discard(member.member_id)
        if self.state is GroupState.STABLE:
            return [
                *self._touch(member, now),
                ReplyToSync(request.reply, self._sync_result(member)),
            ]
        effects = self._reply_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_reply = request.reply
        if member.member_id != self.members.leader_id or self._assignments is not None:
            return effects
        self._assignments = {
            held.member_id: request.assignments.get(held.member_id, b"") for held in self.members
        }
        record = GroupRecord(self.group_id, self._to_stored(now, self._assignments))
        return [*effects, PersistGroup(record, self.generation)]

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(request.member_id, request.group_instance_id, request.generation)
        if error:
            return error
        if request.protocol_type not in (None, self.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, self.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def on_stored(self, generation: int, error: ErrorCode, now: ClockReading) -> list[Effect]:
        """The record of `PersistGroup` is in the log, or could not be stored."""
        if self.state is not GroupState.COMPLETING_REBALANCE or generation != self.generation:
            return []
        if self._assignments is None:
            return []
        if error:
            return self._fail_sync(error, now)
        for member in self.members:
            member.assignment = self._assignments.get(member.member_id, b"")
        self._assignments = None
        self._transition_to(GroupState.STABLE, now)
        effects: list[Effect] = []
        for member in self.members:
            if member.sync_reply is not None:
                effects += self._touch(member, now)
                effects.append(ReplyToSync(member.sync_reply, self._sync_result(member)))
                member.sync_reply = None
        return effects

    def _fail_sync(self, error: ErrorCode, now: ClockReading) -> list[Effect]:
        effects: list[Effect] = []
        for member in self.members:
            effects += self._reply_error(member, error)
        self._assignments = None
        return [*effects, *self._prepare_rebalance(now)]

    # -- timeouts and removals -------------------------------------------------------------

    def _on_join_timeout(self, now: ClockReading) -> list[Effect]:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return []
        if self._is_initial(now) and self._pending and not len(self.members):
            return self._schedule(self._join, TimerKind.JOIN, self._initial_delay_ms, now)
        return self._complete_join(now)

    def _on_sync_timeout(self, now: ClockReading) -> list[Effect]:
        """Remove members that joined but never requested their assignment."""
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return []
        late = [member for member in self.members if member.member_id in self._unsynced]
        for member in late:
            self._forget(member)
        self._unsynced.clear()
        return self._prepare_rebalance(now) if late else []

    def _after_pending_left(self, now: ClockReading) -> list[Effect]:
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now)
        return []

    def _remove(self, member: ClassicGroupMember, now: ClockReading) -> list[Effect]:
        effects = self._reply_error(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget(member)
        return [*effects, *self._prepare_rebalance(now)]

    def _forget(self, member: ClassicGroupMember) -> None:
        self.members.remove(member.member_id)
        self._unsynced.discard(member.member_id)

    # -- timers ----------------------------------------------------------------------------

    def on_timer(self, kind: TimerKind, subject: str, now: ClockReading) -> list[Effect]:
        """A timer fired; it may be one that is no longer needed."""
        if kind is TimerKind.SESSION:
            return self._on_session_timer(subject, now)
        deadline = self._join if kind is TimerKind.JOIN else self._sync
        left_ms = deadline.fired(now.monotonic_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [ScheduleTimer(kind, subject, left_ms)]
        return self._on_join_timeout(now) if kind is TimerKind.JOIN else self._on_sync_timeout(now)

    def _on_session_timer(self, member_id: str, now: ClockReading) -> list[Effect]:
        pending = self._pending.get(member_id)
        if pending is not None:
            del self._pending[member_id]
            return self._after_pending_left(now)
        member = self.members.get(member_id)
        if member is None:
            return []
        left_ms = member.session.fired(now.monotonic_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [ScheduleTimer(TimerKind.SESSION, member_id, left_ms)]
        if member.is_waiting:
            return self._touch(member, now)
        return self._remove(member, now)

    # -- shared -----------------------------------------------------------------------------

    def _transition_to(self, state: GroupState, now: ClockReading) -> None:
        check(state in TRANSITIONS[self.state], f"no way from {self.state} to {state}")
        self.state = state
        self.state_timestamp_ms = now.wall_ms

    def _touch(self, member: ClassicGroupMember, now: ClockReading) -> list[Effect]:
        if member.session.move(now.monotonic_ms + member.session_timeout_ms):
            return [ScheduleTimer(TimerKind.SESSION, member.member_id, member.session_timeout_ms)]
        return []

    def _schedule(
        self, deadline: Deadline, kind: TimerKind, delay_ms: int, now: ClockReading
    ) -> list[Effect]:
        return (
            [ScheduleTimer(kind, "", delay_ms)]
            if deadline.move(now.monotonic_ms + delay_ms)
            else []
        )

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether the request comes from a member of this generation."""
        error = self.members.check(member_id, group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

    def _reply_error(self, member: ClassicGroupMember, error: ErrorCode) -> list[Effect]:
        """Answer the member's waiting request, if any, with `error`."""
        effects: list[Effect] = []
        if member.join_reply is not None:
            effects.append(ReplyToJoin(member.join_reply, JoinResult(error, member.member_id)))
            member.join_reply = None
        if member.sync_reply is not None:
            effects.append(ReplyToSync(member.sync_reply, SyncResult(error)))
            member.sync_reply = None
        return effects

    def _join_result(
        self,
        member: ClassicGroupMember,
        *,
        skip_assignment: bool = False,
        led_by: str | None = None,
    ) -> JoinResult:
        leader = self.members.leader_id if led_by is None else led_by
        leads = member.member_id == leader
        members = tuple(held.as_joined(self.protocol_name) for held in self.members)
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

    def _sync_result(self, member: ClassicGroupMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol_name)

    def _to_stored(self, now: ClockReading, assignments: dict[str, bytes] | None) -> StoredGroup:
        members = tuple(
            member.as_stored(
                self.protocol_name,
                member.assignment if assignments is None else assignments[member.member_id],
            )
            for member in self.members
        )
        return StoredGroup(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id,
            state_timestamp_ms=now.wall_ms,
            members=members,
        )
