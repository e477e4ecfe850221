"""Carries the machine's effects out: on the log, the snapshots, the images, the election state.

In: effects, one at a time, in order. Out: a changed disk, what the machine must hear of it, commits
for the images. Never: a decision; an effect that the disk refuses raises and is carried out again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from broker.controller.kraft import control, quorum_state
from broker.controller.kraft.driver import DISK_PAUSE_S
from broker.controller.kraft.messages import (
    AppendRecords,
    AppendVoters,
    BecameLeader,
    Committed,
    Effect,
    ElectionState,
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
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.port import Disk, DiskError
from broker.log.errors import LogError
from bus.records.control import ControlType

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode

log = logging.getLogger("broker.controller")


class Carrier:
    """The hands of one node."""

    def __init__(self, node: RaftNode, disk: Disk, static: VoterSet | None) -> None:
        self._node = node
        self._disk = disk
        self._static = static

    def carry_out(self, effect: Effect) -> None:
        """One effect."""
        node = self._node
        match effect:
            case Persist(state):
                self._store(state)
            case Send(to, request):
                node.driver.send(to, request)
            case Truncate(offset):
                self._truncated(node.log.truncate_to(offset))
            case AppendRecords(records):
                self._append_fetched(records)
            case SnapshotPiece(snapshot, position, data):
                node.log.snapshots.write_piece(snapshot, position, data)
            case SnapshotComplete(snapshot):
                self._take_snapshot(snapshot)
            case BecameLeader(epoch, granting):
                self._begin_to_lead(epoch, granting)
            case AppendVoters(voters, raises_version):
                self._append_voters(voters, raises_version)
                node.flush_soon()
            case LeaderIs(leader_id, epoch):
                node.leader_is(leader_id, epoch)
            case Committed(offset):
                self._commit(offset)

    def _store(self, state: ElectionState) -> None:
        node = self._node
        voted = state.voted or ReplicaKey(-1)
        text = quorum_state.encode(
            quorum_state.QuorumState(state.leader_id, state.epoch, voted.id, voted.directory_id),
            node.voters.ids if node.machine.core.voters.static and self._static else None,
        )
        path = f"{node.log.directory}/{quorum_state.FILE_NAME}"
        self._disk.replace_text_durably(path, text)

    # -- following --------------------------------------------------------------------------

    def _append_fetched(self, records: bytes | memoryview) -> None:
        node = self._node
        try:
            node.log.append_fetched(records)
        except (LogError, DiskError) as error:
            log.error("fetched metadata cannot be stored: %s", error)
            self._pause()
            return
        for offset, voters in node.log.voters_in(records):
            self._heard_voters(offset, voters)
        node.machine.on_appended()

    def _pause(self) -> None:
        now_ms = self._node.driver.moment().now_ms
        self._node.machine.following.pause(now_ms + int(DISK_PAUSE_S * 1000))

    def _heard_voters(self, offset: int, voters: VoterSet) -> None:
        self._node.machine.on_voters(offset, voters)
        self._node.links.set_voters(voters)
        log.info("voters are %s from offset %d on", list(voters.ids), offset)

    def _truncated(self, end_offset: int) -> None:
        log.info("the metadata log is cut to offset %d, as the leader has it", end_offset)
        self._node.machine.on_truncated(end_offset)
        self._node.links.set_voters(self._node.voters)

    def _take_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        node = self._node
        try:
            node.log.snapshots.complete(snapshot)
        except (SnapshotDamaged, DiskError) as error:
            log.error("snapshot %s is fetched again: %s", snapshot, error)
            self._pause()
            return
        node.log.restart_behind(snapshot)
        batches = list(node.log.snapshots.load(snapshot))
        voters = next((one.voters for one in batches if one.voters is not None), None)
        changes = node.images.replace(batches, snapshot.offset, snapshot.epoch)
        node.images.publish(changes)
        node.machine.on_snapshot_loaded(snapshot.offset, voters)
        node.links.set_voters(node.voters)
        log.info("took over the leader's snapshot %s", snapshot)

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
        node.flush_soon()

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
