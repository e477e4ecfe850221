"""A static member comes back and takes its place, without a rebalance where it can (KIP-345).

In: the join of a restarted member with its instance id, the storing of its new name. Out: effects.
Never: whether the request to join is accepted; that is `group`'s.
"""

from __future__ import annotations

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.effects import (
    AnswerJoin,
    Effect,
    JoinRequest,
    JoinResult,
    PersistReplacement,
    Replacement,
)
from broker.coordinator.member import Member
from broker.coordinator.rebalance import Rebalance
from broker.coordinator.records import GroupRecord
from broker.coordinator.states import GroupState
from bus.errors import ErrorCode, check


class StaticMembers(Rebalance):
    """What a member with an instance id may do beyond the others."""

    def _replace_static(self, old_id: str, request: JoinRequest, now: ClockReading) -> list[Effect]:
        """The process under this instance id is a new one; the old one is fenced."""
        member = self.roster.get(old_id)
        check(member is not None, "an instance id belongs to a member")
        assert member is not None
        effects = self._answer_error(member, ErrorCode.FENCED_INSTANCE_ID)
        before = member.as_stored(None, b""), member.protocols
        led_by = self.roster.leader_id
        self.roster.rename(old_id, request.fresh_member_id)
        self._unsynced.discard(old_id)
        member.client_id, member.client_host = request.client_id, request.client_host
        member.take_wishes(request)
        # As in Kafka only the protocol that the group would choose now counts, not the bytes under
        # it: a cooperative member's partitions and generation are there, other ones at each start.
        if self.state is not GroupState.STABLE or self.roster.vote() != self.protocol_name:
            return [*effects, *self._rejoin(member, request, now)]
        member.join_token = request.token
        result = self._resumed(member, request, led_by or "")
        return [
            *effects,
            *self._touch(member, now),
            PersistReplacement(
                GroupRecord(self.group_id, self._stored(now, None)),
                Replacement(*before, request.token, result),
            ),
        ]

    def _resumed(self, member: Member, request: JoinRequest, led_by: str) -> JoinResult:
        """The running generation. A leader must not assign again: one that knows KIP-814 is told
        so, an older one is told of a leader that is not itself, the id it had before."""
        if request.supports_skip_assignment:
            leads = member.member_id == self.roster.leader_id
            return self._join_result(member, skip_assignment=leads)
        return self._join_result(member, led_by=led_by)

    def on_replaced(
        self, replacement: Replacement, error: ErrorCode, now: ClockReading
    ) -> list[Effect]:
        """The new name is in the log, or could not be put there: then the old one holds again."""
        member = self.roster.get(replacement.result.member_id)
        if member is None or member.join_token is not replacement.token:
            return []  # a rebalance has answered it, or it came back once more
        member.join_token = None
        if not error:
            return [
                *self._touch(member, now),
                AnswerJoin(replacement.token, replacement.result),
            ]
        before = replacement.before
        self.roster.rename(member.member_id, before.member_id)
        member.client_id, member.client_host = before.client_id, before.client_host
        member.protocols = replacement.protocols
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        return [
            *self._touch(member, now),
            AnswerJoin(replacement.token, JoinResult(error)),
        ]
