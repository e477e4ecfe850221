"""The rebalance of a classic group: members join, the leader's assignment is stored, all go on.

In: members that joined or asked for their assignment, fired timers, the assignment's storing.
Out: effects. Never: whether a request to join is accepted; that is `group`'s.
"""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Effect,
    JoinRequest,
    Persist,
    SyncRequest,
    SyncResult,
    TimerKind,
)
from broker.coordinator.group_core import GroupCore
from broker.coordinator.member import Member
from broker.coordinator.records import GroupRecord
from broker.coordinator.states import GroupState
from bus.errors import ErrorCode


class Rebalance(GroupCore):
    """The phases from one generation to the next."""

    # -- join phase ------------------------------------------------------------------------

    def _prepare_rebalance(self, now: ClockReading) -> list[Effect]:
        """Ask everybody to join, or go on waiting for them."""
        effects: list[Effect] = []
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now)
        self._assignments = None
        self._unsynced.clear()
        self._sync.clear()
        for member in self.roster:
            if member.sync_token is not None:
                effects += self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
                effects += self._touch(member, now)
        initial = self.state is GroupState.EMPTY and self._initial_delay_ms > 0
        self._become(GroupState.PREPARING_REBALANCE, now)
        longest = self.roster.rebalance_timeout_ms()
        self._join_give_up_ms = now.monotonic_ms + longest if initial else 0
        delay = min(self._initial_delay_ms, longest) if initial else longest
        effects += self._arm(self._join, TimerKind.JOIN, delay, now)
        return effects if initial else [*effects, *self._try_complete_join(now)]

    def _rejoin(self, member: Member, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """A member joins again with what it wants now: the next generation begins."""
        effects = self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.take_wishes(request)
        member.join_token = request.token
        return [*effects, *self._touch(member, now), *self._prepare_rebalance(now)]

    def _is_initial(self, now: ClockReading) -> bool:
        """Whether an empty group still collects its first members."""
        return self._join_give_up_ms > now.monotonic_ms

    def _extend_initial_delay(self, now: ClockReading) -> None:
        """Each new member of a starting group makes it worth waiting for the next (KIP-134)."""
        self._join.at_ms = min(now.monotonic_ms + self._initial_delay_ms, self._join_give_up_ms)

    def _try_complete_join(self, now: ClockReading) -> list[Effect]:
        waits = self._pending or not self.roster.all_joined() or self._is_initial(now)
        return [] if waits else self._complete_join(now)

    def _complete_join(self, now: ClockReading) -> list[Effect]:
        """The join phase is over: those who came are the next generation."""
        for member in self.roster:
            if member.join_token is None and member.group_instance_id is None:
                self._forget(member)
        self._join_give_up_ms = 0
        if len(self.roster) and not self.roster.elect_joined_leader():
            longest = self.roster.rebalance_timeout_ms()
            return self._arm(self._join, TimerKind.JOIN, longest, now)
        self._join.clear()
        self.generation += 1
        return self._start_generation(now) if len(self.roster) else self._empty(now)

    def _empty(self, now: ClockReading) -> list[Effect]:
        self.protocol_name = None
        self.roster.leader_id = None
        self._become(GroupState.EMPTY, now)
        return [Persist(GroupRecord(self.group_id, self._stored(now, None)), self.generation)]

    def _start_generation(self, now: ClockReading) -> list[Effect]:
        self.protocol_name = self.roster.vote()
        self._become(GroupState.COMPLETING_REBALANCE, now)
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._touch(member, now)
            self._unsynced.add(member.member_id)
            if member.join_token is not None:
                effects.append(AnswerJoin(member.join_token, self._join_result(member)))
                member.join_token = None
        longest = self.roster.rebalance_timeout_ms()
        return [*effects, *self._arm(self._sync, TimerKind.SYNC, longest, now)]

    # -- sync phase ------------------------------------------------------------------------

    def sync(self, request: SyncRequest, now: ClockReading) -> list[Effect]:
        """A member asks for its assignment; the leader brings all of them."""
        error = self._sync_error(request)
        member = self.roster.get(request.member_id)
        if error or member is None:
            return [AnswerSync(request.token, SyncResult(error))]
        self._unsynced.discard(member.member_id)
        if self.state is GroupState.STABLE:
            return [
                *self._touch(member, now),
                AnswerSync(request.token, self._sync_result(member)),
            ]
        effects = self._answer_error(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_token = request.token
        if member.member_id != self.roster.leader_id or self._assignments is not None:
            return effects
        self._assignments = {
            held.member_id: request.assignments.get(held.member_id, b"") for held in self.roster
        }
        record = GroupRecord(self.group_id, self._stored(now, self._assignments))
        return [*effects, Persist(record, self.generation)]

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
        """What `Persist` asked for is in the log, or could not be put there."""
        if self.state is not GroupState.COMPLETING_REBALANCE or generation != self.generation:
            return []
        if self._assignments is None:
            return []
        if error:
            return self._fail_sync(error, now)
        for member in self.roster:
            member.assignment = self._assignments.get(member.member_id, b"")
        self._assignments = None
        self._become(GroupState.STABLE, now)
        effects: list[Effect] = []
        for member in self.roster:
            if member.sync_token is not None:
                effects += self._touch(member, now)
                effects.append(AnswerSync(member.sync_token, self._sync_result(member)))
                member.sync_token = None
        return effects

    def _fail_sync(self, error: ErrorCode, now: ClockReading) -> list[Effect]:
        effects: list[Effect] = []
        for member in self.roster:
            effects += self._answer_error(member, error)
        self._assignments = None
        return [*effects, *self._prepare_rebalance(now)]

    # -- those who do not come -------------------------------------------------------------

    def _on_join_over(self, now: ClockReading) -> list[Effect]:
        if self.state is not GroupState.PREPARING_REBALANCE:
            return []
        if self._is_initial(now) and self._pending and not len(self.roster):
            return self._arm(self._join, TimerKind.JOIN, self._initial_delay_ms, now)
        return self._complete_join(now)

    def _on_sync_over(self, now: ClockReading) -> list[Effect]:
        """Members that joined but never asked for their assignment are gone."""
        if self.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return []
        late = [member for member in self.roster if member.member_id in self._unsynced]
        for member in late:
            self._forget(member)
        self._unsynced.clear()
        return self._prepare_rebalance(now) if late else []

    def _after_pending_left(self, now: ClockReading) -> list[Effect]:
        if self.state is GroupState.PREPARING_REBALANCE:
            return self._try_complete_join(now)
        return []

    def _remove(self, member: Member, now: ClockReading) -> list[Effect]:
        effects = self._answer_error(member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._forget(member)
        return [*effects, *self._prepare_rebalance(now)]

    def _forget(self, member: Member) -> None:
        self.roster.remove(member.member_id)
        self._unsynced.discard(member.member_id)
