"""Executes the effects of the Raft core: on the log, the snapshots, the metadata, the election
state.

In: effects, one at a time, in order. Out: a changed disk, events for the Raft core, commits for the
metadata. Never: a decision, or a wait for the device on the event loop: everything that must be
stored runs on the worker `METADATA_WORKER`, which keeps the order. An effect that fails for lack of
room raises and is executed again; a failed flush is never repeated (`MetadataDirectoryFailed`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol

from broker.controller.kraft.context import QuorumContext, current_tick
from broker.controller.kraft.raft.messages import (
    AppendRecords,
    AppendVoters,
    BecameLeader,
    Effect,
    ElectionState,
    FlushLog,
    HighWatermarkAdvanced,
    LeaderChanged,
    OffsetAndEpoch,
    PersistElectionState,
    RaftRequest,
    SendRequest,
    SnapshotChunk,
    SnapshotComplete,
    Truncate,
)
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage import state_file
from broker.controller.kraft.storage.records import (
    StoredBatch,
    kraft_version,
    leader_change,
    voters_record,
)
from broker.controller.kraft.storage.snapshots import MetadataSnapshotDamaged
from broker.controller.kraft.storage.state_file import write_state
from broker.disk.port import METADATA_WORKER, DiskError, DiskFull
from broker.log.errors import LogError
from bus.records.control import ControlType

log = logging.getLogger("broker.controller")

PAUSE_MS = 1000
"""How long this node stops fetching after the disk rejected what was fetched."""

DROP_ROUNDS = 8
"""A leader that appends all the time gets this many flushes to reach its log's end."""


class MetadataDirectoryFailed(Exception):
    """The device lost what was written, or its state is unknown: only a restarted process may open
    it."""


@dataclass(frozen=True, slots=True)
class DropLogBefore:
    """Delete the part of the log that a snapshot covers."""

    snapshot: OffsetAndEpoch


ShellEffect = DropLogBefore

NEED_DISK = (
    PersistElectionState,
    FlushLog,
    Truncate,
    AppendRecords,
    SnapshotComplete,
    DropLogBefore,
)


class EffectExecutorHost(Protocol):
    """What executing effects needs from the node."""

    def send(self, to: int, request: RaftRequest) -> None:
        """Send a request to another node; its response is an event of the Raft core."""

    def flush_soon(self) -> None:
        """Flush what this leader has appended."""

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """The leader changed; -1 if none is known."""

    def on_committed(self) -> None:
        """More is committed, published and answered."""

    def on_log_dropped(self, paths: list[str]) -> None:
        """The log begins later; these files are no longer read."""


class EffectExecutor:
    """Executes the effects of one node."""

    def __init__(
        self, context: QuorumContext, host: EffectExecutorHost, static: VoterSet | None
    ) -> None:
        self._context = context
        self._host = host
        self._disk = context.disk
        self._static = static
        self._appended: AppendRecords | None = None
        """Appended to the log but not flushed yet, for lack of room."""

    def needs_disk(self, effect: Effect | ShellEffect) -> bool:
        """Whether it is for `store`; all others are for `execute`."""
        return isinstance(effect, NEED_DISK)

    async def store(self, effect: Effect | ShellEffect) -> None:
        """Executes an effect that waits for the device. When this returns, later effects may
        run."""
        match effect:
            case PersistElectionState(state):
                await self._persist(state)
            case FlushLog():
                await self.force()
            case Truncate(offset):
                await self._truncate(offset)
            case AppendRecords():
                await self._append_fetched(effect)
            case SnapshotComplete(snapshot):
                await self._install_snapshot(snapshot)
            case DropLogBefore(snapshot):
                await self._drop_before(snapshot)

    def execute(self, effect: Effect | ShellEffect) -> None:
        """Executes an effect that does not wait."""
        match effect:
            case SendRequest(to, request):
                self._host.send(to, request)
            case SnapshotChunk(snapshot, position, data):
                self._context.log.snapshots.write_chunk(snapshot, position, data)
            case BecameLeader(epoch, granting):
                self._start_leading(epoch, granting)
            case AppendVoters(voters, raises_version):
                self._append_voters(voters, raises_version)
                self._host.flush_soon()
            case LeaderChanged(leader_id, epoch):
                self._host.leader_changed(leader_id, epoch)
            case HighWatermarkAdvanced(offset):
                self._commit(offset)

    async def force(self) -> None:
        """Flushes everything in the log. Raises MetadataDirectoryFailed, or the disk's error if
        there is no room for the files beside the log."""
        raft_log = self._context.log
        try:
            flush = raft_log.begin_flush()
            if flush is not None:
                await self._disk.run(raft_log.force, flush, worker=METADATA_WORKER)
                raft_log.mark_flushed(flush)
        except (LogError, DiskError) as error:
            if is_disk_full(error):
                raise
            raise MetadataDirectoryFailed(f"cannot be flushed: {error}") from error

    async def _persist(self, state: ElectionState) -> None:
        context = self._context
        voted = state.voted or ReplicaKey(-1)
        text = state_file.encode(
            state_file.QuorumStateData(
                state.leader_id, state.epoch, voted.id, voted.directory_id
            ),
            context.voters.ids if context.raft.quorum.voters.static and self._static else None,
        )
        path = f"{context.log.directory}/{state_file.FILE_NAME}"
        await self._disk.run(write_state, self._disk, path, text, worker=METADATA_WORKER)

    # -- following --------------------------------------------------------------------------

    async def _append_fetched(self, effect: AppendRecords) -> None:
        context = self._context
        if self._appended is not effect:  # otherwise only its flush had failed for lack of room
            try:
                context.log.append_fetched(effect.records)
            except (LogError, DiskError) as error:
                log.error("fetched metadata cannot be stored: %s", error)
                self._pause_fetching()
                return
            self._appended = effect
        await self.force()
        self._appended = None
        for offset, voters in context.log.voters_in(effect.records):
            self._set_voters(offset, voters)
        context.raft.on_appended()

    def _pause_fetching(self) -> None:
        now_ms = current_tick(self._context.clock).now_ms
        self._context.raft.follower_state.pause(now_ms + PAUSE_MS)

    def _set_voters(self, offset: int, voters: VoterSet) -> None:
        self._context.raft.on_voters(offset, voters)
        self._context.connections.set_voters(voters)
        log.info("voters are %s from offset %d on", list(voters.ids), offset)

    async def _truncate(self, offset: int) -> None:
        context = self._context
        try:
            end_offset = await self._disk.run(
                context.log.truncate_to, offset, worker=METADATA_WORKER
            )
        except (LogError, DiskError) as error:
            if is_disk_full(error):
                raise
            raise MetadataDirectoryFailed(f"cannot be cut to offset {offset}: {error}") from error
        log.info("the metadata log is cut to offset %d, as the leader has it", end_offset)
        context.raft.on_truncated(end_offset)
        context.connections.set_voters(context.voters)

    async def _install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        context = self._context
        try:
            await self._disk.run(context.log.snapshots.complete, snapshot, worker=METADATA_WORKER)
        except (MetadataSnapshotDamaged, DiskError) as error:
            log.error("snapshot %s is fetched again: %s", snapshot, error)
            self._pause_fetching()
            return
        context.log.snapshots.add(snapshot)
        try:
            batches = await self._disk.run(
                self._restart_log_after, snapshot, worker=METADATA_WORKER
            )
        except (LogError, DiskError) as error:
            raise MetadataDirectoryFailed(
                f"cannot begin behind snapshot {snapshot}: {error}"
            ) from error
        voters = next((one.voters for one in batches if one.voters is not None), None)
        changes = context.metadata.load_snapshot(batches, snapshot.offset, snapshot.epoch)
        context.metadata.publish(changes)
        context.raft.on_snapshot_loaded(snapshot.offset, voters)
        context.connections.set_voters(context.voters)
        log.info("took over the leader's snapshot %s", snapshot)

    def _restart_log_after(self, snapshot: OffsetAndEpoch) -> list[StoredBatch]:
        """Runs on the worker: the log restarts after a snapshot."""
        raft_log = self._context.log
        raft_log.restart_after(snapshot)
        return list(raft_log.snapshots.load(snapshot))

    async def _drop_before(self, snapshot: OffsetAndEpoch) -> None:
        """A roll marks everything before it as flushed, so all of it must be flushed first; a
        leader goes on appending meanwhile."""
        raft_log = self._context.log
        try:
            for _ in range(DROP_ROUNDS):
                if raft_log.flushed_offset == raft_log.end.offset:
                    self._host.on_log_dropped(raft_log.drop_before(snapshot))
                    return
                await self.force()
        except (LogError, DiskError) as error:
            log.error("metadata that a snapshot covers is kept for now: %s", error)

    def _commit(self, offset: int) -> None:
        context = self._context
        context.log.advance_high_watermark(offset)
        leads = context.raft.role is RaftRole.LEADER
        if not leads and context.metadata.replayed_offset < offset:
            context.metadata.replay(context.log.batches(context.metadata.replayed_offset, offset))
        context.metadata.commit(offset)
        context.raft.on_committed(current_tick(context.clock))
        self._host.on_committed()

    # -- leading ----------------------------------------------------------------------------

    def _start_leading(self, epoch: int, granting: tuple[int, ...]) -> None:
        context = self._context
        value = leader_change(context.me.id, context.voters.ids, granting)
        context.log.append_control(ControlType.LEADER_CHANGE, value, epoch)
        if self._static is None and context.raft.quorum.voters.latest_offset < 0:
            # Only a format or a snapshot names the voters: readers of the log need them too.
            alone = context.voters.is_only(context.me)
            self._append_voters(self._only_this_voter() if alone else context.voters, True)
        context.metadata.replay(
            context.log.batches(context.metadata.replayed_offset, context.log.end.offset)
        )
        self._host.flush_soon()

    def _only_this_voter(self) -> VoterSet:
        place = self._context.endpoint or VoterEndpoint("127.0.0.1", 0)
        return VoterSet.of([Voter(self._context.me, (place,))])

    def _append_voters(self, voters: VoterSet, raises_version: bool) -> None:
        context = self._context
        rows = [(ControlType.KRAFT_VOTERS, voters_record(voters))]
        if raises_version:
            rows.insert(0, (ControlType.KRAFT_VERSION, kraft_version()))
        offset = context.log.append_controls(rows, context.raft.epoch)
        context.metadata.replayed_offset = max(context.metadata.replayed_offset, offset + 1)
        self._set_voters(offset, voters)


def is_disk_full(error: Exception) -> bool:
    """Whether the disk is only full: nothing is lost, and there may be room later."""
    return isinstance(error, DiskFull) or isinstance(error.__cause__, DiskFull)
