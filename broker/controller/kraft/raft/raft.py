"""One replica of `__cluster_metadata-0`: the pure Raft core.

In: requests, responses, failures, flushed offsets and the passing of time, each with its `Tick`.
Out: responses and effects. Never: I/O, a clock, randomness, a callback, wire messages.

After every call the shell executes `drain_effects()` in order, calls `poll`, executes effects
again, and calls `poll` at `deadline_ms` at the latest, with no event in between. It reports its
changes of the log by `on_appended`, `on_truncated`, `on_voters` and `on_snapshot_loaded`.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.controller.kraft.raft.election import QuorumElection
from broker.controller.kraft.raft.follower import FollowerState
from broker.controller.kraft.raft.leader import LeaderState
from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    BeginEpoch,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    HighWatermarkAdvanced,
    QuorumResponse,
    RaftRequest,
    Tick,
    Vote,
    VoteResponse,
)
from broker.controller.kraft.raft.quorum_state import NEVER_MS, LogView, QuorumConfig, QuorumState
from broker.controller.kraft.raft.roles import RaftRole, RoleEvent
from broker.controller.kraft.raft.voter_changes import VoterChanges
from broker.controller.kraft.raft.voters import ReplicaKey, VoterSet, VoterSetHistory
from bus.errors import ErrorCode


class Raft:
    """One replica.

    Invariant: at most one replica of a quorum is LEADER in an epoch; `high_watermark` never
    decreases.
    """

    def __init__(
        self,
        me: ReplicaKey,
        log: LogView,
        voters: VoterSetHistory,
        state: ElectionState,
        now: Tick,
        settings: QuorumConfig | None = None,
        bootstrap: Sequence[int] = (),
    ) -> None:
        """Starts from the stored election state."""
        epoch = max(state.epoch, log.end.epoch)
        self.quorum = quorum = QuorumState(settings or QuorumConfig(), me, log, voters, epoch)
        quorum.stored = state
        if epoch == state.epoch:
            quorum.leader_id, quorum.voted = state.leader_id, state.voted
        self.election = QuorumElection(quorum)
        self.leader_state = LeaderState(quorum)
        self.follower_state = FollowerState(quorum, bootstrap)
        self.voter_changes = VoterChanges(quorum, self.leader_state)
        quorum.role = self._first_role()
        timeout_ms = quorum.config.election_timeout_ms
        if quorum.role is RaftRole.FOLLOWER:
            timeout_ms = quorum.config.fetch_timeout_ms
        quorum.deadline_ms = now.now_ms + quorum.jittered_ms(timeout_ms, now)

    def _first_role(self) -> RaftRole:
        quorum = self.quorum
        if not quorum.is_voter:
            return RaftRole.OBSERVER
        if quorum.leader_id == quorum.me.id and not quorum.voters.latest.is_only(quorum.me):
            return RaftRole.RESIGNED
        if quorum.leader_id == quorum.me.id:
            quorum.leader_id = NO_LEADER  # the only voter has promised nothing to others
        return RaftRole.UNATTACHED if quorum.leader_id == NO_LEADER else RaftRole.FOLLOWER

    # -- state ------------------------------------------------------------------------------

    @property
    def role(self) -> RaftRole:
        return self.quorum.role

    @property
    def epoch(self) -> int:
        return self.quorum.epoch

    @property
    def leader_id(self) -> int:
        return self.quorum.leader_id

    @property
    def high_watermark(self) -> int:
        """Everything below it is committed; -1 while unknown."""
        return self.quorum.high_watermark

    @property
    def deadline_ms(self) -> int:
        """When `poll` is due even if no event arrives."""
        quorum = self.quorum
        timer_ms = NEVER_MS if quorum.role is RaftRole.OBSERVER else quorum.deadline_ms
        return min(
            timer_ms,
            self.election.deadline_ms(),
            self.leader_state.deadline_ms(),
            self.follower_state.deadline_ms(),
        )

    def drain_effects(self) -> list[Effect]:
        """The effects to execute now, in order; clears the list."""
        effects, self.quorum.effects = self.quorum.effects, []
        return effects

    # -- time -------------------------------------------------------------------------------

    def poll(self, now: Tick) -> None:
        """Runs timers and sends requests that are due."""
        self._update_voter_role(now)
        self.election.poll(now)
        self._begin_leading(now)
        self.leader_state.poll(now)
        self.follower_state.poll(now)

    def on_disk_wait(self, waited_ms: int) -> None:
        """Shifts deadlines by the time the shell waited for its disk and processed no event: no
        peer was silent meanwhile. Otherwise a voter with a slow disk would suspect its leader after
        every flush, and a slow quorum would never have a leader."""
        quorum, current = self.quorum, self.leader_state.current
        if quorum.deadline_ms < NEVER_MS:
            quorum.deadline_ms += waited_ms
        if current is not None:
            current.check_quorum_at_ms += waited_ms

    def _update_voter_role(self, now: Tick) -> None:
        """Becomes or ceases to be a voter according to the voter set in the log."""
        quorum = self.quorum
        if quorum.role is RaftRole.OBSERVER and quorum.is_voter:
            quorum.transition(RoleEvent.ADDED)
            quorum.deadline_ms = now.now_ms + quorum.jittered_ms(
                quorum.config.election_timeout_ms, now
            )
            if quorum.leader_id != NO_LEADER:
                quorum.follow(quorum.leader_id, quorum.epoch, now)
        elif quorum.role not in (RaftRole.OBSERVER, RaftRole.LEADER) and not quorum.is_voter:
            quorum.transition(RoleEvent.REMOVED)

    def _begin_leading(self, now: Tick) -> None:
        """Runs in the call that won the election, before the LeaderChange record is appended."""
        current = self.leader_state.current
        if self.quorum.role is RaftRole.LEADER and (
            current is None or current.epoch != self.quorum.epoch
        ):
            self.leader_state.begin(now)

    def resign(self, now: Tick) -> None:
        """Stops leading (the process stops, or its disk fails)."""
        if self.quorum.role is RaftRole.LEADER:
            self.leader_state.resign(now)

    # -- the log has changed ----------------------------------------------------------------

    def on_flushed(self) -> None:
        """The leader's log is durable up to `flushed_offset`."""
        self.leader_state.advance_high_watermark()

    def on_appended(self) -> None:
        """A follower's append (or a response without records) is stored and flushed."""
        self.follower_state.on_appended()

    def on_committed(self, now: Tick) -> None:
        """Called after `HighWatermarkAdvanced` was executed; may complete a voter change."""
        self.voter_changes.on_committed(now)

    def on_voters(self, offset: int, voters: VoterSet) -> None:
        """A VotersRecord was appended to the log."""
        self.quorum.voters.add(offset, voters)

    def on_truncated(self, offset: int) -> None:
        """The log now ends at `offset`."""
        self.quorum.voters.truncate_to(offset)

    def on_snapshot_loaded(
        self, offset: int, voters: VoterSet | None, *, keep_voters: bool = False
    ) -> None:
        """The log now begins (and ends) at `offset` after a snapshot, which is committed by
        definition.

        `keep_voters` is for startup, where the voter history was read before.
        """
        quorum = self.quorum
        if not keep_voters:
            quorum.voters.reset_to(offset, voters)
        if offset > quorum.high_watermark:
            quorum.high_watermark = offset
            quorum.effects.append(HighWatermarkAdvanced(offset))

    # -- requests from other nodes ----------------------------------------------------------

    def on_vote(self, request: Vote, now: Tick) -> VoteResponse:
        """Vote (52)."""
        return self.election.on_vote(request, now)

    def on_begin_epoch(self, begun: BeginEpoch, now: Tick) -> QuorumResponse:
        """BeginQuorumEpoch (53): another replica leads."""
        quorum = self.quorum
        if begun.epoch < quorum.epoch:
            return QuorumResponse(
                ErrorCode.FENCED_LEADER_EPOCH, quorum.announced_leader, quorum.epoch
            )
        if begun.voter is not None and not begun.voter.matches(quorum.me):
            return QuorumResponse(
                ErrorCode.INVALID_VOTER_KEY, quorum.announced_leader, quorum.epoch
            )
        quorum.maybe_transition(begun.leader_id, begun.epoch, now)
        if quorum.role is RaftRole.PROSPECTIVE and quorum.leader_id == begun.leader_id:
            quorum.follow(begun.leader_id, begun.epoch, now)
        return QuorumResponse(ErrorCode.NONE, quorum.announced_leader, quorum.epoch)

    def on_end_epoch(self, ended: EndEpoch, now: Tick) -> QuorumResponse:
        """EndQuorumEpoch (54): another replica stopped leading."""
        return self.election.on_end_epoch(ended, now)

    def on_fetch(
        self, request: Fetch, now: Tick, *, may_wait: bool, is_retry: bool = False
    ) -> FetchResponse | None:
        """Fetch (1) of the metadata log; None makes it wait. `is_retry`: it has waited already."""
        return self.leader_state.on_fetch(request, now, may_wait=may_wait, is_retry=is_retry)

    def on_fetch_snapshot(self, request: FetchSnapshot, now: Tick) -> FetchSnapshotResponse:
        """FetchSnapshot (59)."""
        return self.leader_state.on_fetch_snapshot(request, now)

    # -- responses to own requests -----------------------------------------------------------

    def on_response(
        self, to: int, request: RaftRequest, response: QuorumResponse, now: Tick
    ) -> None:
        """A request of this replica was answered."""
        self.quorum.on_response(to, request)
        match request, response:
            case Vote(), _:
                self.election.on_vote_response(to, request, response, now)
                self._begin_leading(now)
            case BeginEpoch(), _:
                self.leader_state.on_begin_epoch_response(to, response, now)
            case EndEpoch(), _:
                self.leader_state.on_end_epoch_response(to, response, now)
            case Fetch(), FetchResponse():
                self.follower_state.on_fetch_response(to, request, response, now)
            case FetchSnapshot(), FetchSnapshotResponse():
                self.follower_state.on_fetch_snapshot_response(to, request, response, now)

    def on_request_failed(
        self, to: int, request: RaftRequest, now: Tick, *, is_refused: bool
    ) -> None:
        """A request of this replica was not answered. `is_refused`: the other side is down."""
        self.quorum.on_request_failed(to, request, now)
        if isinstance(request, Fetch | FetchSnapshot):
            self.follower_state.on_fetch_failed(to, is_refused, now)
        elif isinstance(request, Vote) and is_refused:
            self.election.on_vote_failed(to, request, now)

    def on_connection_lost(self, node_id: int, now: Tick) -> None:
        """The other side reset a connection."""
        if node_id == self.quorum.leader_id:
            self.quorum.suspect_leader(now)
