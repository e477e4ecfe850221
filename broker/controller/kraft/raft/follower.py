"""Fetching: from the leader, from nodes that may know one, and snapshots when the log is too short.

In: fetch responses, lost connections. Out: fetches, truncations, appends, the high watermark as the
leader reports it. Never: a truncation below what this replica knows to be committed; that would
mean two committed histories, and stops the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    AppendRecords,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    FlushLog,
    HighWatermarkAdvanced,
    OffsetAndEpoch,
    QuorumResponse,
    SnapshotChunk,
    SnapshotComplete,
    Tick,
    Truncate,
)
from broker.controller.kraft.raft.quorum_state import NEVER_MS, QuorumState
from broker.controller.kraft.raft.roles import RaftRole
from bus.errors import ErrorCode, check

FETCHING_ROLES = (RaftRole.UNATTACHED, RaftRole.FOLLOWER, RaftRole.OBSERVER)


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot being fetched. Invariant: the shell has the bytes below `position`."""

    snapshot: OffsetAndEpoch
    position: int = 0


class FollowerState:
    """The part of the Raft core that fetches. `bootstrap` are node ids to ask for the leader."""

    def __init__(self, quorum: QuorumState, bootstrap: Sequence[int] = ()) -> None:
        self._quorum = quorum
        self._bootstrap = tuple(bootstrap)
        self._next_node = 0
        self._snapshot: SnapshotFetch | None = None
        self._leader_high_watermark = -1
        self._unreachable_leader: tuple[int, int] | None = None
        """(epoch, leader id) that an observer could not fetch from; it asks others meanwhile."""

    # -- sending ----------------------------------------------------------------------------

    def poll(self, now: Tick) -> None:
        """Keeps one fetch in flight."""
        quorum = self._quorum
        if quorum.role not in FETCHING_ROLES:
            self._snapshot = None
            return
        if not self._has_leader():
            self._snapshot = None
            self._find_leader(now)
        elif self._snapshot is not None:
            fetch = self._snapshot
            request = FetchSnapshot(quorum.me, quorum.epoch, fetch.snapshot, fetch.position)
            quorum.send(quorum.leader_id, request, now)
        else:
            self._send_fetch(quorum.leader_id, now)

    def _send_fetch(self, to: int, now: Tick) -> None:
        """Flushes before it fetches: a fetch implies that everything before its offset is flushed,
        and what this replica appended while it led may not be."""
        quorum = self._quorum
        if not quorum.may_send(to, Fetch, now):
            return
        if quorum.log.flushed_offset < quorum.log.end.offset:
            quorum.effects.append(FlushLog())
        quorum.send(to, self._fetch(), now)

    def _has_leader(self) -> bool:
        """Whether there is a leader to fetch from. A voter without one starts an election in time;
        an observer can only ask other nodes, also when the leader it knows does not respond."""
        quorum = self._quorum
        if quorum.leader_id in (NO_LEADER, quorum.me.id):
            return False
        return quorum.role is not RaftRole.OBSERVER or self._unreachable_leader != (
            quorum.epoch,
            quorum.leader_id,
        )

    def _fetch(self) -> Fetch:
        quorum = self._quorum
        end = quorum.log.end
        # While the leader is suspected its silence must not be taken for an idle log.
        certain = quorum.has_fetched and self._has_leader()
        wait_ms = quorum.config.max_wait_ms if certain else 0
        return Fetch(quorum.me, quorum.epoch, end.offset, end.epoch, wait_ms, quorum.high_watermark)

    def _find_leader(self, now: Tick) -> None:
        """Asks one node after the other for the leader; the error response to a fetch names it."""
        quorum, known = self._quorum, self._nodes_to_ask()
        if not known:
            return
        to = known[self._next_node % len(known)]
        if not any(
            quorum.request_slot(other, Fetch).in_flight
            or quorum.request_slot(other, Fetch).ready_at_ms > now.now_ms
            for other in known
        ):
            self._send_fetch(to, now)

    def deadline_ms(self) -> int:
        """When a paused fetch may be sent."""
        quorum = self._quorum
        if quorum.role not in FETCHING_ROLES:
            return NEVER_MS
        if self._has_leader():
            kind = Fetch if self._snapshot is None else FetchSnapshot
            slot = quorum.request_slot(quorum.leader_id, kind)
            return NEVER_MS if slot.in_flight else slot.ready_at_ms
        slots = [quorum.request_slot(one, Fetch) for one in self._nodes_to_ask()]
        if any(slot.in_flight for slot in slots):
            return NEVER_MS
        return max((slot.ready_at_ms for slot in slots), default=NEVER_MS)

    def _nodes_to_ask(self) -> list[int]:
        """The nodes to ask for the leader."""
        quorum = self._quorum
        return [*(one for one in quorum.voters.latest.ids if one != quorum.me.id), *self._bootstrap]

    # -- answers ----------------------------------------------------------------------------

    def on_fetch_failed(self, to: int, refused: bool, now: Tick) -> None:
        """A fetch got no response. `refused`: nothing listens there, or the connection was
        reset."""
        self._next_node += 1
        if to == self._quorum.leader_id:
            self._mark_leader_unreachable()
            if refused:
                self._quorum.suspect_leader(now)

    def _mark_leader_unreachable(self) -> None:
        self._unreachable_leader = (self._quorum.epoch, self._quorum.leader_id)

    def on_fetch_response(
        self, to: int, request: Fetch, response: FetchResponse, now: Tick
    ) -> None:
        """Records, a divergence, a snapshot, or another leader."""
        quorum = self._quorum
        if quorum.maybe_transition(response.leader_id, response.epoch, now):
            return
        if (
            request.epoch != quorum.epoch
            or to != quorum.leader_id
            or quorum.role not in FETCHING_ROLES
        ):
            self._back_off(to, now)
            return
        if response.error is not ErrorCode.NONE:
            self._on_error(to, response, now)
            return
        self._on_leader_response(now)
        if (request.offset, request.last_epoch) != quorum.log.end:
            return  # the log was truncated, restarted or extended since this fetch was sent
        if response.diverging is not None:
            self._truncate(response.diverging)
        elif response.snapshot is not None:
            self._snapshot = SnapshotFetch(response.snapshot)
        else:
            if len(response.records):
                quorum.effects.append(AppendRecords(response.records))
            self._leader_high_watermark = response.high_watermark
            self.on_appended()

    def on_appended(self) -> None:
        """The log has grown: applies the high watermark that came with the records."""
        quorum = self._quorum
        reached = min(self._leader_high_watermark, quorum.log.flushed_offset)
        if quorum.role is not RaftRole.LEADER and reached > quorum.high_watermark:
            quorum.high_watermark = reached
            quorum.effects.append(HighWatermarkAdvanced(reached))

    def _on_leader_response(self, now: Tick) -> None:
        quorum = self._quorum
        quorum.has_fetched, quorum.backoffs, self._unreachable_leader = True, 0, None
        quorum.leader_response_at_ms = now.now_ms
        if quorum.role is RaftRole.FOLLOWER:
            quorum.deadline_ms = now.now_ms + quorum.fetch_timeout_ms(now)

    def _on_error(self, to: int, response: QuorumResponse, now: Tick) -> None:
        """An error response from the presumed leader."""
        self._back_off(to, now)
        if response.error is ErrorCode.DUPLICATE_VOTER:
            pause_ms = self._quorum.config.fetch_timeout_ms // 4
            self._quorum.request_slot(to, Fetch).ready_at_ms = now.now_ms + pause_ms
        if response.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and to == self._quorum.leader_id:
            self._mark_leader_unreachable()
            self._quorum.suspect_leader(now)

    def pause(self, until_ms: int) -> None:
        """Stops fetching until then: the disk rejected what was fetched."""
        self._snapshot = None
        self._quorum.request_slot(self._quorum.leader_id, Fetch).ready_at_ms = until_ms

    def _back_off(self, to: int, now: Tick) -> None:
        self._next_node += 1
        self._quorum.request_slot(to, Fetch).ready_at_ms = (
            now.now_ms + self._quorum.config.retry_backoff_ms
        )

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        quorum = self._quorum
        ours = quorum.log.end_of_epoch(diverging.epoch)
        if ours.epoch == diverging.epoch:
            offset = min(ours.offset, diverging.offset)
        else:
            offset = min(max(ours.offset, 0), quorum.log.end.offset)
        check(offset >= quorum.high_watermark, "what is committed is never truncated")
        quorum.effects.append(Truncate(offset))

    def on_fetch_snapshot_response(
        self, to: int, request: FetchSnapshot, response: FetchSnapshotResponse, now: Tick
    ) -> None:
        """A chunk of the snapshot, or an error because it no longer exists."""
        quorum, fetch = self._quorum, self._snapshot
        if quorum.maybe_transition(response.leader_id, response.epoch, now):
            return
        if (
            fetch is None
            or request.snapshot != fetch.snapshot
            or request.position != fetch.position
        ):
            return
        if response.error is not ErrorCode.NONE:
            self._snapshot = None  # fetch the log again: the leader names a newer snapshot
            self._on_error(to, response, now)
            return
        self._on_leader_response(now)
        quorum.effects.append(SnapshotChunk(fetch.snapshot, fetch.position, response.data))
        fetch.position += len(response.data)
        if fetch.position >= response.size:
            self._snapshot = None
            quorum.effects.append(SnapshotComplete(fetch.snapshot))
        elif not len(response.data):
            self._snapshot = None
