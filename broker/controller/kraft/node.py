"""The KRaft node of a process: voter or observer, and the `Controller` the rest of the process
uses.

Cores: `raft.Raft` (the quorum), `pending.MetadataState` (decisions waiting for their commit), the
decisions themselves. Decisions of one loop iteration share a flush, and none of them waits for it
on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.decisions.decision import Decide
from broker.controller.kraft.api import QuorumApi
from broker.controller.kraft.bootstrap import load_quorum, quorum_config
from broker.controller.kraft.context import QuorumContext, current_tick
from broker.controller.kraft.effects import EffectExecutor
from broker.controller.kraft.epoch_limit import EpochLimit
from broker.controller.kraft.event_loop import RaftEventLoop
from broker.controller.kraft.flush_scheduler import FlushScheduler
from broker.controller.kraft.maintenance import QuorumMaintenance
from broker.controller.kraft.metrics import register
from broker.controller.kraft.pending import MetadataState, PendingDecision
from broker.controller.kraft.raft.messages import OffsetAndEpoch, RaftRequest, Tick
from broker.controller.kraft.raft.raft import Raft
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voter_changes import BUSY, DONE, VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.records import StoredBatch
from broker.controller.kraft.transport.connections import QuorumConnections
from broker.controller.kraft.transport.fetch_purgatory import FetchPurgatory
from broker.controller.kraft.voter_registration import VoterRegistration
from broker.disk.port import METADATA_WORKER, Disk
from broker.log.errors import LogError
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.versions import METADATA_VERSION, record_version
from broker.metrics.registry import Metrics
from bus.client.wire.ports import Address, Connector
from bus.client.wire.sasl import SaslLogin
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import NoOpRecord

log = logging.getLogger("broker.controller")

Reply = TypeVar("Reply")

STOP_WAIT_S = 0.5
"""How long a stopping leader waits for the others to acknowledge; they also find out by
themselves."""


def _ignore(*_: object) -> None:
    """No caller waits for the result."""


class RaftNode:
    """Implements `controller.port.Controller`.

    Its parts: `event_loop` passes events to the Raft core, `executor` executes its effects,
    `flushes` flushes the leader's appends, `metadata` holds the pending decisions. They share a
    `QuorumContext`; the node implements the small protocols by which they call each other.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        network: Connector,
        root: str,
        cluster_id: str,
        node_id: int,
        directory_id: bytes,
        publish: Callable[[Changes], None],
        *,
        metrics: Metrics | None = None,
        login: SaslLogin | None = None,
    ) -> None:
        """`login`: what this node logs in with at other controllers."""
        self.config = config
        self.cluster_id = cluster_id
        self.clock = clock
        self.disk = disk
        self._network = network
        self._root = root
        self.me = ReplicaKey(node_id, directory_id)
        self.load_errors = 0
        self.metadata = MetadataState(
            MetadataImage(cluster_id=cluster_id), publish, self._on_record_left_out
        )
        self._metrics = metrics
        self._login = login
        self._when_active: list[Callable[[int, MetadataImage], None]] = []
        self._when_inactive: list[Callable[[], None]] = []
        self._when_leader_changes: list[Callable[[int, int], None]] = []
        self._when_wrong_cluster: list[Callable[[int], None]] = []
        self._when_duplicate_id: list[Callable[[str], None]] = []
        self._when_failed: list[Callable[[str], None]] = []
        self._is_active = False

    # -- life -------------------------------------------------------------------------------

    def open(self) -> Changes:
        """Open the log, before anybody is served. What is certain to be committed, all of it as
        changes: for a single voter everything, else what the newest snapshot holds."""
        loaded = load_quorum(self.config, self.clock, self.disk, self._root, self.me)
        self.log = loaded.log
        self.connections = QuorumConnections(
            self._network, self.clock, f"raft-client-{self.me.id}", loaded.addresses.bootstrap,
            self._login,
        )  # fmt: skip
        self.raft = Raft(
            self.me,
            self.log,
            loaded.voters,
            loaded.state,
            current_tick(self.clock),
            quorum_config(self.config),
            self.connections.bootstrap_ids,
        )
        self.connections.set_voters(loaded.voters.latest)
        self.context = QuorumContext(
            config=self.config,
            clock=self.clock,
            disk=self.disk,
            cluster_id=self.cluster_id,
            me=self.me,
            log=self.log,
            raft=self.raft,
            metadata=self.metadata,
            connections=self.connections,
            epoch_limit=EpochLimit(self.clock),
        )
        self._make_parts(self.context, loaded.addresses.static_voters)
        changes = self._load_committed(loaded.voters.latest.is_only(self.me))
        latest = self.log.latest_snapshot
        if latest is not None and latest.offset:
            self.raft.on_snapshot_loaded(latest.offset, None, keep_voters=True)
        return changes

    def _make_parts(self, context: QuorumContext, static: VoterSet | None) -> None:
        self.executor = EffectExecutor(context, self, static)
        self.event_loop = RaftEventLoop(context, self.executor, self)
        self.connections.on_connection_lost = self.event_loop.on_connection_lost
        self.fetches = FetchPurgatory(
            self.raft, self.log, self.clock, self.config, self.event_loop.enqueue
        )
        self.flushes = FlushScheduler(context, self.executor, self.event_loop, self.fetches)
        self.maintenance = QuorumMaintenance(
            context, self.event_loop, VoterRegistration(context, self), self
        )
        self.api = QuorumApi(context, self.event_loop, self.fetches)

    def _load_committed(self, alone: bool) -> Changes:
        """The metadata that is certainly committed: for the only voter that is its whole log."""
        latest, place = self.log.latest_snapshot, OffsetAndEpoch(0, 0)
        batches: Iterable[StoredBatch] = ()
        if latest is not None:
            batches, place = self.log.snapshots.load(latest), latest
        if alone:
            batches = chain(batches, self.log.batches(place.offset, self.log.end.offset))
            place = self.log.end
            self.log.advance_high_watermark(place.offset)
        return self.metadata.load_snapshot(batches, place.offset, place.epoch)

    def _on_record_left_out(self, record: object, error: Exception) -> None:
        """As Kafka's brokers do, with a count in metadata-load-error-count."""
        self.load_errors += 1
        log.error("a record of the metadata log is left out: %s", record, exc_info=error)

    def set_endpoint(self, host: str, port: int) -> None:
        """Sets the address of this node's controller listener."""
        listener = (self.config["controller.listener.names"] or ("CONTROLLER",))[0]
        self.context.endpoint = VoterEndpoint(host, port, listener)

    def start(self, endpoint: tuple[str, int] | None = None) -> None:
        """Joins the quorum; `endpoint` is the address of this node's controller listener."""
        if endpoint is not None:
            self.set_endpoint(*endpoint)
        self.event_loop.run_until_idle()
        self.maintenance.start()
        if self._metrics is not None:
            register(self.context, lambda: self.load_errors, self._metrics)

    async def stop(self) -> None:
        """Resigns, notifies the others, closes the log."""
        if self.raft.role is RaftRole.LEADER and len(self.raft.quorum.voters.latest.voters) > 1:
            self.event_loop.enqueue(self.raft.resign)
            await self._wait_for_acknowledgements()
        self.event_loop.stop()
        self.flushes.stop()
        self.maintenance.stop()
        self._deactivate()
        self.fetches.clear()
        self.connections.close()
        if self.event_loop.is_failed:
            self.log.release()
        else:
            await self.disk.run(self.log.close, worker=METADATA_WORKER)

    async def _wait_for_acknowledgements(self) -> None:
        deadline = self.clock.monotonic() + STOP_WAIT_S
        while self.clock.monotonic() < deadline and not self.raft.leader_state.is_end_acknowledged:
            await self.clock.sleep(0.005)

    def on_active(self, callback: Callable[[int, MetadataImage], None]) -> None:
        """Calls back with (epoch, newest image) when this node becomes the active controller."""
        self._when_active.append(callback)

    def on_inactive(self, callback: Callable[[], None]) -> None:
        """Calls back when this node stops being the active controller."""
        self._when_inactive.append(callback)

    def on_leader_change(self, callback: Callable[[int, int], None]) -> None:
        """Calls back with (leader id or -1, epoch) when either changes."""
        self._when_leader_changes.append(callback)

    def on_wrong_cluster(self, callback: Callable[[int], None]) -> None:
        """Calls back with a node of another cluster, once most of the quorum belongs to another."""
        self._when_wrong_cluster.append(callback)

    def on_duplicate_id(self, callback: Callable[[str], None]) -> None:
        """Calls back with what another live process with this node's id does."""
        self._when_duplicate_id.append(callback)

    def on_failed(self, callback: Callable[[str], None]) -> None:
        """Calls back with what the metadata directory has lost; this node stays silent from then
        on."""
        self._when_failed.append(callback)

    def address_of(self, node_id: int) -> Address | None:
        """The controller listener of another node, if known; None for this node itself."""
        return self.connections.address_of(node_id)

    # -- the Controller protocol ------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image while active, else the committed one."""
        return self.metadata.newest if self.is_active else self.metadata.committed

    @property
    def committed(self) -> MetadataImage:
        """The committed image."""
        return self.metadata.committed

    @property
    def is_active(self) -> bool:
        """Whether this node leads and has committed a record of its own epoch. While it stores that
        another epoch has begun it no longer leads, although no callback has run yet."""
        return self._is_active and self.raft.role is RaftRole.LEADER

    @property
    def epoch(self) -> int:
        """The quorum's epoch as this node knows it."""
        return self.context.epoch

    @property
    def leader_id(self) -> int:
        """The leader, -1 if unknown."""
        return self.context.leader_id

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.context.end_offset

    @property
    def endpoint(self) -> VoterEndpoint | None:
        """The address of this node's controller listener, once it is bound."""
        return self.context.endpoint

    @property
    def log_bytes(self) -> int:
        """The size of the metadata log on disk."""
        return self.log.size_bytes

    @property
    def kraft_version(self) -> int:
        """0 where the configuration names the voters, 1 where the log does."""
        return self.raft.voter_changes.kraft_version

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.context.voters

    def write(
        self,
        decide: Decide[Reply],
        done: Callable[[Reply], None],
        failed: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Decides on the newest image, appends, replies after the commit. See the port."""
        if not self.is_active or self.metadata.is_full or self.event_loop.is_silent:
            if failed is not None:
                failed(ErrorCode.NOT_CONTROLLER)
            return
        decision = decide(self.metadata.newest)
        reply = decision.reply
        if not decision.records:
            end_offset = self.metadata.newest.offset + 1
            self.metadata.add(PendingDecision(end_offset, None, lambda: done(reply), failed))
            self.metadata.commit(self.raft.high_watermark)
            return
        try:
            changes, end_offset = self._append(decision.records)
        except LogError as error:
            self._on_append_failed(error)
            if failed is not None:
                failed(error.code if self.is_only_voter else ErrorCode.NOT_CONTROLLER)
            return
        self.metadata.add(PendingDecision(end_offset, changes, lambda: done(reply), failed))
        self.flushes.schedule()

    def _append(self, records: tuple[object, ...]) -> tuple[Changes, int]:
        image = self.metadata.newest
        level = next(
            (
                record.feature_level
                for record in records
                if getattr(record, "name", "") == METADATA_VERSION
                and hasattr(record, "feature_level")
            ),
            image.metadata_version,
        )
        rows = [(one, record_version(type(one).__name__, level)) for one in records]
        last_offset = self.log.append(rows, self.raft.epoch)
        delta = MetadataDelta(image)
        self.metadata.replay_records(delta, records)
        self.metadata.replayed_offset = last_offset + 1
        return self.metadata.apply(delta, last_offset, self.raft.epoch), last_offset + 1

    def write_noop(self) -> None:
        """Appends a record that changes nothing, so that observers' reported lag is correct."""
        if self.raft.role is not RaftRole.LEADER or self.event_loop.is_silent:
            return
        try:
            changes, end_offset = self._append((NoOpRecord(),))
        except LogError as error:
            self._on_append_failed(error)
            return
        self.metadata.add(PendingDecision(end_offset, changes))
        self.flushes.schedule()

    @property
    def is_only_voter(self) -> bool:
        """Whether this node is the only voter."""
        return self.context.is_only_voter

    def _on_append_failed(self, error: LogError) -> None:
        """A controller that cannot write makes no decisions: no dead broker would be fenced, no
        leader replaced. The only voter can only wait for room."""
        if self.is_only_voter:
            log.error("the metadata log refuses a decision: %s", error)
            return
        log.error("the metadata log refuses a decision, this node resigns: %s", error)
        self.event_loop.enqueue(self.raft.resign)

    # -- who leads --------------------------------------------------------------------------

    def on_committed(self) -> None:
        """See ``EffectExecutorHost``. A leader is active from its first commit on."""
        if self.raft.role is RaftRole.LEADER and not self.is_active:
            self._activate()
        self.maintenance.on_commit()

    def _activate(self) -> None:
        self._is_active = True
        log.info("active controller in epoch %d", self.raft.epoch)
        for callback in self._when_active:
            callback(self.raft.epoch, self.metadata.newest)

    def _deactivate(self) -> None:
        was_active, self._is_active = self._is_active, False
        self.metadata.drop_pending()
        if was_active:
            log.info("no longer the active controller")
            for callback in self._when_inactive:
                callback()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """See ``EffectExecutorHost``."""
        if leader_id != self.me.id:
            self._deactivate()
        log.info("leader of epoch %d is %s", epoch, leader_id if leader_id >= 0 else "not known")
        self.fetches.check_and_complete()
        for callback in self._when_leader_changes:
            callback(leader_id, epoch)

    def report_wrong_cluster(self, node_id: int) -> None:
        """See ``EventLoopHost``."""
        for callback in self._when_wrong_cluster:
            callback(node_id)

    def report_duplicate_id(self, does: str) -> None:
        """See ``EventLoopHost`` and ``VoterRegistrationHost``."""
        for callback in self._when_duplicate_id:
            callback(does)

    def on_directory_failed(self, error: Exception) -> None:
        """See ``EventLoopHost``."""
        self._deactivate()
        for callback in self._when_failed:
            callback(f"{self.log.directory} {error}")

    # -- calls between the parts -------------------------------------------------------------

    def send(self, to: int, request: RaftRequest) -> None:
        """See ``EffectExecutorHost``."""
        self.event_loop.send(to, request)

    def flush_soon(self) -> None:
        """See ``EffectExecutorHost``."""
        self.flushes.schedule()

    def on_log_dropped(self, paths: list[str]) -> None:
        """See ``EffectExecutorHost``."""
        self.maintenance.on_log_dropped(paths)

    def on_idle(self) -> None:
        """See ``EventLoopHost``."""
        self.fetches.check_and_complete()
        self.flushes.schedule()

    # -- events and voter changes ------------------------------------------------------------

    def step(
        self,
        call: Callable[[Tick], Reply],
        on_stored: Callable[[Reply], None] = _ignore,
        on_refused: Callable[[], None] = _ignore,
    ) -> None:
        """Processes one event of the Raft core; calls `on_stored` when everything that follows from
        it is stored, or `on_refused`."""
        self.event_loop.step(call, on_stored, on_refused)

    def change_voters(
        self,
        change: Callable[[Raft], VoterChangeResult],
        on_result: Callable[[VoterChangeResult], None],
    ) -> None:
        """Processes one step of a voter change."""
        self.step(lambda _: change(self.raft), on_result, lambda: on_result(BUSY))

    def register_endpoint(self, on_result: Callable[[VoterChangeResult], None]) -> None:
        """Records the leader's own endpoint, as other voters do by UpdateRaftVoter."""
        if self.endpoint is None:
            on_result(DONE)
            return
        voter = Voter(self.me, (self.endpoint,))
        self.change_voters(lambda raft: raft.voter_changes.update(voter), on_result)
