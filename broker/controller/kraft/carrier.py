"""Carries the machine's effects out: on the log, the snapshots, the images, the election state.

In: effects, one at a time, in order. Out: a changed disk, what the machine must hear of it, commits
for the images. Never: a decision, nor a wait for the device on the event loop: what has to be
stored goes to the worker `METADATA_WORKER`, which keeps the order of all of it. An effect that the
disk refuses raises and is carried out again; a flush that failed is never asked for again
(`DirectoryFailed`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from broker.controller.kraft import control, quorum_state
from broker.controller.kraft.batches import StoredBatch
from broker.controller.kraft.context import QuorumContext, moment
from broker.controller.kraft.messages import (
    AppendRecords,
    AppendVoters,
    BecameLeader,
    Committed,
    Effect,
    ElectionState,
    Flush,
    LeaderIs,
    OffsetAndEpoch,
    Persist,
    Request,
    Send,
    SnapshotComplete,
    SnapshotPiece,
    Truncate,
)
from broker.controller.kraft.snapshots import SnapshotDamaged
from broker.controller.kraft.states import Role
from broker.controller.kraft.vote_file import write_durably
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.port import METADATA_WORKER, DiskError, DiskFull
from broker.log.errors import LogError
from bus.records.control import ControlType

log = logging.getLogger("broker.controller")

PAUSE_MS = 1000
"""After the disk refused what was fetched: how long until this node fetches again."""

DROP_ROUNDS = 8
"""A leader that writes all the time is given so many flushes to find it with all of them done."""


class DirectoryFailed(Exception):
    """The device has lost what was written, or cannot say: only the next life may look at it."""


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Give back the part of the log that a snapshot covers."""

    snapshot: OffsetAndEpoch


ShellEffect = DropBefore

NEED_DISK = (Persist, Flush, Truncate, AppendRecords, SnapshotComplete, DropBefore)


class CarrierHost(Protocol):
    """What carrying effects out needs of the node."""

    def send(self, to: int, request: Request) -> None:
        """Send a request to another node; its answer is an event of the machine."""

    def flush_soon(self) -> None:
        """Flush what this leader has appended."""

    def leader_is(self, leader_id: int, epoch: int) -> None:
        """Another leader, or none (-1), is known."""

    def on_committed(self) -> None:
        """More is committed, published and answered."""

    def dropped(self, paths: list[str]) -> None:
        """The log begins later; nothing reads these files any more."""


class Carrier:
    """Carries the effects of one node out."""

    def __init__(self, context: QuorumContext, host: CarrierHost, static: VoterSet | None) -> None:
        self._context = context
        self._host = host
        self._disk = context.disk
        self._static = static
        self._appended: AppendRecords | None = None
        """What is in the log and not flushed yet, for lack of room."""

    def needs_disk(self, effect: Effect | ShellEffect) -> bool:
        """Whether it is for `store`; all others are for `carry_out`."""
        return isinstance(effect, NEED_DISK)

    async def store(self, effect: Effect | ShellEffect) -> None:
        """One effect that waits for the device. When this returns, what follows may be said."""
        match effect:
            case Persist(state):
                await self._persist(state)
            case Flush():
                await self.force()
            case Truncate(offset):
                await self._truncate(offset)
            case AppendRecords():
                await self._append_fetched(effect)
            case SnapshotComplete(snapshot):
                await self._take_snapshot(snapshot)
            case DropBefore(snapshot):
                await self._drop_before(snapshot)

    def carry_out(self, effect: Effect | ShellEffect) -> None:
        """One effect that does not."""
        match effect:
            case Send(to, request):
                self._host.send(to, request)
            case SnapshotPiece(snapshot, position, data):
                self._context.log.snapshots.write_piece(snapshot, position, data)
            case BecameLeader(epoch, granting):
                self._begin_to_lead(epoch, granting)
            case AppendVoters(voters, raises_version):
                self._append_voters(voters, raises_version)
                self._host.flush_soon()
            case LeaderIs(leader_id, epoch):
                self._host.leader_is(leader_id, epoch)
            case Committed(offset):
                self._commit(offset)

    async def force(self) -> None:
        """Everything that is in the log now is on the device then. Raises DirectoryFailed, or what
        the disk says if there is no room for the books beside the log."""
        raft_log = self._context.log
        try:
            flush = raft_log.begin_flush()
            if flush is not None:
                await self._disk.run(raft_log.force, flush, worker=METADATA_WORKER)
                raft_log.mark_flushed(flush)
        except (LogError, DiskError) as error:
            if is_for_room(error):
                raise
            raise DirectoryFailed(f"cannot be flushed: {error}") from error

    async def _persist(self, state: ElectionState) -> None:
        context = self._context
        voted = state.voted or ReplicaKey(-1)
        text = quorum_state.encode(
            quorum_state.QuorumState(state.leader_id, state.epoch, voted.id, voted.directory_id),
            context.voters.ids if context.machine.core.voters.static and self._static else None,
        )
        path = f"{context.log.directory}/{quorum_state.FILE_NAME}"
        await self._disk.run(write_durably, self._disk, path, text, worker=METADATA_WORKER)

    # -- following --------------------------------------------------------------------------

    async def _append_fetched(self, effect: AppendRecords) -> None:
        context = self._context
        if self._appended is not effect:  # else there was only no room to finish its flush
            try:
                context.log.append_fetched(effect.records)
            except (LogError, DiskError) as error:
                log.error("fetched metadata cannot be stored: %s", error)
                self._pause()
                return
            self._appended = effect
        await self.force()
        self._appended = None
        for offset, voters in context.log.voters_in(effect.records):
            self._heard_voters(offset, voters)
        context.machine.on_appended()

    def _pause(self) -> None:
        now_ms = moment(self._context.clock).now_ms
        self._context.machine.following.pause(now_ms + PAUSE_MS)

    def _heard_voters(self, offset: int, voters: VoterSet) -> None:
        self._context.machine.on_voters(offset, voters)
        self._context.links.set_voters(voters)
        log.info("voters are %s from offset %d on", list(voters.ids), offset)

    async def _truncate(self, offset: int) -> None:
        context = self._context
        try:
            end_offset = await self._disk.run(
                context.log.truncate_to, offset, worker=METADATA_WORKER
            )
        except (LogError, DiskError) as error:
            if is_for_room(error):
                raise
            raise DirectoryFailed(f"cannot be cut to offset {offset}: {error}") from error
        log.info("the metadata log is cut to offset %d, as the leader has it", end_offset)
        context.machine.on_truncated(end_offset)
        context.links.set_voters(context.voters)

    async def _take_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        context = self._context
        try:
            await self._disk.run(context.log.snapshots.complete, snapshot, worker=METADATA_WORKER)
        except (SnapshotDamaged, DiskError) as error:
            log.error("snapshot %s is fetched again: %s", snapshot, error)
            self._pause()
            return
        context.log.snapshots.finished(snapshot)
        try:
            batches = await self._disk.run(self._begin_behind, snapshot, worker=METADATA_WORKER)
        except (LogError, DiskError) as error:
            raise DirectoryFailed(f"cannot begin behind snapshot {snapshot}: {error}") from error
        voters = next((one.voters for one in batches if one.voters is not None), None)
        changes = context.images.replace(batches, snapshot.offset, snapshot.epoch)
        context.images.publish(changes)
        context.machine.on_snapshot_loaded(snapshot.offset, voters)
        context.links.set_voters(context.voters)
        log.info("took over the leader's snapshot %s", snapshot)

    def _begin_behind(self, snapshot: OffsetAndEpoch) -> list[StoredBatch]:
        """On the worker: the log begins anew behind a snapshot."""
        raft_log = self._context.log
        raft_log.restart_behind(snapshot)
        return list(raft_log.snapshots.load(snapshot))

    async def _drop_before(self, snapshot: OffsetAndEpoch) -> None:
        """A roll leaves a mark that what is before it is there, so all has to be flushed then; a
        leader goes on appending meanwhile."""
        raft_log = self._context.log
        try:
            for _ in range(DROP_ROUNDS):
                if raft_log.flushed_offset == raft_log.end.offset:
                    self._host.dropped(raft_log.drop_before(snapshot))
                    return
                await self.force()
        except (LogError, DiskError) as error:
            log.error("metadata that a snapshot covers is kept for now: %s", error)

    def _commit(self, offset: int) -> None:
        context = self._context
        context.log.advance_high_watermark(offset)
        leads = context.machine.role is Role.LEADER
        if not leads and context.images.replayed_offset < offset:
            context.images.replay(context.log.batches(context.images.replayed_offset, offset))
        context.images.commit(offset)
        context.machine.on_committed(moment(context.clock))
        self._host.on_committed()

    # -- leading ----------------------------------------------------------------------------

    def _begin_to_lead(self, epoch: int, granting: tuple[int, ...]) -> None:
        context = self._context
        value = control.leader_change(context.me.id, context.voters.ids, granting)
        context.log.append_control(ControlType.LEADER_CHANGE, value, epoch)
        if self._static is None and context.machine.core.voters.latest_offset < 0:
            # Only a format or a snapshot names the voters: those who read the log must hear it.
            alone = context.voters.is_only(context.me)
            self._append_voters(self._own_set() if alone else context.voters, True)
        context.images.replay(
            context.log.batches(context.images.replayed_offset, context.log.end.offset)
        )
        self._host.flush_soon()

    def _own_set(self) -> VoterSet:
        place = self._context.endpoint or Endpoint("127.0.0.1", 0)
        return VoterSet.of([Voter(self._context.me, (place,))])

    def _append_voters(self, voters: VoterSet, raises_version: bool) -> None:
        context = self._context
        rows = [(ControlType.KRAFT_VOTERS, control.voters_record(voters))]
        if raises_version:
            rows.insert(0, (ControlType.KRAFT_VERSION, control.kraft_version()))
        offset = context.log.append_controls(rows, context.machine.epoch)
        context.images.replayed_offset = max(context.images.replayed_offset, offset + 1)
        self._heard_voters(offset, voters)


def is_for_room(error: Exception) -> bool:
    """Whether the disk is only full: nothing is lost by that, and there may be room again."""
    return isinstance(error, DiskFull) or isinstance(error.__cause__, DiskFull)
