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
from typing import TYPE_CHECKING

from broker.controller.kraft import control, quorum_state
from broker.controller.kraft.batches import StoredBatch
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
    Send,
    SnapshotComplete,
    SnapshotPiece,
    Truncate,
)
from broker.controller.kraft.snapshots import SnapshotDamaged
from broker.controller.kraft.states import Role
from broker.controller.kraft.vote_file import write_durably
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.port import METADATA_WORKER, Disk, DiskError, DiskFull
from broker.log.errors import LogError
from bus.records.control import ControlType

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

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


class Carrier:
    """The hands of one node."""

    def __init__(self, node: RaftNode, disk: Disk, static: VoterSet | None) -> None:
        self._node = node
        self._disk = disk
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
        node = self._node
        match effect:
            case Send(to, request):
                node.driver.send(to, request)
            case SnapshotPiece(snapshot, position, data):
                node.log.snapshots.write_piece(snapshot, position, data)
            case BecameLeader(epoch, granting):
                self._begin_to_lead(epoch, granting)
            case AppendVoters(voters, raises_version):
                self._append_voters(voters, raises_version)
                node.flushing.soon()
            case LeaderIs(leader_id, epoch):
                node.leader_is(leader_id, epoch)
            case Committed(offset):
                self._commit(offset)

    async def force(self) -> None:
        """Everything that is in the log now is on the device then. Raises DirectoryFailed, or what
        the disk says if there is no room for the books beside the log."""
        node = self._node
        try:
            flush = node.log.begin_flush()
            if flush is not None:
                await self._disk.run(node.log.force, flush, worker=METADATA_WORKER)
                node.log.mark_flushed(flush)
        except (LogError, DiskError) as error:
            if is_for_room(error):
                raise
            raise DirectoryFailed(f"cannot be flushed: {error}") from error

    async def _persist(self, state: ElectionState) -> None:
        node = self._node
        voted = state.voted or ReplicaKey(-1)
        text = quorum_state.encode(
            quorum_state.QuorumState(state.leader_id, state.epoch, voted.id, voted.directory_id),
            node.voters.ids if node.machine.core.voters.static and self._static else None,
        )
        path = f"{node.log.directory}/{quorum_state.FILE_NAME}"
        await self._disk.run(write_durably, self._disk, path, text, worker=METADATA_WORKER)

    # -- following --------------------------------------------------------------------------

    async def _append_fetched(self, effect: AppendRecords) -> None:
        node = self._node
        if self._appended is not effect:  # else there was only no room to finish its flush
            try:
                node.log.append_fetched(effect.records)
            except (LogError, DiskError) as error:
                log.error("fetched metadata cannot be stored: %s", error)
                self._pause()
                return
            self._appended = effect
        await self.force()
        self._appended = None
        for offset, voters in node.log.voters_in(effect.records):
            self._heard_voters(offset, voters)
        node.machine.on_appended()

    def _pause(self) -> None:
        now_ms = self._node.driver.moment().now_ms
        self._node.machine.following.pause(now_ms + PAUSE_MS)

    def _heard_voters(self, offset: int, voters: VoterSet) -> None:
        self._node.machine.on_voters(offset, voters)
        self._node.links.set_voters(voters)
        log.info("voters are %s from offset %d on", list(voters.ids), offset)

    async def _truncate(self, offset: int) -> None:
        node = self._node
        try:
            end_offset = await self._disk.run(node.log.truncate_to, offset, worker=METADATA_WORKER)
        except (LogError, DiskError) as error:
            if is_for_room(error):
                raise
            raise DirectoryFailed(f"cannot be cut to offset {offset}: {error}") from error
        log.info("the metadata log is cut to offset %d, as the leader has it", end_offset)
        node.machine.on_truncated(end_offset)
        node.links.set_voters(node.voters)

    async def _take_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        node = self._node
        try:
            await self._disk.run(node.log.snapshots.complete, snapshot, worker=METADATA_WORKER)
        except (SnapshotDamaged, DiskError) as error:
            log.error("snapshot %s is fetched again: %s", snapshot, error)
            self._pause()
            return
        node.log.snapshots.finished(snapshot)
        try:
            batches = await self._disk.run(self._begin_behind, snapshot, worker=METADATA_WORKER)
        except (LogError, DiskError) as error:
            raise DirectoryFailed(f"cannot begin behind snapshot {snapshot}: {error}") from error
        voters = next((one.voters for one in batches if one.voters is not None), None)
        changes = node.images.replace(batches, snapshot.offset, snapshot.epoch)
        node.images.publish(changes)
        node.machine.on_snapshot_loaded(snapshot.offset, voters)
        node.links.set_voters(node.voters)
        log.info("took over the leader's snapshot %s", snapshot)

    def _begin_behind(self, snapshot: OffsetAndEpoch) -> list[StoredBatch]:
        """On the worker: the log begins anew behind a snapshot."""
        raft_log = self._node.log
        raft_log.restart_behind(snapshot)
        return list(raft_log.snapshots.load(snapshot))

    async def _drop_before(self, snapshot: OffsetAndEpoch) -> None:
        """A roll leaves a mark that what is before it is there, so all has to be flushed then; a
        leader goes on appending meanwhile."""
        raft_log = self._node.log
        try:
            for _ in range(DROP_ROUNDS):
                if raft_log.flushed_offset == raft_log.end.offset:
                    self._node.housekeeping.dropped(raft_log.drop_before(snapshot))
                    return
                await self.force()
        except (LogError, DiskError) as error:
            log.error("metadata that a snapshot covers is kept for now: %s", error)

    def _commit(self, offset: int) -> None:
        node = self._node
        node.log.advance_high_watermark(offset)
        leads = node.machine.role is Role.LEADER
        if not leads and node.images.replayed_offset < offset:
            node.images.replay(node.log.batches(node.images.replayed_offset, offset))
        node.images.commit(offset)
        node.machine.on_committed(node.driver.moment())
        if node.machine.role is Role.LEADER and not node.is_active:
            node.activate()
        node.housekeeping.on_commit()

    # -- leading ----------------------------------------------------------------------------

    def _begin_to_lead(self, epoch: int, granting: tuple[int, ...]) -> None:
        node = self._node
        value = control.leader_change(node.me.id, node.voters.ids, granting)
        node.log.append_control(ControlType.LEADER_CHANGE, value, epoch)
        if self._static is None and node.machine.core.voters.latest_offset < 0:
            # Only a format or a snapshot names the voters: those who read the log must hear it.
            alone = node.voters.is_only(node.me)
            self._append_voters(self._own_set() if alone else node.voters, True)
        node.images.replay(node.log.batches(node.images.replayed_offset, node.log.end.offset))
        node.flushing.soon()

    def _own_set(self) -> VoterSet:
        place = self._node.endpoint or Endpoint("127.0.0.1", 0)
        return VoterSet.of([Voter(self._node.me, (place,))])

    def _append_voters(self, voters: VoterSet, raises_version: bool) -> None:
        node = self._node
        rows = [(ControlType.KRAFT_VOTERS, control.voters_record(voters))]
        if raises_version:
            rows.insert(0, (ControlType.KRAFT_VERSION, control.kraft_version()))
        offset = node.log.append_controls(rows, node.machine.epoch)
        node.images.replayed_offset = max(node.images.replayed_offset, offset + 1)
        self._heard_voters(offset, voters)


def is_for_room(error: Exception) -> bool:
    """Whether the disk is only full: nothing is lost by that, and there may be room again."""
    return isinstance(error, DiskFull) or isinstance(error.__cause__, DiskFull)
