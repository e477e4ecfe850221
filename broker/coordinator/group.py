"""The machine of one classic consumer group.

In: requests of members, fired timers, stored records; time as `now_ms`. Out: effects, in the
order in which the shell must carry them out.
Never: I/O, clock, dice; member ids are drawn by the shell. Rules as of Kafka 4.3's ClassicGroup
(KIP-62, 134, 345, 394, 559).
"""

from __future__ import annotations

from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Arm,
    Deadline,
    Effect,
    JoinRequest,
    JoinResult,
    Persist,
    SyncRequest,
    SyncResult,
    TimerKind,
)
from broker.coordinator.member import Member
from broker.coordinator.records import GroupRecord, StoredGroup
from broker.coordinator.roster import Roster
from broker.coordinator.states import TRANSITIONS, GroupState
from bus.errors import ErrorCode, check


class ClassicGroup:
    """One group.

    Invariant: Empty has no members; Stable's members have the assignments that were stored;
    `generation` never falls.
    """

    def __init__(self, group_id: str, now_ms: int, *, initial_delay_ms: int, max_size: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
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

    # -- life -------------------------------------------------------------------------

    def replay(self, value: StoredGroup, now_ms: int) -> list[Effect]:
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
        return [arm for member in self.roster for arm in self._touch(member, now_ms)]

    def die(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The group is deleted or its partition is led elsewhere: everyone who waits hears it."""
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._answer_error(member, error)
        self._become(GroupState.DEAD, now_ms)
        return effects

    # -- join -------------------------------------------------------------------------

    def join(self, request: JoinRequest, now_ms: int) -> list[Effect]:
        """A member wants to take part in the next generation."""
        refusal = self._join_refusal(request)
        if refusal is not None:
            return [AnswerJoin(request.token, JoinResult(refusal, request.member_id))]
        if not request.member_id:
            return self._join_new(request, now_ms)
        return self._join_known(request, now_ms)

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

    def _join_new(self, request: JoinRequest, now_ms: int) -> list[Effect]:
        old_id = self.roster.static_member_id(request.group_instance_id)
        if old_id is not None:
            return self._replace_static(old_id, request, now_ms)
        if request.require_known_member_id and request.group_instance_id is None:
            return self._ask_to_come_back(request, now_ms)
        return self._add(Member.joining(request.fresh_member_id, request), request, now_ms)

    def _ask_to_come_back(self, request: JoinRequest, now_ms: int) -> list[Effect]:
        """KIP-394: a member that times out in its first join must not leave a ghost behind."""
        member_id = request.fresh_member_id
        deadline = self._pending.setdefault(member_id, Deadline())
        deadline.move(now_ms + request.session_timeout_ms)
        return [
            Arm(TimerKind.SESSION, member_id, request.session_timeout_ms),
            AnswerJoin(request.token, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)),
        ]

    def _join_known(self, request: JoinRequest, now_ms: int) -> list[Effect]:
        if self._pending.pop(request.member_id, None) is not None:
            return self._add(Member.joining(request.member_id, request), request, now_ms)
        error = self.roster.check(request.member_id, request.group_instance_id)
        member = self.roster.get(request.member_id)
        if error or member is None:
            return [AnswerJoin(request.token, JoinResult(error, request.member_id))]
        changed = member.protocols != request.protocols
        rejoins = self.state is GroupState.PREPARING_REBALANCE or changed
        if not rejoins and self.state is GroupState.COMPLETING_REBALANCE:
            return self._repeat_join_answer(member, request, now_ms)
        if not rejoins and member.member_id != self.roster.leader_id:
            return self._repeat_join_answer(member, request, now_ms)
        return self._rejoin(member, request, now_ms)

    def _repeat_join_answer(
        self, member: Member, request: JoinRequest, now_ms: int
    ) -> list[Effect]:
        """The answer to its join was lost, or nothing changed: the same generation again."""
        return [
            *self._touch(member, now_ms),
            AnswerJoin(request.token, self._join_result(member)),
        ]

    def _add(self, member: Member, request: JoinRequest, now_ms: int) -> list[Effect]:
        if not len(self.roster):
            self.protocol_type = request.protocol_type
        self.roster.add(member)
        member.join_token = request.token
        if self.state is GroupState.PREPARING_REBALANCE and self._is_initial(now_ms):
            self._extend_initial_delay(now_ms)
        return [*self._touch(member, now_ms), *self._prepare_rebalance(now_ms)]

    def _rejoin(self, member: Member, request: JoinRequest, now_ms: int) -> list[Effect]:
        effects = self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.join_token = request.token
        return [*effects, *self._touch(member, now_ms), *self._prepare_rebalance(now_ms)]

    def _replace_static(
        self, old_id: str, request: JoinRequest, now_ms: int
    ) -> list[Effect]:
        """KIP-345: a restarted static member takes its place back, if it can without rebalance."""
        member = self.roster.get(old_id)
        check(member is not None, "an instance id belongs to a member")
        assert member is not None
        effects = self._answer_error(member, ErrorCode.FENCED_INSTANCE_ID)
        chosen = self.protocol_name
        same = member.metadata(chosen) == dict(request.protocols).get(chosen or "")
        member = self.roster.rename(old_id, request.fresh_member_id)
        self._unsynced.discard(old_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        if self.state is GroupState.STABLE and same:
            member.protocols = request.protocols
            return [*effects, *self._resume_static(member, request, now_ms)]
        return [*effects, *self._rejoin(member, request, now_ms)]

    def _resume_static(
        self, member: Member, request: JoinRequest, now_ms: int
    ) -> list[Effect]:
        """Answer with the running generation; its leader need not assign again (KIP-814)."""
        leads = member.member_id == self.roster.leader_id
        if leads and not request.supports_skip_assignment:
            return self._rejoin(member, request, now_ms)
        result = self._join_result(member, skip_assignment=leads)
        return [
            *self._touch(member, now_ms),
            Persist(GroupRecord(self.group_id, self._stored(now_ms, None)), self.generation),
            AnswerJoin(request.token, result),
        ]

    # -- rebalance --------------------------------------------------------------------

    def _prepare_rebalance(self, now_ms: int) -> list[Effect]:
        """Ask everybody to join, or go on waiting for them."""
        effects: list[Effect] = []
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now_ms)
        self._assignments = None
        self._unsynced.clear()
        self._sync.clear()
        for member in self.roster:
            if member.sync_token is not None:
                effects += self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
                effects += self._touch(member, now_ms)
        initial = self.state is GroupState.EMPTY and self._initial_delay_ms > 0
        self._become(GroupState.PREPARING_REBALANCE, now_ms)
        longest = self.roster.rebalance_timeout_ms()
        self._join_give_up_ms = now_ms + longest if initial else 0
        delay = min(self._initial_delay_ms, longest) if initial else longest
        effects += self._arm(self._join, TimerKind.JOIN, delay, now_ms)
        return effects if initial else [*effects, *self._try_complete_join(now_ms)]

    def _is_initial(self, now_ms: int) -> bool:
        """Whether an empty group still collects its first members."""
        return self._join_give_up_ms > now_ms

    def _extend_initial_delay(self, now_ms: int) -> None:
        """Each new member of a starting group makes it worth waiting for the next (KIP-134)."""
        self._join.at_ms = min(now_ms + self._initial_delay_ms, self._join_give_up_ms)

    def _try_complete_join(self, now_ms: int) -> list[Effect]:
        waits = self._pending or not self.roster.all_joined() or self._is_initial(now_ms)
        return [] if waits else self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> list[Effect]:
        """The join phase is over: those who came are the next generation."""
        for member in self.roster:
            if member.join_token is None and member.group_instance_id is None:
                self._forget(member)
        self._join_give_up_ms = 0
        if len(self.roster) and not self.roster.elect_joined_leader():
            longest = self.roster.rebalance_timeout_ms()
            return self._arm(self._join, TimerKind.JOIN, longest, now_ms)
        self._join.clear()
        self.generation += 1
        return self._start_generation(now_ms) if len(self.roster) else self._empty(now_ms)

    def _empty(self, now_ms: int) -> list[Effect]:
        self.protocol_name = None
        self.roster.leader_id = None
        self._become(GroupState.EMPTY, now_ms)
        return [Persist(GroupRecord(self.group_id, self._stored(now_ms, None)), self.generation)]

    def _start_generation(self, now_ms: int) -> list[Effect]:
        self.protocol_name = self.roster.vote()
        self._become(GroupState.COMPLETING_REBALANCE, now_ms)
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._touch(member, now_ms)
            self._unsynced.add(member.member_id)
            if member.join_token is not None:
                effects.append(AnswerJoin(member.join_token, self._join_result(member)))
                member.join_token = None
        longest = self.roster.rebalance_timeout_ms()
        return [*effects, *self._arm(self._sync, TimerKind.SYNC, longest, now_ms)]

    # -- sync -------------------------------------------------------------------------

    def sync(self, request: SyncRequest, now_ms: int) -> list[Effect]:
        """A member asks for its assignment; the leader brings all of them."""
        error = self._sync_error(request)
        member = self.roster.get(request.member_id)
        if error or member is None:
            return [AnswerSync(request.token, SyncResult(error))]
        self._unsynced.discard(member.member_id)
        if self.state is GroupState.STABLE:
            return [
                *self._touch(member, now_ms),
                AnswerSync(request.token, self._sync_result(member)),
            ]
        effects = self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_token = request.token
        if member.member_id != self.roster.leader_id or self._assignments is not None:
            return effects
        self._assignments = {
            held.member_id: request.assignments.get(held.member_id, b"") for held in self.roster
        }
        record = GroupRecord(self.group_id, self._stored(now_ms, self._assignments))
        return [*effects, Persist(record, self.generation)]

    def _sync_error(self, request: SyncRequest) -> ErrorCode:
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self.check_member(
            request.member_id, request.group_instance_id, request.generation
        )
        if error:
            return error
        if request.protocol_type not in (None, self.protocol_type):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if request.protocol_name not in (None, self.protocol_name):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def on_stored(self, generation: int, error: ErrorCode, now_ms: int) -> list[Effect]:
        """What `Persist` asked for is in the log, or could not be put there."""
        if self.state is not GroupState.COMPLETING_REBALANCE or generation != self.generation:
            return []
        if self._assignments is None:
            return []
        if error:
            return self._fail_sync(error, now_ms)
        for member in self.roster:
            member.assignment = self._assignments.get(member.member_id, b"")
        self._assignments = None
        self._become(GroupState.STABLE, now_ms)
        effects: list[Effect] = []
        for member in self.roster:
            if member.sync_token is not None:
                effects += self._touch(member, now_ms)
                effects.append(AnswerSync(member.sync_token, self._sync_result(member)))
                member.sync_token = None
        return effects

    def _fail_sync(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._answer_error(member, error)
        self._assignments = None
        return [*effects, *self._prepare_rebalance(now_ms)]

    # -- heartbeat, leave -------------------------------------------------------------

    def heartbeat(
        self, member_id: str, group_instance_id: str | None, generation: int, now_ms: int
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
        return answer, self._touch(member, now_ms)

    def leave(
        self, member_id: str, group_instance_id: str | None, now_ms: int
    ) -> tuple[ErrorCode, str, list[Effect]]:
        """A member goes; static ones may be named by instance id alone (KIP-345)."""
        if self.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, []
        if self._pending.pop(member_id, None) is not None:
            return ErrorCode.NONE, member_id, self._after_pending_left(now_ms)
        if not member_id and group_instance_id is not None:
            member_id = self.roster.static_member_id(group_instance_id) or ""
        error = self.roster.check(member_id, group_instance_id)
        member = self.roster.get(member_id)
        if error or member is None:
            return error, member_id, []
        return ErrorCode.NONE, member_id, self._remove(member, now_ms)

    def check_member(
        self, member_id: str, group_instance_id: str | None, generation: int
    ) -> ErrorCode:
        """Whether a member of this very generation asks."""
        error = self.roster.check(member_id, group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if generation == self.generation else ErrorCode.ILLEGAL_GENERATION

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

    def touch(self, member_id: str, now_ms: int) -> list[Effect]:
        """A commit counts as a sign of life."""
        member = self.roster.get(member_id)
        return [] if member is None else self._touch(member, now_ms)

    # -- timers -----------------------------------------------------------------------

    def on_timer(self, kind: TimerKind, subject: str, now_ms: int) -> list[Effect]:
        """A timer fired; it may be one that nobody waits for any more."""
        if kind is TimerKind.SESSION:
            return self._on_session_timer(subject, now_ms)
        deadline = self._join if kind is TimerKind.JOIN else self._sync
        left_ms = deadline.fired(now_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [Arm(kind, subject, left_ms)]
        return self._on_join_over(now_ms) if kind is TimerKind.JOIN else self._on_sync_over(now_ms)

    def _on_session_timer(self, member_id: str, now_ms: int) -> list[Effect]:
        pending = self._pending.get(member_id)
        if pending is not None:
            del self._pending[member_id]
            return self._after_pending_left(now_ms)
        member = self.roster.get(member_id)
        if member is None:
            return []
        left_ms = member.session.fired(now_ms)
        if left_ms is None:
            return []
        if left_ms:
            return [Arm(TimerKind.SESSION, member_id, left_ms)]
        if member.is_waiting:
            return self._touch(member, now_ms)
        return self._remove(member, now_ms)

    def _on_join_over(self, now_ms: int) -> list[Effect]:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return []
        if self._is_initial(now_ms) and self._pending and not len(self.roster):
            return self._arm(self._join, TimerKind.JOIN, self._initial_delay_ms, now_ms)
        return self._complete_join(now_ms)

    def _on_sync_over(self, now_ms: int) -> list[Effect]:
        """Members that joined but never asked for their assignment are gone."""
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return []
        late = [member for member in self.roster if member.member_id in self._unsynced]
        for member in late:
            self._forget(member)
        self._unsynced.clear()
        return self._prepare_rebalance(now_ms) if late else []

    # -- small parts ------------------------------------------------------------------

    def _after_pending_left(self, now_ms: int) -> list[Effect]:
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now_ms)
        return []

    def _remove(self, member: Member, now_ms: int) -> list[Effect]:
        effects = self._answer_error(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget(member)
        return [*effects, *self._prepare_rebalance(now_ms)]

    def _forget(self, member: Member) -> None:
        self.roster.remove(member.member_id)
        self._unsynced.discard(member.member_id)

    def _touch(self, member: Member, now_ms: int) -> list[Effect]:
        if member.session.move(now_ms + member.session_timeout_ms):
            return [Arm(TimerKind.SESSION, member.member_id, member.session_timeout_ms)]
        return []

    def _arm(
        self, deadline: Deadline, kind: TimerKind, delay_ms: int, now_ms: int
    ) -> list[Effect]:
        return [Arm(kind, "", delay_ms)] if deadline.move(now_ms + delay_ms) else []

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

    def _join_result(self, member: Member, *, skip_assignment: bool = False) -> JoinResult:
        leads = member.member_id == self.roster.leader_id
        members = tuple(held.as_joined(self.protocol_name) for held in self.roster)
        return JoinResult(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.roster.leader_id or "",
            members=members if leads else (),
            skip_assignment=skip_assignment,
        )

    def _sync_result(self, member: Member) -> SyncResult:
        return SyncResult(
            ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol_name
        )

    def _stored(self, now_ms: int, assignments: dict[str, bytes] | None) -> StoredGroup:
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
            state_timestamp_ms=now_ms,
            members=members,
        )

    def _become(self, state: GroupState, now_ms: int) -> None:
        check(state in TRANSITIONS[self.state], f"no way from {self.state} to {state}")
        self.state = state
        self.state_timestamp_ms = now_ms
