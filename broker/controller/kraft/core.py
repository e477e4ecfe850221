"""What every part of the quorum's machine shares: epoch, leader, vote, role, timers, effects.

In: changes of the epoch and of the role. Out: effects, in the order in which the shell must carry
them out. Never: I/O, a clock, dice, and no rule of one role only (`election`, `leading`,
`following` have those).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from broker.controller.kraft.messages import (
    NO_LEADER,
    Effect,
    ElectionState,
    LeaderIs,
    Moment,
    OffsetAndEpoch,
    Persist,
    Send,
)
from broker.controller.kraft.messages import Request as Message
from broker.controller.kraft.states import Event, Role, next_role
from broker.controller.kraft.voters import ReplicaKey, VoterHistory
from bus.errors import check

DOUBT_MS = 40
"""After the connection to the leader was reset: the least wait before asking who would vote."""

DOUBT_SPREAD_MS = 160
"""And what the dice add, so that two followers seldom begin in the same moment."""

NEVER_MS = 1 << 62


class LogView(Protocol):
    """What the machine may know of the log. All of it is looking, nothing changes by it."""

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log and the epoch of its last record (of the snapshot if none)."""

    @property
    def flushed_offset(self) -> int:
        """Everything below it would survive the death of the machine."""

    @property
    def start(self) -> OffsetAndEpoch:
        """Where the log begins; what was before is in the snapshot of this id."""

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above `epoch`, and where it ends; offset first."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The quorum's part of the configuration."""

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    max_wait_ms: int = 500
    can_vote: bool = True

    @property
    def check_quorum_ms(self) -> int:
        """A leader that no majority fetched from for so long resigns (KIP-595's addendum)."""
        return self.fetch_timeout_ms * 3 // 2


@dataclass(slots=True)
class Line:
    """Requests of one kind to one node: at most one under way, a pause after a failure."""

    in_flight: bool = False
    ready_at_ms: int = 0


@dataclass(slots=True)
class Core:
    """The shared state.

    Invariant: `epoch` never falls; `voted` and `leader_id` of an epoch, once set, stay.
    """

    settings: Settings
    me: ReplicaKey
    log: LogView
    voters: VoterHistory
    epoch: int = 0
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None
    role: Role = Role.OBSERVER
    deadline_ms: int = NEVER_MS
    high_watermark: int = -1
    has_fetched: bool = False
    heard_at_ms: int = 0
    backoffs: int = 0
    stored: ElectionState = field(default_factory=ElectionState)
    announced: LeaderIs | None = None
    effects: list[Effect] = field(default_factory=list)
    lines: dict[tuple[int, type], Line] = field(default_factory=dict)

    # -- epochs and leaders -----------------------------------------------------------------

    def begin_epoch(self, epoch: int, now: Moment) -> None:
        """A newer epoch is known; who leads it is not."""
        check(epoch > self.epoch, "an epoch never comes again")
        self.epoch, self.leader_id, self.voted = epoch, NO_LEADER, None
        self.persist()
        self._lost_leader(Event.NEWER_EPOCH, now)

    def follow(self, leader_id: int, epoch: int, now: Moment) -> None:
        """`leader_id` leads `epoch`."""
        check(leader_id != self.me.id, "nobody follows himself")
        check(epoch > self.epoch or self.leader_id in (NO_LEADER, leader_id), "one leader each")
        if epoch > self.epoch:
            self.voted = None
        self.epoch, self.leader_id = epoch, leader_id
        self.persist()
        self.role = next_role(self.role, Event.LEADER_FOUND)
        self.has_fetched, self.backoffs = False, 0
        self.deadline_ms = now.now_ms + self.fetch_timeout_ms(now)
        self.lines.clear()
        self.announce(leader_id)

    def learn(self, leader_id: int, epoch: int, now: Moment) -> bool:
        """What a request or response says about the epoch; whether that was news."""
        if epoch < self.epoch:
            return False
        if leader_id == self.me.id:
            leader_id = NO_LEADER  # somebody remembers an earlier life of mine
        if leader_id != NO_LEADER and (epoch > self.epoch or self.leader_id == NO_LEADER):
            if self.role is Role.RESIGNED and epoch == self.epoch:
                return False
            self.follow(leader_id, epoch, now)
            return True
        if epoch > self.epoch:
            self.begin_epoch(epoch, now)
            return True
        return False

    def move(self, event: Event) -> None:
        """Change the role by the table."""
        self.role = next_role(self.role, event)
        self.lines.clear()

    def doubt(self, now: Moment) -> None:
        """The leader may be gone: a reset connection is news, but only a majority is certain.

        Until the next successful fetch this voter would elect another, and soon asks around.
        """
        if self.role is not Role.FOLLOWER:
            return
        self.has_fetched = False
        soon_ms = now.now_ms + DOUBT_MS + int(DOUBT_SPREAD_MS * now.dice)
        self.deadline_ms = min(self.deadline_ms, soon_ms)

    def _lost_leader(self, event: Event, now: Moment) -> None:
        self.move(event)
        self.has_fetched = False
        self.deadline_ms = now.now_ms + self.spread(self.settings.election_timeout_ms, now)
        self.announce(NO_LEADER)

    def announce(self, leader_id: int) -> None:
        """Who leads this epoch, -1 for nobody; said once, not each time one asks around in vain."""
        news = LeaderIs(leader_id, self.epoch)
        if news != self.announced:
            self.announced = news
            self.effects.append(news)

    def persist(self) -> None:
        """Let the shell store epoch, leader and vote, if they are not what it stored last."""
        state = ElectionState(self.epoch, self.leader_id, self.voted)
        if state != self.stored:
            self.stored = state
            self.effects.append(Persist(state))

    # -- small questions --------------------------------------------------------------------

    @property
    def is_voter(self) -> bool:
        """Whether this replica votes by the newest voters in its log."""
        return self.settings.can_vote and self.voters.latest.has(self.me)

    def spread(self, base_ms: int, now: Moment) -> int:
        """`base_ms` to twice that, by the dice."""
        return base_ms + int(base_ms * now.dice)

    def fetch_timeout_ms(self, now: Moment) -> int:
        """How long to believe in a leader that says nothing; a twentieth of it by the dice, so that
        one of two followers that heard from it last in the same moment stands first."""
        timeout_ms = self.settings.fetch_timeout_ms
        return timeout_ms + int(timeout_ms * now.dice / 20)

    def hears_leader(self, now: Moment) -> bool:
        """Whether the leader of this epoch has answered lately. It answers each fetch within
        `max_wait_ms`, so half a fetch time-out of silence is a long time."""
        lately = now.now_ms - self.heard_at_ms < self.settings.fetch_timeout_ms // 2
        return self.leader_id != NO_LEADER and self.has_fetched and lately

    def backoff_ms(self, now: Moment) -> int:
        """The pause after a lost election: doubles each time, up to its maximum, by the dice."""
        self.backoffs += 1
        most = min(
            self.settings.election_backoff_max_ms,
            self.settings.retry_backoff_ms << min(self.backoffs, 16),
        )
        return 1 + int(most * now.dice)

    @property
    def announced_leader(self) -> int:
        """Whom others are told to follow: nobody, if this replica led and resigned."""
        return NO_LEADER if self.role is Role.RESIGNED else self.leader_id

    # -- requests ---------------------------------------------------------------------------

    def line(self, to: int, kind: type) -> Line:
        """The line of requests of this kind to this node."""
        return self.lines.setdefault((to, kind), Line())

    def may_send(self, to: int, kind: type, now: Moment) -> bool:
        """Whether none of this kind is under way and no pause is on."""
        line = self.line(to, kind)
        return not line.in_flight and line.ready_at_ms <= now.now_ms

    def send(self, to: int, request: Message, now: Moment) -> None:
        """Send if it may be sent."""
        if self.may_send(to, type(request), now):
            self.line(to, type(request)).in_flight = True
            self.effects.append(Send(to, request))

    def arrived(self, to: int, request: Message) -> None:
        """The request was answered."""
        self.line(to, type(request)).in_flight = False

    def failed(self, to: int, request: Message, now: Moment) -> None:
        """The request was not answered: pause."""
        line = self.line(to, type(request))
        line.in_flight = False
        line.ready_at_ms = now.now_ms + self.settings.retry_backoff_ms
