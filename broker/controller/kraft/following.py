"""Fetching: from the leader, from whoever may know one, and snapshots when the log is too short.

In: answers to fetches, lost connections. Out: fetches, truncations, appends, the high watermark as
the leader tells it. Never: an offset truncated below what this replica knows to be committed; that
would mean that two histories were committed, and the process stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.controller.kraft.core import NEVER_MS, Core
from broker.controller.kraft.messages import (
    NO_LEADER,
    Answer,
    AppendRecords,
    Committed,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Flush,
    Moment,
    OffsetAndEpoch,
    SnapshotAnswer,
    SnapshotComplete,
    SnapshotPiece,
    Truncate,
)
from broker.controller.kraft.states import Role
from bus.errors import ErrorCode, check

SEEKERS = (Role.UNATTACHED, Role.FOLLOWER, Role.OBSERVER)


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot on its way. Invariant: bytes below `position` are with the shell."""

    snapshot: OffsetAndEpoch
    position: int = 0


class Following:
    """The part of a machine that fetches. `bootstrap` are node ids to ask for the leader."""

    def __init__(self, core: Core, bootstrap: Sequence[int] = ()) -> None:
        self._core = core
        self._bootstrap = tuple(bootstrap)
        self._turn = 0
        self._snapshot: SnapshotFetch | None = None
        self._told_watermark = -1
        self._left: tuple[int, int] | None = None
        """(epoch, leader id) that an observer could not fetch from; it asks others meanwhile."""

    # -- sending ----------------------------------------------------------------------------

    def poll(self, now: Moment) -> None:
        """Keep one fetch under way."""
        core = self._core
        if core.role not in SEEKERS:
            self._snapshot = None
            return
        if not self._has_leader():
            self._snapshot = None
            self._seek(now)
        elif self._snapshot is not None:
            fetch = self._snapshot
            ask = FetchSnapshot(core.me, core.epoch, fetch.snapshot, fetch.position)
            core.send(core.leader_id, ask, now)
        else:
            self._send_fetch(core.leader_id, now)

    def _send_fetch(self, to: int, now: Moment) -> None:
        """Coming for more says that everything before is flushed here; what this replica appended
        while it led may not be."""
        core = self._core
        if not core.may_send(to, Fetch, now):
            return
        if core.log.flushed_offset < core.log.end.offset:
            core.effects.append(Flush())
        core.send(to, self._fetch(), now)

    def _has_leader(self) -> bool:
        """Whether there is one to fetch from. A voter without one stands for election in time; an
        observer can only ask around, also when the leader it knows does not answer."""
        core = self._core
        if core.leader_id in (NO_LEADER, core.me.id):
            return False
        return core.role is not Role.OBSERVER or self._left != (core.epoch, core.leader_id)

    def _fetch(self) -> Fetch:
        core = self._core
        end = core.log.end
        # In doubt about the leader its silence must not be taken for an idle log.
        certain = core.has_fetched and self._has_leader()
        wait_ms = core.settings.max_wait_ms if certain else 0
        return Fetch(core.me, core.epoch, end.offset, end.epoch, wait_ms, core.high_watermark)

    def _seek(self, now: Moment) -> None:
        """Ask one after the other who leads; a fetch is refused with the answer."""
        core, known = self._core, self._known()
        if not known:
            return
        to = known[self._turn % len(known)]
        if not any(
            core.line(other, Fetch).in_flight or core.line(other, Fetch).ready_at_ms > now.now_ms
            for other in known
        ):
            self._send_fetch(to, now)

    def deadline_ms(self) -> int:
        """When a fetch that had to pause may go."""
        core = self._core
        if core.role not in SEEKERS:
            return NEVER_MS
        if self._has_leader():
            kind = Fetch if self._snapshot is None else FetchSnapshot
            line = core.line(core.leader_id, kind)
            return NEVER_MS if line.in_flight else line.ready_at_ms
        lines = [core.line(one, Fetch) for one in self._known()]
        if any(line.in_flight for line in lines):
            return NEVER_MS
        return max((line.ready_at_ms for line in lines), default=NEVER_MS)

    def _known(self) -> list[int]:
        """Whom to ask who leads."""
        core = self._core
        return [*(one for one in core.voters.latest.ids if one != core.me.id), *self._bootstrap]

    # -- answers ----------------------------------------------------------------------------

    def on_failure(self, to: int, refused: bool, now: Moment) -> None:
        """No answer to a fetch. `refused`: nobody listens there, or the connection was reset."""
        self._turn += 1
        if to == self._core.leader_id:
            self._leave()
            if refused:
                self._core.doubt(now)

    def _leave(self) -> None:
        self._left = (self._core.epoch, self._core.leader_id)

    def on_fetch_answer(self, to: int, ask: Fetch, answer: FetchAnswer, now: Moment) -> None:
        """Records, a divergence, a snapshot, or the news of another leader."""
        core = self._core
        if core.learn(answer.leader_id, answer.epoch, now):
            return
        if ask.epoch != core.epoch or to != core.leader_id or core.role not in SEEKERS:
            self._pause(to, now)
            return
        if answer.error is not ErrorCode.NONE:
            self._refused(to, answer, now)
            return
        self._heard(now)
        if (ask.offset, ask.last_epoch) != core.log.end:
            return  # the log was truncated, restarted or extended since: asked by an older fetch
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot is not None:
            self._snapshot = SnapshotFetch(answer.snapshot)
        else:
            if len(answer.records):
                core.effects.append(AppendRecords(answer.records))
            self._told_watermark = answer.high_watermark
            self.on_appended()

    def on_appended(self) -> None:
        """The log has grown: the watermark told with the records may be taken over now."""
        core = self._core
        reached = min(self._told_watermark, core.log.flushed_offset)
        if core.role is not Role.LEADER and reached > core.high_watermark:
            core.high_watermark = reached
            core.effects.append(Committed(reached))

    def _heard(self, now: Moment) -> None:
        core = self._core
        core.has_fetched, core.backoffs, self._left = True, 0, None
        core.heard_at_ms = now.now_ms
        if core.role is Role.FOLLOWER:
            core.deadline_ms = now.now_ms + core.fetch_timeout_ms(now)

    def _refused(self, to: int, answer: Answer, now: Moment) -> None:
        """An answer without records from the node we take for the leader."""
        self._pause(to, now)
        if answer.error is ErrorCode.DUPLICATE_VOTER:
            pause_ms = self._core.settings.fetch_timeout_ms // 4
            self._core.line(to, Fetch).ready_at_ms = now.now_ms + pause_ms
        if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and to == self._core.leader_id:
            self._leave()
            self._core.doubt(now)

    def pause(self, until_ms: int) -> None:
        """The disk refuses what was fetched: no fetch until then."""
        self._snapshot = None
        self._core.line(self._core.leader_id, Fetch).ready_at_ms = until_ms

    def _pause(self, to: int, now: Moment) -> None:
        self._turn += 1
        self._core.line(to, Fetch).ready_at_ms = now.now_ms + self._core.settings.retry_backoff_ms

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        core = self._core
        ours = core.log.end_of_epoch(diverging.epoch)
        if ours.epoch == diverging.epoch:
            offset = min(ours.offset, diverging.offset)
        else:
            offset = min(max(ours.offset, 0), core.log.end.offset)
        check(offset >= core.high_watermark, "what is committed is never truncated")
        core.effects.append(Truncate(offset))

    def on_snapshot_answer(
        self, to: int, ask: FetchSnapshot, answer: SnapshotAnswer, now: Moment
    ) -> None:
        """A piece of the snapshot, or the news that it is gone."""
        core, fetch = self._core, self._snapshot
        if core.learn(answer.leader_id, answer.epoch, now):
            return
        if fetch is None or ask.snapshot != fetch.snapshot or ask.position != fetch.position:
            return
        if answer.error is not ErrorCode.NONE:
            self._snapshot = None  # fetch the log again: the leader names a newer snapshot
            self._refused(to, answer, now)
            return
        self._heard(now)
        core.effects.append(SnapshotPiece(fetch.snapshot, fetch.position, answer.data))
        fetch.position += len(answer.data)
        if fetch.position >= answer.size:
            self._snapshot = None
            core.effects.append(SnapshotComplete(fetch.snapshot))
        elif not len(answer.data):
            self._snapshot = None
