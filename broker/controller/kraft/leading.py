"""Leading an epoch: who has fetched how far, what is committed, whether a majority still listens.

In: fetches of voters and observers, flushed offsets, time. Out: answers, the high watermark, the
wish to resign. Never: a record of an earlier epoch counted as committed before one of this epoch is
(Raft §5.4.2: the LeaderChange record at `start_offset` is the first that may be).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.controller.kraft.core import NEVER_MS, Core
from broker.controller.kraft.messages import (
    NO_LEADER,
    Answer,
    BeginEpoch,
    Committed,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Moment,
    OffsetAndEpoch,
    SnapshotAnswer,
)
from broker.controller.kraft.states import Event, Role
from broker.controller.kraft.voters import STATIC_OFFSET, ReplicaKey, Voter
from bus.errors import ErrorCode

OBSERVER_TIMEOUT_MS = 300_000
"""An observer that was silent for so long is forgotten, as Kafka does."""

MAX_OBSERVERS = 1000
"""More are served but not listed: a stranger could make up ids without end."""


@dataclass(slots=True)
class Progress:
    """How far a replica has come. Times are the machine's (monotonic) milliseconds."""

    key: ReplicaKey
    end_offset: int = -1
    fetched_at_ms: int = -1
    caught_up_at_ms: int = -1
    leader_end_at_fetch: int = -1


@dataclass(slots=True)
class Term:
    """One epoch in which this machine leads. `heard` is what voters said of themselves in it."""

    epoch: int
    start_offset: int
    progress: dict[int, Progress] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)
    check_at_ms: int = 0
    voters_offset: int = STATIC_OFFSET
    ended_told: set[int] = field(default_factory=set)
    begun_ms: int = 0
    heard: dict[int, Voter] = field(default_factory=dict)


class Leading:
    """The part of a machine that leads."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.term: Term | None = None

    def begin(self, now: Moment) -> None:
        """The election is won; the LeaderChange record goes to the log's end."""
        core = self._core
        self.term = Term(
            core.epoch, core.log.end.offset, check_at_ms=self._check_at(now), begun_ms=now.now_ms
        )

    def _check_at(self, now: Moment) -> int:
        return now.now_ms + self._core.settings.check_quorum_ms

    @property
    def is_established(self) -> bool:
        """Whether something of this epoch is committed: only then this leader knows what is."""
        term = self.term
        if term is None or self._core.role is not Role.LEADER:
            return False
        return self._core.high_watermark > term.start_offset

    # -- timers -----------------------------------------------------------------------------

    def poll(self, now: Moment) -> None:
        """Tell voters that have not fetched yet; resign when a majority has gone."""
        core, term = self._core, self.term
        if core.role is Role.RESIGNED:
            self._tell_end(now)
        if core.role is not Role.LEADER or term is None:
            return
        if term.voters_offset != core.voters.latest_offset:
            # Other voters than before: they get the whole time to come and fetch.
            term.voters_offset = core.voters.latest_offset
            term.fetched.clear()
            term.check_at_ms = self._check_at(now)
        if self._others() and now.now_ms >= term.check_at_ms:
            self.resign(now)
            return
        for voter in core.voters.latest.voters:
            if voter.key.id != core.me.id and self._is_silent(voter.key.id, now):
                core.send(voter.key.id, BeginEpoch(core.me.id, core.epoch, voter.key), now)

    def _others(self) -> int:
        """How many other voters must fetch for this leader to have a majority."""
        voters = self._core.voters.latest
        return voters.majority - (1 if voters.has(self._core.me) else 0)

    def _is_silent(self, node_id: int, now: Moment) -> bool:
        term = self.term
        found = term.progress.get(node_id) if term else None
        half_ms = self._core.settings.fetch_timeout_ms // 2
        return found is None or now.now_ms - found.fetched_at_ms >= half_ms

    def deadline_ms(self) -> int:
        """When `poll` has something to do although nothing came."""
        core, term = self._core, self.term
        if term is None:
            return NEVER_MS
        others = [v.key.id for v in core.voters.latest.voters if v.key.id != core.me.id]
        if core.role is Role.RESIGNED:
            lines = [core.line(one, EndEpoch) for one in others if one not in term.ended_told]
            return min((x.ready_at_ms for x in lines if not x.in_flight), default=NEVER_MS)
        if core.role is not Role.LEADER or not others:
            return NEVER_MS
        return min([term.check_at_ms, *(self._silent_at(one) for one in others)])

    def _silent_at(self, node_id: int) -> int:
        """When a voter must be told again, as far as is known now."""
        line = self._core.line(node_id, BeginEpoch)
        if line.in_flight:
            return NEVER_MS
        found = self.term.progress.get(node_id) if self.term else None
        half_ms = self._core.settings.fetch_timeout_ms // 2
        heard_ms = -half_ms if found is None else found.fetched_at_ms
        return max(line.ready_at_ms, heard_ms + half_ms)

    def resign(self, now: Moment) -> None:
        """Lead no longer; the others are told and may elect at once."""
        core = self._core
        core.move(Event.RESIGN)
        core.deadline_ms = now.now_ms + core.spread(core.settings.election_timeout_ms, now)
        core.announce(NO_LEADER)
        self._tell_end(now)

    def _tell_end(self, now: Moment) -> None:
        term = self.term
        if term is None:
            return
        core = self._core
        successors = self.successors()
        for voter in core.voters.latest.voters:
            if voter.key.id != core.me.id and voter.key.id not in term.ended_told:
                core.send(voter.key.id, EndEpoch(core.me.id, core.epoch, successors), now)

    @property
    def is_end_told(self) -> bool:
        """Whether a majority of the others knows that this leader resigned."""
        told = len(self.term.ended_told) if self.term is not None else 0
        return told >= self._others()

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one that has come furthest first."""
        core, term = self._core, self.term
        keys = [voter.key for voter in core.voters.latest.voters if voter.key.id != core.me.id]
        progress = term.progress if term else {}

        def rank(key: ReplicaKey) -> tuple[int, int]:
            found = progress.get(key.id)
            return (-(found.end_offset if found else -1), key.id)

        return tuple(sorted(keys, key=rank))

    def on_begin_answer(self, voter_id: int, answer: Answer, now: Moment) -> None:
        """A voter heard that this machine leads. One that has not fetched is told again later."""
        self._core.learn(answer.leader_id, answer.epoch, now)
        line = self._core.line(voter_id, BeginEpoch)
        line.ready_at_ms = now.now_ms + self._core.settings.fetch_timeout_ms // 2

    def on_end_answer(self, voter_id: int, answer: Answer, now: Moment) -> None:
        """A voter heard that this machine leads no longer."""
        if not self._core.learn(answer.leader_id, answer.epoch, now) and self.term is not None:
            self.term.ended_told.add(voter_id)

    # -- fetches ----------------------------------------------------------------------------

    def on_fetch(
        self, ask: Fetch, now: Moment, *, may_wait: bool, again: bool
    ) -> FetchAnswer | None:
        """Answer, or None to let the fetch wait for records or a higher watermark.

        Coming for more says that everything before is flushed there: this is what commits.
        """
        refused = self._refusal(ask.epoch)
        if refused is not None:
            return refused
        core = self._core
        if ask.last_epoch > core.epoch or ask.offset < 0:
            return self._fetch_answer(ErrorCode.INVALID_REQUEST)
        if not again and self._is_namesake(ask.replica, now):
            return self._fetch_answer(ErrorCode.DUPLICATE_VOTER)
        verdict = self._misplaced(ask)
        if verdict is not None:
            return verdict
        if not again:  # a fetch that waits says nothing new of its sender
            self._note(ask.replica, ask.offset, now)
        # Only replicas see what is not committed yet.
        end = core.log.end.offset if ask.replica.id >= 0 else max(core.high_watermark, 0)
        news = end > ask.offset or core.high_watermark > ask.high_watermark
        if not news and may_wait:
            return None
        read_from = ask.offset if end > ask.offset else None
        return self._fetch_answer(ErrorCode.NONE, read_from=read_from)

    def _refusal(self, epoch: int) -> FetchAnswer | None:
        core = self._core
        if epoch < core.epoch:
            return self._fetch_answer(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > core.epoch:
            return self._fetch_answer(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if core.role is not Role.LEADER:
            return self._fetch_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    def _misplaced(self, ask: Fetch) -> FetchAnswer | None:
        """KIP-595 and KIP-630: the follower's log differs from ours, or ours begins later."""
        log = self._core.log
        start, snapshot = log.start, log.latest_snapshot
        if start.offset == 0 and ask.offset == 0:
            return None
        behind = (
            ask.offset < start.offset
            or (ask.offset == start.offset and ask.last_epoch not in (start.epoch, -1))
            or 0 <= ask.last_epoch < start.epoch
        )
        if behind and snapshot is not None:
            return self._fetch_answer(ErrorCode.NONE, snapshot=snapshot)
        if ask.last_epoch < 0:  # a consumer that does not know
            beyond = ask.offset > log.end.offset
            return self._fetch_answer(ErrorCode.OFFSET_OUT_OF_RANGE) if beyond else None
        end = log.end_of_epoch(ask.last_epoch)
        if end.epoch != ask.last_epoch or end.offset < ask.offset:
            return self._fetch_answer(ErrorCode.NONE, diverging=end)
        return None

    def _fetch_answer(
        self,
        error: ErrorCode,
        *,
        read_from: int | None = None,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> FetchAnswer:
        core = self._core
        return FetchAnswer(
            error, core.announced_leader, core.epoch, core.high_watermark, core.log.start.offset,
            diverging, snapshot, read_from=read_from,
        )  # fmt: skip

    def on_fetch_snapshot(self, ask: FetchSnapshot, now: Moment) -> SnapshotAnswer:
        """Whether this machine may serve snapshots now; the shell reads the bytes."""
        core = self._core
        refused = self._refusal(ask.epoch)
        if refused is None and self._is_namesake(ask.replica, now):
            refused = self._fetch_answer(ErrorCode.DUPLICATE_VOTER)
        if refused is None:
            self._note(ask.replica, None, now)
        error = ErrorCode.NONE if refused is None else refused.error
        return SnapshotAnswer(error, core.announced_leader, core.epoch, ask.snapshot)

    def _is_namesake(self, key: ReplicaKey, now: Moment) -> bool:
        """Whether a voter with this id lives and this is another one: what the one has stored must
        never count for the other. A voter that came back with a new directory waits until the old
        one has been silent for a fetch time-out."""
        core, term = self._core, self.term
        if key.id == core.me.id:
            return not key.matches(core.me)
        voter = core.voters.latest.find(key.id)
        if term is None or voter is None or voter.key == key:
            return False
        found = term.progress.get(key.id)
        if found is None or found.key.matches(key):
            return False
        return now.now_ms - found.fetched_at_ms < core.settings.fetch_timeout_ms

    def _note(self, key: ReplicaKey, offset: int | None, now: Moment) -> None:
        """A replica has come for more from `offset` on."""
        core, term = self._core, self.term
        if term is None or key.id < 0 or key.id == core.me.id:
            return
        votes = core.voters.latest.has(key)
        if key.id not in term.progress and not votes and len(term.progress) >= MAX_OBSERVERS:
            return
        found = term.progress.get(key.id)
        if found is None or not found.key.matches(key):
            found = term.progress[key.id] = Progress(key)
        if offset is not None:
            self._advance(found, offset, now)
        if votes:
            term.fetched.add(key.id)
            if len(term.fetched) >= self._others():
                term.fetched.clear()
                term.check_at_ms = self._check_at(now)
        self.advance_watermark()

    def _advance(self, found: Progress, offset: int, now: Moment) -> None:
        end = self._core.log.end.offset
        if offset >= end:
            found.caught_up_at_ms = now.now_ms
        elif found.fetched_at_ms >= 0 and offset >= found.leader_end_at_fetch:
            found.caught_up_at_ms = max(found.caught_up_at_ms, found.fetched_at_ms)
        found.end_offset = offset
        found.fetched_at_ms, found.leader_end_at_fetch = now.now_ms, end

    def advance_watermark(self) -> None:
        """What a majority has flushed is committed, if it is of this epoch."""
        core, term = self._core, self.term
        if term is None or core.role is not Role.LEADER:
            return
        voters = core.voters.latest
        ends = sorted((self._end_of(voter.key) for voter in voters.voters), reverse=True)
        if not ends:
            return
        reached = ends[voters.majority - 1]
        if reached > term.start_offset and reached > core.high_watermark:
            core.high_watermark = reached
            core.effects.append(Committed(reached))

    def _end_of(self, key: ReplicaKey) -> int:
        core, term = self._core, self.term
        if key.matches(core.me):
            return core.log.flushed_offset
        found = term.progress.get(key.id) if term else None
        return found.end_offset if found is not None and found.key.matches(key) else -1

    def observers(self, now: Moment) -> list[Progress]:
        """Who else fetches, by id; the long silent are forgotten."""
        term = self.term
        if term is None:
            return []
        voters = self._core.voters.latest
        for node_id, found in sorted(term.progress.items()):
            silent_ms = now.now_ms - found.fetched_at_ms
            if not voters.has(found.key) and silent_ms > OBSERVER_TIMEOUT_MS:
                del term.progress[node_id]
        return [p for _, p in sorted(term.progress.items()) if not voters.has(p.key)]
