"""Leading an epoch: progress of the other replicas, the high watermark, check quorum.

In: fetches of voters and observers, flushed offsets, time. Out: responses, the high watermark,
resignations. Never: a record of an earlier epoch counted as committed before one of this epoch is
(Raft §5.4.2: the LeaderChange record at `start_offset` is the first that may be).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    HighWatermarkAdvanced,
    OffsetAndEpoch,
    QuorumResponse,
    Tick,
)
from broker.controller.kraft.raft.quorum_state import NEVER_MS, QuorumState
from broker.controller.kraft.raft.roles import RaftRole, RoleEvent
from broker.controller.kraft.raft.voters import STATIC_OFFSET, ReplicaKey, Voter
from bus.errors import ErrorCode

OBSERVER_TIMEOUT_MS = 300_000
"""An observer that was silent for this long is removed from the list, as in Kafka."""

MAX_OBSERVERS = 1000
"""Further observers are served but not listed: a foreign client could invent ids without end."""


@dataclass(slots=True)
class Progress:
    """How far a replica has fetched. Times are in monotonic milliseconds."""

    key: ReplicaKey
    end_offset: int = -1
    fetched_at_ms: int = -1
    caught_up_at_ms: int = -1
    leader_end_at_fetch: int = -1


@dataclass(slots=True)
class LeaderEpoch:
    """One epoch that this replica leads. `voter_updates` are the endpoints and versions that voters
    reported in it."""

    epoch: int
    start_offset: int
    progress: dict[int, Progress] = field(default_factory=dict)
    fetched_voters: set[int] = field(default_factory=set)
    check_quorum_at_ms: int = 0
    voters_offset: int = STATIC_OFFSET
    end_acknowledged: set[int] = field(default_factory=set)
    started_ms: int = 0
    voter_updates: dict[int, Voter] = field(default_factory=dict)


class LeaderState:
    """The part of the Raft core that leads."""

    def __init__(self, quorum: QuorumState) -> None:
        self._quorum = quorum
        self.current: LeaderEpoch | None = None

    def begin(self, now: Tick) -> None:
        """The election is won; the LeaderChange record goes to the log's end."""
        quorum = self._quorum
        self.current = LeaderEpoch(
            quorum.epoch,
            quorum.log.end.offset,
            check_quorum_at_ms=self._check_quorum_at_ms(now),
            started_ms=now.now_ms,
        )

    def _check_quorum_at_ms(self, now: Tick) -> int:
        return now.now_ms + self._quorum.config.check_quorum_ms

    @property
    def is_established(self) -> bool:
        """Whether a record of this epoch is committed: only then does this leader know the high
        watermark."""
        current = self.current
        if current is None or self._quorum.role is not RaftRole.LEADER:
            return False
        return self._quorum.high_watermark > current.start_offset

    # -- timers -----------------------------------------------------------------------------

    def poll(self, now: Tick) -> None:
        """Sends BeginQuorumEpoch to voters that do not fetch yet; resigns when a majority is
        gone."""
        quorum, current = self._quorum, self.current
        if quorum.role is RaftRole.RESIGNED:
            self._send_end_epoch(now)
        if quorum.role is not RaftRole.LEADER or current is None:
            return
        if current.voters_offset != quorum.voters.latest_offset:
            # The voter set changed: the new voters get the full time to fetch.
            current.voters_offset = quorum.voters.latest_offset
            current.fetched_voters.clear()
            current.check_quorum_at_ms = self._check_quorum_at_ms(now)
        if self._others_needed() and now.now_ms >= current.check_quorum_at_ms:
            self.resign(now)
            return
        for voter in quorum.voters.latest.voters:
            if voter.key.id != quorum.me.id and self._is_silent(voter.key.id, now):
                quorum.send(voter.key.id, BeginEpoch(quorum.me.id, quorum.epoch, voter.key), now)

    def _others_needed(self) -> int:
        """How many other voters must fetch for this leader to have a majority."""
        voters = self._quorum.voters.latest
        return voters.majority - (1 if voters.has(self._quorum.me) else 0)

    def _is_silent(self, node_id: int, now: Tick) -> bool:
        current = self.current
        found = current.progress.get(node_id) if current else None
        half_ms = self._quorum.config.fetch_timeout_ms // 2
        return found is None or now.now_ms - found.fetched_at_ms >= half_ms

    def deadline_ms(self) -> int:
        """When `poll` is due even if no event arrives."""
        quorum, current = self._quorum, self.current
        if current is None:
            return NEVER_MS
        others = [v.key.id for v in quorum.voters.latest.voters if v.key.id != quorum.me.id]
        if quorum.role is RaftRole.RESIGNED:
            slots = [
                quorum.request_slot(one, EndEpoch)
                for one in others
                if one not in current.end_acknowledged
            ]
            return min((slot.ready_at_ms for slot in slots if not slot.in_flight), default=NEVER_MS)
        if quorum.role is not RaftRole.LEADER or not others:
            return NEVER_MS
        return min(
            [current.check_quorum_at_ms, *(self._next_begin_epoch_ms(one) for one in others)]
        )

    def _next_begin_epoch_ms(self, node_id: int) -> int:
        """When a voter must be sent BeginQuorumEpoch again, as far as is known now."""
        slot = self._quorum.request_slot(node_id, BeginEpoch)
        if slot.in_flight:
            return NEVER_MS
        found = self.current.progress.get(node_id) if self.current else None
        half_ms = self._quorum.config.fetch_timeout_ms // 2
        fetched_ms = -half_ms if found is None else found.fetched_at_ms
        return max(slot.ready_at_ms, fetched_ms + half_ms)

    def resign(self, now: Tick) -> None:
        """Stops leading and notifies the others, which may elect at once."""
        quorum = self._quorum
        quorum.transition(RoleEvent.RESIGN)
        quorum.deadline_ms = now.now_ms + quorum.jittered_ms(quorum.config.election_timeout_ms, now)
        quorum.announce(NO_LEADER)
        self._send_end_epoch(now)

    def _send_end_epoch(self, now: Tick) -> None:
        current = self.current
        if current is None:
            return
        quorum = self._quorum
        successors = self.successors()
        for voter in quorum.voters.latest.voters:
            if voter.key.id != quorum.me.id and voter.key.id not in current.end_acknowledged:
                quorum.send(voter.key.id, EndEpoch(quorum.me.id, quorum.epoch, successors), now)

    @property
    def is_end_acknowledged(self) -> bool:
        """Whether a majority of the others knows that this leader resigned."""
        acknowledged = len(self.current.end_acknowledged) if self.current is not None else 0
        return acknowledged >= self._others_needed()

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        quorum, current = self._quorum, self.current
        keys = [voter.key for voter in quorum.voters.latest.voters if voter.key.id != quorum.me.id]
        progress = current.progress if current else {}

        def rank(key: ReplicaKey) -> tuple[int, int]:
            found = progress.get(key.id)
            return (-(found.end_offset if found else -1), key.id)

        return tuple(sorted(keys, key=rank))

    def on_begin_epoch_response(self, voter_id: int, response: QuorumResponse, now: Tick) -> None:
        """A voter knows this leader. If it does not fetch it is notified again later."""
        self._quorum.maybe_transition(response.leader_id, response.epoch, now)
        slot = self._quorum.request_slot(voter_id, BeginEpoch)
        slot.ready_at_ms = now.now_ms + self._quorum.config.fetch_timeout_ms // 2

    def on_end_epoch_response(self, voter_id: int, response: QuorumResponse, now: Tick) -> None:
        """A voter knows that this leader resigned."""
        if (
            not self._quorum.maybe_transition(response.leader_id, response.epoch, now)
            and self.current is not None
        ):
            self.current.end_acknowledged.add(voter_id)

    # -- fetches ----------------------------------------------------------------------------

    def on_fetch(
        self, request: Fetch, now: Tick, *, may_wait: bool, is_retry: bool
    ) -> FetchResponse | None:
        """The response, or None to let the fetch wait for records or a higher watermark.

        A fetch implies that everything before its offset is flushed at the sender: this is what
        commits records.
        """
        rejection = self._check_leading(request.epoch)
        if rejection is not None:
            return rejection
        quorum = self._quorum
        if request.last_epoch > quorum.epoch or request.offset < 0:
            return self._fetch_response(ErrorCode.INVALID_REQUEST)
        if not is_retry and self._is_duplicate_id(request.replica, now):
            return self._fetch_response(ErrorCode.DUPLICATE_VOTER)
        verdict = self._check_position(request)
        if verdict is not None:
            return verdict
        if not is_retry:  # a waiting fetch says nothing new of its sender
            self._update_progress(request.replica, request.offset, now)
        # Only replicas see what is not committed yet.
        end = quorum.log.end.offset if request.replica.id >= 0 else max(quorum.high_watermark, 0)
        news = end > request.offset or quorum.high_watermark > request.high_watermark
        if not news and may_wait:
            return None
        read_from = request.offset if end > request.offset else None
        return self._fetch_response(ErrorCode.NONE, read_from=read_from)

    def _check_leading(self, epoch: int) -> FetchResponse | None:
        quorum = self._quorum
        if epoch < quorum.epoch:
            return self._fetch_response(ErrorCode.FENCED_LEADER_EPOCH)
        if epoch > quorum.epoch:
            return self._fetch_response(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if quorum.role is not RaftRole.LEADER:
            return self._fetch_response(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    def _check_position(self, request: Fetch) -> FetchResponse | None:
        """KIP-595 and KIP-630: the follower's log diverges, or this log begins later."""
        log = self._quorum.log
        start, snapshot = log.start, log.latest_snapshot
        if start.offset == 0 and request.offset == 0:
            return None
        behind = (
            request.offset < start.offset
            or (request.offset == start.offset and request.last_epoch not in (start.epoch, -1))
            or 0 <= request.last_epoch < start.epoch
        )
        if behind and snapshot is not None:
            return self._fetch_response(ErrorCode.NONE, snapshot=snapshot)
        if request.last_epoch < 0:  # a consumer that does not know
            beyond = request.offset > log.end.offset
            return self._fetch_response(ErrorCode.OFFSET_OUT_OF_RANGE) if beyond else None
        end = log.end_of_epoch(request.last_epoch)
        if end.epoch != request.last_epoch or end.offset < request.offset:
            return self._fetch_response(ErrorCode.NONE, diverging=end)
        return None

    def _fetch_response(
        self,
        error: ErrorCode,
        *,
        read_from: int | None = None,
        diverging: OffsetAndEpoch | None = None,
        snapshot: OffsetAndEpoch | None = None,
    ) -> FetchResponse:
        quorum = self._quorum
        return FetchResponse(
            error, quorum.announced_leader, quorum.epoch, quorum.high_watermark,
            quorum.log.start.offset, diverging, snapshot, read_from=read_from,
        )  # fmt: skip

    def on_fetch_snapshot(self, request: FetchSnapshot, now: Tick) -> FetchSnapshotResponse:
        """Whether this replica may serve snapshots now; the shell reads the bytes."""
        quorum = self._quorum
        rejection = self._check_leading(request.epoch)
        if rejection is None and self._is_duplicate_id(request.replica, now):
            rejection = self._fetch_response(ErrorCode.DUPLICATE_VOTER)
        if rejection is None:
            self._update_progress(request.replica, None, now)
        error = ErrorCode.NONE if rejection is None else rejection.error
        return FetchSnapshotResponse(error, quorum.announced_leader, quorum.epoch, request.snapshot)

    def _is_duplicate_id(self, key: ReplicaKey, now: Tick) -> bool:
        """Whether a live voter has this id and this replica is another one: the offset of the one
        must never count for the other. A voter that returns with a new directory waits until the
        old one has been silent for a fetch timeout."""
        quorum, current = self._quorum, self.current
        if key.id == quorum.me.id:
            return not key.matches(quorum.me)
        voter = quorum.voters.latest.find(key.id)
        if current is None or voter is None or voter.key == key:
            return False
        found = current.progress.get(key.id)
        if found is None or found.key.matches(key):
            return False
        return now.now_ms - found.fetched_at_ms < quorum.config.fetch_timeout_ms

    def _update_progress(self, key: ReplicaKey, offset: int | None, now: Tick) -> None:
        """A replica fetched from `offset`."""
        quorum, current = self._quorum, self.current
        if current is None or key.id < 0 or key.id == quorum.me.id:
            return
        votes = quorum.voters.latest.has(key)
        if key.id not in current.progress and not votes and len(current.progress) >= MAX_OBSERVERS:
            return
        found = current.progress.get(key.id)
        if found is None or not found.key.matches(key):
            found = current.progress[key.id] = Progress(key)
        if offset is not None:
            self._advance_progress(found, offset, now)
        if votes:
            current.fetched_voters.add(key.id)
            if len(current.fetched_voters) >= self._others_needed():
                current.fetched_voters.clear()
                current.check_quorum_at_ms = self._check_quorum_at_ms(now)
        self.advance_high_watermark()

    def _advance_progress(self, found: Progress, offset: int, now: Tick) -> None:
        end = self._quorum.log.end.offset
        if offset >= end:
            found.caught_up_at_ms = now.now_ms
        elif found.fetched_at_ms >= 0 and offset >= found.leader_end_at_fetch:
            found.caught_up_at_ms = max(found.caught_up_at_ms, found.fetched_at_ms)
        found.end_offset = offset
        found.fetched_at_ms, found.leader_end_at_fetch = now.now_ms, end

    def advance_high_watermark(self) -> None:
        """Commits what a majority has flushed, if it is of this epoch."""
        quorum, current = self._quorum, self.current
        if current is None or quorum.role is not RaftRole.LEADER:
            return
        voters = quorum.voters.latest
        ends = sorted((self._flushed_end_of(voter.key) for voter in voters.voters), reverse=True)
        if not ends:
            return
        reached = ends[voters.majority - 1]
        if reached > current.start_offset and reached > quorum.high_watermark:
            quorum.high_watermark = reached
            quorum.effects.append(HighWatermarkAdvanced(reached))

    def _flushed_end_of(self, key: ReplicaKey) -> int:
        quorum, current = self._quorum, self.current
        if key.matches(quorum.me):
            return quorum.log.flushed_offset
        found = current.progress.get(key.id) if current else None
        return found.end_offset if found is not None and found.key.matches(key) else -1

    def observers(self, now: Tick) -> list[Progress]:
        """The other fetching replicas, by id; removes those that have been silent for long."""
        current = self.current
        if current is None:
            return []
        voters = self._quorum.voters.latest
        for node_id, found in sorted(current.progress.items()):
            silent_ms = now.now_ms - found.fetched_at_ms
            if not voters.has(found.key) and silent_ms > OBSERVER_TIMEOUT_MS:
                del current.progress[node_id]
        return [p for _, p in sorted(current.progress.items()) if not voters.has(p.key)]
