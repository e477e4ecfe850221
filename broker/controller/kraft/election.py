"""Elections: would I win (KIP-996), do I win, and whom do I vote for.

In: votes asked and given, time-outs. Out: moves of the core. Never: what a leader
does once elected.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.controller.kraft.core import DOUBT_MS, DOUBT_SPREAD_MS, NEVER_MS, Core
from broker.controller.kraft.messages import (
    NO_LEADER,
    Answer,
    BecameLeader,
    EndEpoch,
    Moment,
    Vote,
    VoteAnswer,
)
from broker.controller.kraft.states import Event, Role
from broker.controller.kraft.voters import ReplicaKey
from bus.errors import ErrorCode


@dataclass(slots=True)
class Ballot:
    """Who has answered, and who is not there to answer. Invariant: only voters are in it."""

    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    is_lost: bool = False

    def has(self, voter_id: int) -> bool:
        """Whether this voter has answered."""
        return voter_id in self.granted or voter_id in self.refused

    def may_still_win(self, voters: int, majority: int) -> bool:
        """Whether those who have neither refused nor gone would do."""
        return voters - len(self.refused | self.absent) >= majority


class Election:
    """The part of a machine that stands for election and votes."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._ballot = Ballot()

    # -- standing ---------------------------------------------------------------------------

    def poll(self, now: Moment) -> None:
        """Timers of those who wait for, or stand in, an election."""
        core = self._core
        alone = core.voters.latest.is_only(core.me)
        if core.role in (Role.UNATTACHED, Role.FOLLOWER) and (self._is_due(now) or alone):
            self._stand(now)
        elif core.role in (Role.PROSPECTIVE, Role.CANDIDATE) and self._is_due(now):
            self._lost(now)
        elif core.role is Role.RESIGNED and (self._is_due(now) or alone):
            core.begin_epoch(core.epoch + 1, now)
            self.poll(now)
            return
        self._count(now)
        self._ask(now)

    def _is_due(self, now: Moment) -> bool:
        return now.now_ms >= self._core.deadline_ms

    def _stand(self, now: Moment) -> None:
        core = self._core
        core.move(Event.ELECTION_DUE)
        core.has_fetched = False
        self._new_ballot(now)

    def _new_ballot(self, now: Moment) -> None:
        core = self._core
        self._ballot = Ballot(granted={core.me.id})
        core.deadline_ms = now.now_ms + core.spread(core.settings.election_timeout_ms, now)

    def _count(self, now: Moment) -> None:
        core = self._core
        majority = core.voters.latest.majority
        if core.role is Role.PROSPECTIVE and len(self._ballot.granted) >= majority:
            core.move(Event.WOULD_WIN)
            core.epoch, core.leader_id, core.voted = core.epoch + 1, NO_LEADER, core.me
            core.persist()
            core.announce(NO_LEADER)
            self._new_ballot(now)
        if core.role is Role.CANDIDATE and len(self._ballot.granted) >= majority:
            core.move(Event.WON)
            core.leader_id, core.deadline_ms, core.backoffs = core.me.id, NEVER_MS, 0
            core.persist()
            granting = tuple(sorted(self._ballot.granted))
            core.effects.append(BecameLeader(core.epoch, granting))
            core.announce(core.me.id)
        elif core.role in (Role.PROSPECTIVE, Role.CANDIDATE):
            voters = len(core.voters.latest.voters)
            if not self._ballot.may_still_win(voters, majority) and not self._ballot.is_lost:
                # Wait a little, then begin again; meanwhile a leader may be heard of. Where one
                # is dead and the living split their votes, this is a second's difference.
                core.deadline_ms = min(core.deadline_ms, now.now_ms + core.backoff_ms(now))
                self._ballot.is_lost = True

    def _lost(self, now: Moment) -> None:
        """No majority in time: a candidate asks again whether it would win; a prospective one
        goes back to the leader it knew, if that one is still heard of, or waits."""
        core = self._core
        core.move(Event.LOST)
        if core.role is Role.PROSPECTIVE:
            self._new_ballot(now)
            return
        if core.leader_id != NO_LEADER:
            backoffs = core.backoffs
            core.follow(core.leader_id, core.epoch, now)
            core.backoffs = backoffs  # until it answers, ask again soon
            core.deadline_ms = now.now_ms + DOUBT_MS + DOUBT_SPREAD_MS + core.backoff_ms(now)
            return
        core.deadline_ms = now.now_ms + core.backoff_ms(now)

    def _ask(self, now: Moment) -> None:
        core = self._core
        if core.role not in (Role.PROSPECTIVE, Role.CANDIDATE):
            return
        for voter in core.voters.latest.voters:
            if voter.key.id == core.me.id or self._ballot.has(voter.key.id):
                continue
            pre_vote = core.role is Role.PROSPECTIVE
            ask = Vote(core.me, core.epoch, core.log.end, pre_vote, voter.key)
            core.send(voter.key.id, ask, now)

    def deadline_ms(self) -> int:
        """When a request for a vote that had to pause may go."""
        core = self._core
        if core.role not in (Role.PROSPECTIVE, Role.CANDIDATE):
            return NEVER_MS
        lines = [
            core.line(one, Vote)
            for one in core.voters.latest.ids
            if one != core.me.id and not self._ballot.has(one)
        ]
        return min((line.ready_at_ms for line in lines if not line.in_flight), default=NEVER_MS)

    def on_vote_answer(self, voter_id: int, ask: Vote, answer: Answer, now: Moment) -> None:
        """A vote was given or refused."""
        core = self._core
        if core.learn(answer.leader_id, answer.epoch, now):
            return
        expected = Role.PROSPECTIVE if ask.pre_vote else Role.CANDIDATE
        if core.role is not expected or ask.epoch != core.epoch:
            return
        if voter_id not in core.voters.latest.ids:
            return
        self._ballot.absent.discard(voter_id)
        if isinstance(answer, VoteAnswer) and answer.granted:
            self._ballot.granted.add(voter_id)
        else:
            self._ballot.refused.add(voter_id)
        self._count(now)

    def on_failure(self, voter_id: int, ask: Vote, now: Moment) -> None:
        """A voter is not there to be asked; it is asked again, and may have come back."""
        core = self._core
        expected = Role.PROSPECTIVE if ask.pre_vote else Role.CANDIDATE
        if core.role is expected and ask.epoch == core.epoch and not self._ballot.has(voter_id):
            self._ballot.absent.add(voter_id)
            self._count(now)

    # -- voting -----------------------------------------------------------------------------

    def on_vote(self, ask: Vote, now: Moment) -> VoteAnswer:
        """Somebody stands, or would like to."""
        core = self._core
        if ask.epoch < core.epoch:
            return self._answer(ErrorCode.FENCED_LEADER_EPOCH)
        if ask.epoch <= 0 and not ask.pre_vote:
            return self._answer(ErrorCode.INVALID_REQUEST)
        if ask.end.epoch > ask.epoch or ask.end.offset < 0:
            return self._answer(ErrorCode.INVALID_REQUEST)
        if ask.epoch > core.epoch:
            core.begin_epoch(ask.epoch, now)
        if ask.voter is not None and not ask.voter.matches(core.me):
            return self._answer(ErrorCode.INVALID_VOTER_KEY)
        granted = self._may_grant(ask, now)
        if granted and not ask.pre_vote and core.voted != ask.candidate:
            core.voted = ask.candidate
            core.persist()
            if core.role is Role.PROSPECTIVE:
                core.move(Event.LOST)
            if core.role is Role.UNATTACHED:
                core.deadline_ms = now.now_ms + core.spread(core.settings.election_timeout_ms, now)
        return self._answer(ErrorCode.NONE, granted)

    def _may_grant(self, ask: Vote, now: Moment) -> bool:
        core = self._core
        up_to_date = ask.end.is_at_least(core.log.end)
        if ask.pre_vote:
            if core.role is Role.LEADER:
                return False
            # One that hears its leader sees no reason to elect another.
            return up_to_date and not core.hears_leader(now)
        if core.role in (Role.LEADER, Role.CANDIDATE, Role.RESIGNED) or core.leader_id >= 0:
            return False
        if core.voted is not None:
            return core.voted.matches(ask.candidate)
        return up_to_date

    def _answer(self, error: ErrorCode, granted: bool = False) -> VoteAnswer:
        core = self._core
        return VoteAnswer(error, core.announced_leader, core.epoch, granted)

    def on_end_epoch(self, ended: EndEpoch, now: Moment) -> Answer:
        """The leader resigned. The first successor stands at once, the others later in turn."""
        core = self._core
        if ended.epoch < core.epoch:
            return Answer(ErrorCode.FENCED_LEADER_EPOCH, core.announced_leader, core.epoch)
        core.learn(ended.leader_id, ended.epoch, now)
        if core.role is Role.FOLLOWER and core.leader_id == ended.leader_id:
            core.has_fetched = False
            core.deadline_ms = now.now_ms + self._turn_ms(ended.successors, now)
        return Answer(ErrorCode.NONE, core.announced_leader, core.epoch)

    def _turn_ms(self, successors: tuple[ReplicaKey, ...], now: Moment) -> int:
        core = self._core
        place = next((at for at, key in enumerate(successors) if key.matches(core.me)), None)
        if place == 0:
            return 0
        later = len(successors) if place is None else place
        step = max(core.settings.retry_backoff_ms << min(later, 16), 100)
        return min(core.settings.election_backoff_max_ms, step + int(step * now.dice))
