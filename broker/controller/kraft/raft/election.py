"""Elections: pre-votes (KIP-996), votes, and granting votes to others.

In: votes requested and granted, timeouts. Out: transitions of the quorum state. Never: the work of
an elected leader.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    BecameLeader,
    EndEpoch,
    QuorumResponse,
    Tick,
    Vote,
    VoteResponse,
)
from broker.controller.kraft.raft.quorum_state import (
    NEVER_MS,
    SUSPECT_JITTER_MS,
    SUSPECT_MS,
    QuorumState,
)
from broker.controller.kraft.raft.roles import RaftRole, RoleEvent
from broker.controller.kraft.raft.voters import ReplicaKey
from bus.errors import ErrorCode


@dataclass(slots=True)
class EpochElection:
    """The responses to this election. Invariant: contains only voters."""

    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)
    unreachable: set[int] = field(default_factory=set)
    is_lost: bool = False

    def has(self, voter_id: int) -> bool:
        """Whether this voter has responded."""
        return voter_id in self.granted or voter_id in self.rejected

    def can_still_win(self, voters: int, majority: int) -> bool:
        """Whether voters that neither rejected nor are unreachable are enough."""
        return voters - len(self.rejected | self.unreachable) >= majority


class QuorumElection:
    """The part of the Raft core that starts elections and grants votes."""

    def __init__(self, quorum: QuorumState) -> None:
        self._quorum = quorum
        self._votes = EpochElection()

    # -- own election -------------------------------------------------------------------------

    def poll(self, now: Tick) -> None:
        """Runs the timers of roles that wait for, or take part in, an election."""
        quorum = self._quorum
        alone = quorum.voters.latest.is_only(quorum.me)
        if quorum.role in (RaftRole.UNATTACHED, RaftRole.FOLLOWER) and (
            self._is_expired(now) or alone
        ):
            self._start_election(now)
        elif quorum.role in (RaftRole.PROSPECTIVE, RaftRole.CANDIDATE) and self._is_expired(now):
            self._on_lost(now)
        elif quorum.role is RaftRole.RESIGNED and (self._is_expired(now) or alone):
            quorum.begin_epoch(quorum.epoch + 1, now)
            self.poll(now)
            return
        self._count_votes(now)
        self._request_votes(now)

    def _is_expired(self, now: Tick) -> bool:
        return now.now_ms >= self._quorum.deadline_ms

    def _start_election(self, now: Tick) -> None:
        quorum = self._quorum
        quorum.transition(RoleEvent.ELECTION_DUE)
        quorum.has_fetched = False
        self._reset_votes(now)

    def _reset_votes(self, now: Tick) -> None:
        quorum = self._quorum
        self._votes = EpochElection(granted={quorum.me.id})
        quorum.deadline_ms = now.now_ms + quorum.jittered_ms(quorum.config.election_timeout_ms, now)

    def _count_votes(self, now: Tick) -> None:
        quorum = self._quorum
        majority = quorum.voters.latest.majority
        if quorum.role is RaftRole.PROSPECTIVE and len(self._votes.granted) >= majority:
            quorum.transition(RoleEvent.WOULD_WIN)
            quorum.epoch, quorum.leader_id, quorum.voted = quorum.epoch + 1, NO_LEADER, quorum.me
            quorum.persist()
            quorum.announce(NO_LEADER)
            self._reset_votes(now)
        if quorum.role is RaftRole.CANDIDATE and len(self._votes.granted) >= majority:
            quorum.transition(RoleEvent.WON)
            quorum.leader_id, quorum.deadline_ms, quorum.backoffs = quorum.me.id, NEVER_MS, 0
            quorum.persist()
            granting = tuple(sorted(self._votes.granted))
            quorum.effects.append(BecameLeader(quorum.epoch, granting))
            quorum.announce(quorum.me.id)
        elif quorum.role in (RaftRole.PROSPECTIVE, RaftRole.CANDIDATE):
            voters = len(quorum.voters.latest.voters)
            if not self._votes.can_still_win(voters, majority) and not self._votes.is_lost:
                # Back off, then start again; a leader may appear meanwhile. Where one voter is
                # dead and the others split their votes, this saves a second.
                quorum.deadline_ms = min(quorum.deadline_ms, now.now_ms + quorum.backoff_ms(now))
                self._votes.is_lost = True

    def _on_lost(self, now: Tick) -> None:
        """No majority in time. A candidate goes back to pre-votes; a prospective replica follows
        the leader it knew, if that one still responds, or waits."""
        quorum = self._quorum
        quorum.transition(RoleEvent.LOST)
        if quorum.role is RaftRole.PROSPECTIVE:
            self._reset_votes(now)
            return
        if quorum.leader_id != NO_LEADER:
            backoffs = quorum.backoffs
            quorum.follow(quorum.leader_id, quorum.epoch, now)
            quorum.backoffs = backoffs  # retry soon until it responds
            quorum.deadline_ms = (
                now.now_ms + SUSPECT_MS + SUSPECT_JITTER_MS + quorum.backoff_ms(now)
            )
            return
        quorum.deadline_ms = now.now_ms + quorum.backoff_ms(now)

    def _request_votes(self, now: Tick) -> None:
        quorum = self._quorum
        if quorum.role not in (RaftRole.PROSPECTIVE, RaftRole.CANDIDATE):
            return
        for voter in quorum.voters.latest.voters:
            if voter.key.id == quorum.me.id or self._votes.has(voter.key.id):
                continue
            pre_vote = quorum.role is RaftRole.PROSPECTIVE
            request = Vote(quorum.me, quorum.epoch, quorum.log.end, pre_vote, voter.key)
            quorum.send(voter.key.id, request, now)

    def deadline_ms(self) -> int:
        """When a vote request that was paused may be sent."""
        quorum = self._quorum
        if quorum.role not in (RaftRole.PROSPECTIVE, RaftRole.CANDIDATE):
            return NEVER_MS
        slots = [
            quorum.request_slot(one, Vote)
            for one in quorum.voters.latest.ids
            if one != quorum.me.id and not self._votes.has(one)
        ]
        return min((slot.ready_at_ms for slot in slots if not slot.in_flight), default=NEVER_MS)

    def on_vote_response(
        self, voter_id: int, request: Vote, response: QuorumResponse, now: Tick
    ) -> None:
        """A vote was granted or rejected."""
        quorum = self._quorum
        if quorum.maybe_transition(response.leader_id, response.epoch, now):
            return
        expected = RaftRole.PROSPECTIVE if request.pre_vote else RaftRole.CANDIDATE
        if quorum.role is not expected or request.epoch != quorum.epoch:
            return
        if voter_id not in quorum.voters.latest.ids:
            return
        self._votes.unreachable.discard(voter_id)
        if isinstance(response, VoteResponse) and response.granted:
            self._votes.granted.add(voter_id)
        else:
            self._votes.rejected.add(voter_id)
        self._count_votes(now)

    def on_vote_failed(self, voter_id: int, request: Vote, now: Tick) -> None:
        """A voter is unreachable; its vote request is retried, as it may come back."""
        quorum = self._quorum
        expected = RaftRole.PROSPECTIVE if request.pre_vote else RaftRole.CANDIDATE
        if (
            quorum.role is expected
            and request.epoch == quorum.epoch
            and not self._votes.has(voter_id)
        ):
            self._votes.unreachable.add(voter_id)
            self._count_votes(now)

    # -- voting -----------------------------------------------------------------------------

    def on_vote(self, request: Vote, now: Tick) -> VoteResponse:
        """Another replica requests a vote or a pre-vote."""
        quorum = self._quorum
        if request.epoch < quorum.epoch:
            return self._response(ErrorCode.FENCED_LEADER_EPOCH)
        if request.epoch <= 0 and not request.pre_vote:
            return self._response(ErrorCode.INVALID_REQUEST)
        if request.end.epoch > request.epoch or request.end.offset < 0:
            return self._response(ErrorCode.INVALID_REQUEST)
        if request.epoch > quorum.epoch:
            quorum.begin_epoch(request.epoch, now)
        if request.voter is not None and not request.voter.matches(quorum.me):
            return self._response(ErrorCode.INVALID_VOTER_KEY)
        granted = self._can_grant_vote(request, now)
        if granted and not request.pre_vote and quorum.voted != request.candidate:
            quorum.voted = request.candidate
            quorum.persist()
            if quorum.role is RaftRole.PROSPECTIVE:
                quorum.transition(RoleEvent.LOST)
            if quorum.role is RaftRole.UNATTACHED:
                quorum.deadline_ms = now.now_ms + quorum.jittered_ms(
                    quorum.config.election_timeout_ms, now
                )
        return self._response(ErrorCode.NONE, granted)

    def _can_grant_vote(self, request: Vote, now: Tick) -> bool:
        quorum = self._quorum
        up_to_date = request.end.is_at_least(quorum.log.end)
        if request.pre_vote:
            if quorum.role is RaftRole.LEADER:
                return False
            # A replica with a live leader sees no reason to elect another.
            return up_to_date and not quorum.has_leader_contact(now)
        if (
            quorum.role in (RaftRole.LEADER, RaftRole.CANDIDATE, RaftRole.RESIGNED)
            or quorum.leader_id >= 0
        ):
            return False
        if quorum.voted is not None:
            return quorum.voted.matches(request.candidate)
        return up_to_date

    def _response(self, error: ErrorCode, granted: bool = False) -> VoteResponse:
        quorum = self._quorum
        return VoteResponse(error, quorum.announced_leader, quorum.epoch, granted)

    def on_end_epoch(self, ended: EndEpoch, now: Tick) -> QuorumResponse:
        """The leader resigned. The first successor starts an election at once, the others with
        increasing delays."""
        quorum = self._quorum
        if ended.epoch < quorum.epoch:
            return QuorumResponse(
                ErrorCode.FENCED_LEADER_EPOCH, quorum.announced_leader, quorum.epoch
            )
        quorum.maybe_transition(ended.leader_id, ended.epoch, now)
        if quorum.role is RaftRole.FOLLOWER and quorum.leader_id == ended.leader_id:
            quorum.has_fetched = False
            quorum.deadline_ms = now.now_ms + self._successor_delay_ms(ended.successors, now)
        return QuorumResponse(ErrorCode.NONE, quorum.announced_leader, quorum.epoch)

    def _successor_delay_ms(self, successors: tuple[ReplicaKey, ...], now: Tick) -> int:
        quorum = self._quorum
        place = next((at for at, key in enumerate(successors) if key.matches(quorum.me)), None)
        if place == 0:
            return 0
        later = len(successors) if place is None else place
        step = max(quorum.config.retry_backoff_ms << min(later, 16), 100)
        return min(quorum.config.election_backoff_max_ms, step + int(step * now.random))
