"""The quorum's machine: one replica of `__cluster_metadata-0`, whole and pure.

In: requests, answers, failures, flushed offsets, the passing of time, each with its `Moment`. Out:
answers and effects. Never: I/O, a clock, dice, a callback, the wire's messages.

The shell, after every call: carry out `take_effects()` in order, call `poll`, carry out again, and
come back at `deadline_ms` at the latest; no event in between. What it changed in the log it tells
by `on_appended`, `on_truncated`, `on_voters`, `on_snapshot_loaded`.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.kraft.core import NEVER_MS, Core, LogView, Settings
from broker.controller.kraft.election import Election
from broker.controller.kraft.following import Following
from broker.controller.kraft.leading import Leading
from broker.controller.kraft.membership import Membership
from broker.controller.kraft.messages import (
    NO_LEADER,
    Answer,
    BeginEpoch,
    Committed,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Moment,
    Request,
    SnapshotAnswer,
    Vote,
    VoteAnswer,
)
from broker.controller.kraft.states import Event, Role
from broker.controller.kraft.voters import ReplicaKey, VoterHistory, VoterSet
from bus.errors import ErrorCode


class Machine:
    """One replica.

    Invariant: at most one machine of a quorum is LEADER in an epoch; `high_watermark` never falls.
    """

    def __init__(
        self,
        me: ReplicaKey,
        log: LogView,
        voters: VoterHistory,
        state: ElectionState,
        now: Moment,
        settings: Settings | None = None,
        bootstrap: Sequence[int] = (),
    ) -> None:
        """Begin where the last life ended."""
        epoch = max(state.epoch, log.end.epoch)
        self.core = core = Core(settings or Settings(), me, log, voters, epoch)
        core.stored = state
        if epoch == state.epoch:
            core.leader_id, core.voted = state.leader_id, state.voted
        self.election = Election(core)
        self.leading = Leading(core)
        self.following = Following(core, bootstrap)
        self.membership = Membership(core, self.leading)
        core.role = self._first_role()
        timeout_ms = core.settings.election_timeout_ms
        if core.role is Role.FOLLOWER:
            timeout_ms = core.settings.fetch_timeout_ms
        core.deadline_ms = now.now_ms + core.spread(timeout_ms, now)

    def _first_role(self) -> Role:
        core = self.core
        if not core.is_voter:
            return Role.OBSERVER
        if core.leader_id == core.me.id and not core.voters.latest.is_only(core.me):
            return Role.RESIGNED
        if core.leader_id == core.me.id:
            core.leader_id = NO_LEADER  # alone there is nobody whom an old promise could confuse
        return Role.UNATTACHED if core.leader_id == NO_LEADER else Role.FOLLOWER

    # -- what everybody may know ------------------------------------------------------------

    @property
    def role(self) -> Role:
        return self.core.role

    @property
    def epoch(self) -> int:
        return self.core.epoch

    @property
    def leader_id(self) -> int:
        return self.core.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; -1 while that is not known."""
        return self.core.high_watermark

    @property
    def deadline_ms(self) -> int:
        """When `poll` must be called although nothing has happened."""
        core = self.core
        timer_ms = NEVER_MS if core.role is Role.OBSERVER else core.deadline_ms
        return min(
            timer_ms,
            self.election.deadline_ms(),
            self.leading.deadline_ms(),
            self.following.deadline_ms(),
        )

    def take_effects(self) -> list[Effect]:
        """What to do now, in this order; the list is empty afterwards."""
        effects, self.core.effects = self.core.effects, []
        return effects

    # -- time -------------------------------------------------------------------------------

    def poll(self, now: Moment) -> None:
        """Timers, and requests that may go."""
        self._settle(now)
        self.election.poll(now)
        self._begin_term(now)
        self.leading.poll(now)
        self.following.poll(now)

    def on_held_up(self, held_ms: int) -> None:
        """The shell waited for its disk so long and took no event: nobody was silent meanwhile, and
        what was due then is due so much later. Else a voter whose disk is slow would doubt its
        leader after every flush, and a slow quorum would never have one."""
        core, term = self.core, self.leading.term
        if core.deadline_ms < NEVER_MS:
            core.deadline_ms += held_ms
        if term is not None:
            term.check_at_ms += held_ms

    def _settle(self, now: Moment) -> None:
        """Become or cease to be a voter by what the log says."""
        core = self.core
        if core.role is Role.OBSERVER and core.is_voter:
            core.move(Event.ADDED)
            core.deadline_ms = now.now_ms + core.spread(core.settings.election_timeout_ms, now)
            if core.leader_id != NO_LEADER:
                core.follow(core.leader_id, core.epoch, now)
        elif core.role not in (Role.OBSERVER, Role.LEADER) and not core.is_voter:
            core.move(Event.REMOVED)

    def _begin_term(self, now: Moment) -> None:
        """In the same call that won the election: the LeaderChange record is not appended yet."""
        term = self.leading.term
        if self.core.role is Role.LEADER and (term is None or term.epoch != self.core.epoch):
            self.leading.begin(now)

    def resign(self, now: Moment) -> None:
        """Stop leading (the process stops, or its disk refuses to flush)."""
        if self.core.role is Role.LEADER:
            self.leading.resign(now)

    # -- the log has changed ----------------------------------------------------------------

    def on_flushed(self) -> None:
        """The leader's log is durable up to where its flush began (`flushed_offset`)."""
        self.leading.advance_watermark()

    def on_appended(self) -> None:
        """A follower's append (or an answer without records) is done and flushed."""
        self.following.on_appended()

    def on_committed(self, now: Moment) -> None:
        """After `Committed` was carried out: a change of voters may be finished by it."""
        self.membership.on_committed(now)

    def on_voters(self, offset: int, voters: VoterSet) -> None:
        """A VotersRecord is in the log."""
        self.core.voters.add(offset, voters)

    def on_truncated(self, offset: int) -> None:
        """The log ends at `offset` now."""
        self.core.voters.truncate_to(offset)

    def on_snapshot_loaded(
        self, offset: int, voters: VoterSet | None, *, keep_voters: bool = False
    ) -> None:
        """The log begins (and ends) at `offset` behind a snapshot; it is committed by nature.

        `keep_voters` at a start, where the history of voters was read before.
        """
        core = self.core
        if not keep_voters:
            core.voters.restart_at(offset, voters)
        if offset > core.high_watermark:
            core.high_watermark = offset
            core.effects.append(Committed(offset))

    # -- requests of others -----------------------------------------------------------------

    def on_vote(self, ask: Vote, now: Moment) -> VoteAnswer:
        """Vote (52)."""
        return self.election.on_vote(ask, now)

    def on_begin_epoch(self, begun: BeginEpoch, now: Moment) -> Answer:
        """BeginQuorumEpoch (53): somebody leads."""
        core = self.core
        if begun.epoch < core.epoch:
            return Answer(ErrorCode.FENCED_LEADER_EPOCH, core.announced_leader, core.epoch)
        if begun.voter is not None and not begun.voter.matches(core.me):
            return Answer(ErrorCode.INVALID_VOTER_KEY, core.announced_leader, core.epoch)
        core.learn(begun.leader_id, begun.epoch, now)
        if core.role is Role.PROSPECTIVE and core.leader_id == begun.leader_id:
            core.follow(begun.leader_id, begun.epoch, now)
        return Answer(ErrorCode.NONE, core.announced_leader, core.epoch)

    def on_end_epoch(self, ended: EndEpoch, now: Moment) -> Answer:
        """EndQuorumEpoch (54): somebody leads no longer."""
        return self.election.on_end_epoch(ended, now)

    def on_fetch(
        self, ask: Fetch, now: Moment, *, may_wait: bool, again: bool = False
    ) -> FetchAnswer | None:
        """Fetch (1) of the metadata log; None lets it wait. `again`: it has waited already."""
        return self.leading.on_fetch(ask, now, may_wait=may_wait, again=again)

    def on_fetch_snapshot(self, ask: FetchSnapshot, now: Moment) -> SnapshotAnswer:
        """FetchSnapshot (59)."""
        return self.leading.on_fetch_snapshot(ask, now)

    # -- answers to ours --------------------------------------------------------------------

    def on_answer(self, to: int, ask: Request, answer: Answer, now: Moment) -> None:
        """A request of ours was answered."""
        self.core.arrived(to, ask)
        match ask, answer:
            case Vote(), _:
                self.election.on_vote_answer(to, ask, answer, now)
                self._begin_term(now)
            case BeginEpoch(), _:
                self.leading.on_begin_answer(to, answer, now)
            case EndEpoch(), _:
                self.leading.on_end_answer(to, answer, now)
            case Fetch(), FetchAnswer():
                self.following.on_fetch_answer(to, ask, answer, now)
            case FetchSnapshot(), SnapshotAnswer():
                self.following.on_snapshot_answer(to, ask, answer, now)

    def on_failure(self, to: int, ask: Request, now: Moment, *, refused: bool) -> None:
        """A request of ours was not answered. `refused`: the other side is not there."""
        self.core.failed(to, ask, now)
        if isinstance(ask, Fetch | FetchSnapshot):
            self.following.on_failure(to, refused, now)
        elif isinstance(ask, Vote) and refused:
            self.election.on_failure(to, ask, now)

    def on_connection_lost(self, node_id: int, now: Moment) -> None:
        """The other side reset a connection of ours."""
        if node_id == self.core.leader_id:
            self.core.doubt(now)
