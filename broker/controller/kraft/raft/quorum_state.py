"""The state that all parts of the Raft core share: epoch, leader, vote, role, timers, effects.

In: changes of the epoch and the role. Out: effects, in the order in which the shell must execute
them. Never: I/O, a clock, randomness, or a rule of one role only (those are in `election`, `leader`
and `follower`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    Effect,
    ElectionState,
    LeaderChanged,
    OffsetAndEpoch,
    PersistElectionState,
    RaftRequest,
    SendRequest,
    Tick,
)
from broker.controller.kraft.raft.roles import RaftRole, RoleEvent, next_role
from broker.controller.kraft.raft.voters import ReplicaKey, VoterSetHistory
from bus.errors import check

SUSPECT_MS = 40
"""Minimum wait between a reset connection to the leader and a pre-vote."""

SUSPECT_JITTER_MS = 160
"""Maximum jitter added to it, so that two followers seldom start at the same moment."""

NEVER_MS = 1 << 62


class LogView(Protocol):
    """Read-only view of the metadata log."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The log end offset and the epoch of the last record (of the snapshot if the log is
        empty)."""

    @property
    def flushed_offset(self) -> int:
        """Everything below it survives a power loss."""

    @property
    def start(self) -> OffsetAndEpoch:
        """Where the log begins; everything before it is in the snapshot with this id."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above `epoch`, and its end offset."""


@dataclass(frozen=True, slots=True)
class QuorumConfig:
    """The `controller.quorum.*` part of the configuration."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    max_wait_ms: int = 500
    can_vote: bool = True

    @property
    def check_quorum_ms(self) -> int:
        """A leader that no majority fetches from for this long resigns (KIP-595's addendum)."""
        return self.fetch_timeout_ms * 3 // 2


@dataclass(slots=True)
class RequestSlot:
    """Requests of one kind to one node: at most one in flight, and a pause after a failure."""

    in_flight: bool = False
    ready_at_ms: int = 0


@dataclass(slots=True)
class QuorumState:
    """The shared state.

    Invariant: `epoch` never decreases; `voted` and `leader_id`, once set, do not change within an
    epoch.
    """

    config: QuorumConfig
    me: ReplicaKey
    log: LogView
    voters: VoterSetHistory
    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None
    role: RaftRole = RaftRole.OBSERVER
    deadline_ms: int = NEVER_MS
    high_watermark: int = -1
    has_fetched: bool = False
    leader_response_at_ms: int = 0
    backoffs: int = 0
    stored: ElectionState = field(default_factory=ElectionState)
    announced: LeaderChanged | None = None
    effects: list[Effect] = field(default_factory=list)
    request_slots: dict[tuple[int, type], RequestSlot] = field(default_factory=dict)

    # -- epochs and leaders -----------------------------------------------------------------

    def begin_epoch(self, epoch: int, now: Tick) -> None:
        """Enters a newer epoch whose leader is not known."""
        check(epoch > self.epoch, "an epoch never comes again")
        self.epoch, self.leader_id, self.voted = epoch, NO_LEADER, None
        self.persist()
        self._on_leader_lost(RoleEvent.NEWER_EPOCH, now)

    def follow(self, leader_id: int, epoch: int, now: Tick) -> None:
        """Follows `leader_id` as the leader of `epoch`."""
        check(leader_id != self.me.id, "a replica does not follow itself")
        check(epoch > self.epoch or self.leader_id in (NO_LEADER, leader_id), "one leader each")
        if epoch > self.epoch:
            self.voted = None
        self.epoch, self.leader_id = epoch, leader_id
        self.persist()
        self.role = next_role(self.role, RoleEvent.LEADER_FOUND)
        self.has_fetched, self.backoffs = False, 0
        self.deadline_ms = now.now_ms + self.fetch_timeout_ms(now)
        self.request_slots.clear()
        self.announce(leader_id)

    def maybe_transition(self, leader_id: int, epoch: int, now: Tick) -> bool:
        """Applies the leader and epoch that a request or response names; whether anything
        changed."""
        if epoch < self.epoch:
            return False
        if leader_id == self.me.id:
            leader_id = NO_LEADER  # the sender remembers this replica before its restart
        if leader_id != NO_LEADER and (epoch > self.epoch or self.leader_id == NO_LEADER):
            if self.role is RaftRole.RESIGNED and epoch == self.epoch:
                return False
            self.follow(leader_id, epoch, now)
            return True
        if epoch > self.epoch:
            self.begin_epoch(epoch, now)
            return True
        return False

    def transition(self, event: RoleEvent) -> None:
        """Changes the role by the table."""
        self.role = next_role(self.role, event)
        self.request_slots.clear()

    def suspect_leader(self, now: Tick) -> None:
        """The leader may be gone: a reset connection is a hint, only a majority decides.

        Until its next successful fetch this voter would grant a pre-vote to another, and it soon
        starts a pre-vote itself.
        """
        if self.role is not RaftRole.FOLLOWER:
            return
        self.has_fetched = False
        soon_ms = now.now_ms + SUSPECT_MS + int(SUSPECT_JITTER_MS * now.random)
        self.deadline_ms = min(self.deadline_ms, soon_ms)

    def _on_leader_lost(self, event: RoleEvent, now: Tick) -> None:
        self.transition(event)
        self.has_fetched = False
        self.deadline_ms = now.now_ms + self.jittered_ms(self.config.election_timeout_ms, now)
        self.announce(NO_LEADER)

    def announce(self, leader_id: int) -> None:
        """Reports the leader of this epoch (-1: none) once, not again after each failed
        election."""
        news = LeaderChanged(leader_id, self.epoch)
        if news != self.announced:
            self.announced = news
            self.effects.append(news)

    def persist(self) -> None:
        """Has the shell store epoch, leader and vote if they differ from the stored ones."""
        state = ElectionState(self.epoch, self.leader_id, self.voted)
        if state != self.stored:
            self.stored = state
            self.effects.append(PersistElectionState(state))

    # -- small questions --------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        """Whether this replica votes, by the newest voter set in its log."""
        return self.config.can_vote and self.voters.latest.has(self.me)

    def jittered_ms(self, base_ms: int, now: Tick) -> int:
        """A random duration from `base_ms` to twice that."""
        return base_ms + int(base_ms * now.random)

    def fetch_timeout_ms(self, now: Tick) -> int:
        """How long a silent leader is trusted. A twentieth is jitter, so that of two followers with
        the same last contact one starts its election first."""
        timeout_ms = self.config.fetch_timeout_ms
        return timeout_ms + int(timeout_ms * now.random / 20)

    def has_leader_contact(self, now: Tick) -> bool:
        """Whether the leader of this epoch responded recently. It answers each fetch within
        `max_wait_ms`, so half a fetch timeout without a response is long."""
        lately = now.now_ms - self.leader_response_at_ms < self.config.fetch_timeout_ms // 2
        return self.leader_id != NO_LEADER and self.has_fetched and lately

    def backoff_ms(self, now: Tick) -> int:
        """The pause after a lost election: a random part of a limit that doubles each time up to
        its maximum."""
        self.backoffs += 1
        most = min(
            self.config.election_backoff_max_ms,
            self.config.retry_backoff_ms << min(self.backoffs, 16),
        )
        return 1 + int(most * now.random)

    @property
    def announced_leader(self) -> int:
        """The leader that responses name; none if this replica led and resigned."""
        return NO_LEADER if self.role is RaftRole.RESIGNED else self.leader_id

    # -- requests ---------------------------------------------------------------------------

    def request_slot(self, to: int, kind: type) -> RequestSlot:
        """The slot for requests of this kind to this node."""
        return self.request_slots.setdefault((to, kind), RequestSlot())

    def may_send(self, to: int, kind: type, now: Tick) -> bool:
        """Whether no request of this kind is in flight and no pause is active."""
        slot = self.request_slot(to, kind)
        return not slot.in_flight and slot.ready_at_ms <= now.now_ms

    def send(self, to: int, request: RaftRequest, now: Tick) -> None:
        """Sends the request if its slot allows it."""
        if self.may_send(to, type(request), now):
            self.request_slot(to, type(request)).in_flight = True
            self.effects.append(SendRequest(to, request))

    def on_response(self, to: int, request: RaftRequest) -> None:
        """The request was answered."""
        self.request_slot(to, type(request)).in_flight = False

    def on_request_failed(self, to: int, request: RaftRequest, now: Tick) -> None:
        """The request was not answered; pauses the slot."""
        slot = self.request_slot(to, type(request))
        slot.in_flight = False
        slot.ready_at_ms = now.now_ms + self.config.retry_backoff_ms
