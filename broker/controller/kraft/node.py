"""The KRaft node of a process: voter or observer, and the `Controller` the rest of it sees.

Core: `machine.Machine` (the quorum), `images.Images` (decisions waiting for their commit), the
decisions themselves. In: decisions, requests of other nodes, time. Out: records in the log, answers
after their commit, changes to publish.
Never: a rule of Raft (the machine's) or about topics and brokers (the decisions').

Decisions of one turn of the loop share a flush; with a single voter `write` is done when it
returns, as there is nobody to wait for.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from broker.clock.port import Clock, TimerHandle
from broker.config.views import BrokerConfig
from broker.controller.decisions.decision import Decide
from broker.controller.kraft import control, quorum_state
from broker.controller.kraft.core import Settings
from broker.controller.kraft.gauges import measure
from broker.controller.kraft.housekeeping import Housekeeping
from broker.controller.kraft.images import Images, Waiting
from broker.controller.kraft.machine import Machine
from broker.controller.kraft.membership import DONE, Outcome
from broker.controller.kraft.messages import (
    AppendRecords,
    AppendVoters,
    BecameLeader,
    Committed,
    Effect,
    ElectionState,
    LeaderIs,
    Moment,
    OffsetAndEpoch,
    Persist,
    Request,
    Send,
    SnapshotComplete,
    SnapshotPiece,
    Truncate,
)
from broker.controller.kraft.opening import Opened, open_quorum
from broker.controller.kraft.parked import ParkedFetches
from broker.controller.kraft.places import Links
from broker.controller.kraft.service import QuorumService
from broker.controller.kraft.snapshots import SnapshotDamaged
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.controller.kraft.wire import answer_of, endpoints_in, request_of
from broker.disk.port import Disk, DiskError
from broker.log.errors import LogError
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.versions import METADATA_VERSION, record_version
from broker.metrics.registry import Metrics
from broker.peer.port import Address, Network
from bus.errors import BusError, ErrorCode
from bus.protocol.generated.metadata_records import NoOpRecord
from bus.records.control import ControlType

log = logging.getLogger("broker.controller")

Reply = TypeVar("Reply")

STOP_WAIT_S = 0.5
"""How long a stopping leader lets the others hear of it; they find out by themselves too."""

DISK_PAUSE_S = 1.0
"""After the disk refused: how long until this node tries again."""


class RaftNode:
    """Implements `controller.port.Controller`.

    Invariant: every effect of the machine is carried out before its next event (`_settle`).
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        network: Network,
        root: str,
        cluster_id: str,
        node_id: int,
        directory_id: bytes,
        publish: Callable[[Changes], None],
        *,
        metrics: Metrics | None = None,
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.clock = clock
        self._disk = disk
        self._network = network
        self._root = root
        self.me = ReplicaKey(node_id, directory_id)
        self.images = Images(MetadataImage(cluster_id=cluster_id), publish)
        self._metrics = metrics
        self.service = QuorumService(self)
        self._when_active: list[Callable[[int, MetadataImage], None]] = []
        self._when_inactive: list[Callable[[], None]] = []
        self._when_leader_changes: list[Callable[[int, int], None]] = []
        self._when_misplaced: list[Callable[[int], None]] = []
        self._strangers: dict[int, None] = {}
        self.endpoint: Endpoint | None = None
        self._is_active = False
        self._settling = False
        self._is_stalled = False
        self._effects: deque[Effect] = deque()
        self._flush_due = False
        self._stopped = False
        self._timer: TimerHandle | None = None

    # -- life -------------------------------------------------------------------------------

    def load(self) -> Changes:
        """Open the log. What is certain to be committed, all of it as changes: for a single voter
        everything, else what the newest snapshot holds."""
        opened: Opened = open_quorum(
            self.config, self.clock, self._disk, self._root, self.me
        )
        self.log, self._state, self._static = opened.log, opened.state, opened.places.static
        self.links = Links(
            self._network, self.clock, f"raft-client-{self.me.id}", opened.places.bootstrap
        )
        self.links.on_lost = self._connection_lost
        self.machine = Machine(
            self.me,
            self.log,
            opened.voters,
            opened.state,
            self._moment(),
            _settings(self.config, self.clock),
            self.links.bootstrap_ids,
        )
        self.links.set_voters(opened.voters.latest)
        self.parked = ParkedFetches(self.machine, self.log, self.clock, self.config)
        self.housekeeping = Housekeeping(self)
        latest = self.log.latest_snapshot
        if latest is not None and latest.offset > 0:
            changes = self.images.replace(
                self.log.snapshots.load(latest), latest.offset, latest.epoch
            )
            self.machine.on_snapshot_loaded(latest.offset, None, keep_voters=True)
        else:
            changes = self.images.replace((), self.log.start.offset, 0)
        if opened.voters.latest.is_only(self.me):
            changes = self._load_alone()
        return changes

    def _load_alone(self) -> Changes:
        """The only voter knows that all it has is committed."""
        base = self.images.committed
        delta = MetadataDelta(MetadataImage(cluster_id=self.cluster_id))
        latest = self.log.latest_snapshot
        batches = [] if latest is None or not latest.offset else self.log.snapshots.load(latest)
        for batch in batches:
            for record in batch.records:
                delta.replay(record)
        last_offset, epoch = base.offset, base.epoch
        for batch in self.log.batches(self.images.replayed_offset, self.log.end.offset):
            for record in batch.records:
                delta.replay(record)
            if batch.records:
                last_offset, epoch = batch.last_offset, batch.epoch
        changes = delta.apply(last_offset, epoch)
        self.log.advance_high_watermark(self.log.end.offset)
        self.images.committed = self.images.newest = changes.image
        self.images.replayed_offset = self.log.end.offset
        return changes

    def start(self, endpoint: tuple[str, int] | None = None) -> None:
        """Take part in the quorum; `endpoint` is where this node's controller listener is."""
        if endpoint is not None:
            listener = (self.config["controller.listener.names"] or ("CONTROLLER",))[0]
            self.endpoint = Endpoint(endpoint[0], endpoint[1], listener)
        self._settle()
        self.housekeeping.start()
        if self._metrics is not None:
            measure(self, self._metrics)

    async def stop(self) -> None:
        """Resign, tell the others, close the log."""
        if self.machine.role is Role.LEADER and len(self.machine.core.voters.latest.voters) > 1:
            self.machine.resign(self._moment())
            self._settle()
            await self._until_heard()
        self._stopped = True
        self.housekeeping.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._deactivate()
        self.parked.drop()
        self.links.close()
        self.log.close()

    async def _until_heard(self) -> None:
        deadline = self.clock.monotonic() + STOP_WAIT_S
        while self.clock.monotonic() < deadline and not self.machine.leading.is_end_told:
            await self.clock.sleep(0.005)

    def on_active(self, tell: Callable[[int, MetadataImage], None]) -> None:
        """Hear (epoch, newest image) when this node becomes the active controller."""
        self._when_active.append(tell)

    def on_inactive(self, tell: Callable[[], None]) -> None:
        """Hear when it ceases to be."""
        self._when_inactive.append(tell)

    def on_leader_change(self, tell: Callable[[int, int], None]) -> None:
        """Hear (leader id or -1, epoch) whenever that changes."""
        self._when_leader_changes.append(tell)

    def on_misplaced(self, tell: Callable[[int], None]) -> None:
        """Hear of a node of another cluster, once most of the quorum turned out to be such."""
        self._when_misplaced.append(tell)

    def address_of(self, node_id: int) -> Address | None:
        """Where a controller listens, as far as is known here; None for this node itself too."""
        return self.links.place_of(node_id)

    # -- the Controller protocol ------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image while active, else what is committed."""
        return self.images.newest if self._is_active else self.images.committed

    @property
    def committed(self) -> MetadataImage:
        """What cannot be taken back."""
        return self.images.committed

    @property
    def is_active(self) -> bool:
        """Whether this node leads and has a record of its own epoch committed."""
        return self._is_active

    @property
    def epoch(self) -> int:
        """The epoch of the quorum as this node knows it."""
        return self.machine.epoch

    @property
    def leader_id(self) -> int:
        """Who leads, -1 if that is not known."""
        return self.machine.core.announced_leader

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self.log.end.offset

    @property
    def log_bytes(self) -> int:
        """What the metadata log occupies on disk."""
        return self.log.size_bytes

    @property
    def voters(self) -> VoterSet:
        """The voters in force."""
        return self.machine.core.voters.latest

    def write(
        self,
        decide: Decide[Reply],
        done: Callable[[Reply], None],
        failed: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Decide on the newest image, append, answer after commit. See the port."""
        if not self._is_active or self.images.is_full:
            if failed is not None:
                failed(ErrorCode.NOT_CONTROLLER)
            return
        decision = decide(self.images.newest)
        reply = decision.reply
        if not decision.records:
            end_offset = self.images.newest.offset + 1
            self.images.add(Waiting(end_offset, None, lambda: done(reply), failed))
            self.images.commit(self.machine.high_watermark)
            return
        try:
            changes, end_offset = self._append(decision.records)
        except LogError as error:
            log.error("the metadata log refuses a decision: %s", error)
            if failed is None:
                raise
            failed(error.code)
            return
        self.images.add(Waiting(end_offset, changes, lambda: done(reply), failed))
        self._flush_soon()

    def _append(self, records: tuple[object, ...]) -> tuple[Changes, int]:
        image = self.images.newest
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
        last_offset = self.log.append(rows, self.machine.epoch)
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        self.images.replayed_offset = last_offset + 1
        return delta.apply(last_offset, self.machine.epoch), last_offset + 1

    def write_noop(self) -> None:
        """A record that says nothing, so that observers' lag is told truthfully."""
        changes, end_offset = self._append((NoOpRecord(),))
        self.images.add(Waiting(end_offset, changes))
        self._flush_soon()

    # -- flushing ---------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """At once where nobody else votes; else once for all decisions of this turn, after the
        others have been offered the records: their flush and ours then run side by side."""
        if self.voters.is_only(self.me):
            self._flush()
        elif not self._flush_due:
            self._flush_due = True
            self.clock.call_later(0, self._flush)
            self.parked.wake()

    def _flush(self) -> None:
        self._flush_due = False
        if self._stopped or self._is_stalled:
            return
        self.parked.wake()
        try:
            self.log.flush()
        except LogError as error:
            # What a failed flush has kept is not known: only another leader can tell.
            log.error("the metadata log cannot be flushed, this node resigns: %s", error)
            self.machine.resign(self._moment())
        else:
            self.machine.on_flushed()
        self._settle()

    # -- the machine's shell ----------------------------------------------------------------

    def _moment(self) -> Moment:
        return Moment(int(self.clock.monotonic() * 1000), self.clock.random.random())

    def step(self, call: Callable[[Moment], Reply]) -> Reply:
        """One event of the machine with all that follows from it. Raises BusError while the disk
        refuses: nothing may be said that it has not stored, a vote least of all."""
        if not self._is_stalled:
            result = call(self._moment())
            self._settle()
        if self._is_stalled:
            raise BusError(ErrorCode.KAFKA_STORAGE_ERROR, "the metadata directory refuses")
        return result

    def _event(self, call: Callable[[Moment], object]) -> None:
        """As `step`, for what nobody waits for."""
        if not self._is_stalled:
            call(self._moment())
            self._settle()

    def _settle(self) -> None:
        if self._settling or self._stopped:
            return
        self._settling = True
        try:
            self._carry_all_out()
            self._is_stalled = False
        except (DiskError, LogError) as error:
            # The effect stays first in line. Meanwhile this node is silent, so that others take
            # over; it goes on where it was as soon as there is room again.
            self._is_stalled = True
            log.error("the metadata directory refuses, this node waits: %s", error)
        finally:
            self._settling = False
            self._arm()
        if not self._is_stalled:
            self.parked.wake()

    def _carry_all_out(self) -> None:
        effects = self._effects
        while True:
            effects += self.machine.take_effects()
            if not effects:
                self.machine.poll(self._moment())
                effects += self.machine.take_effects()
                if not effects:
                    return
            while effects:
                try:
                    self._carry_out(effects[0])
                except (DiskError, LogError):
                    raise  # and it stays first
                except BaseException:
                    effects.popleft()  # a bug: it would only come again
                    raise
                effects.popleft()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = self.machine.deadline_ms - self._moment().now_ms
        wait_s = min(max(wait_ms, 1), 3_600_000) / 1000
        if self._is_stalled:
            wait_s = DISK_PAUSE_S
        self._timer = self.clock.call_later(wait_s, self._settle)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                self._store(state)
            case Send(to, request):
                self._send(to, request)
            case Truncate(offset):
                self._truncated(self.log.truncate_to(offset))
            case AppendRecords(records):
                self._append_fetched(records)
            case SnapshotPiece(snapshot, position, data):
                self.log.snapshots.write_piece(snapshot, position, data)
            case SnapshotComplete(snapshot):
                self._take_snapshot(snapshot)
            case BecameLeader(epoch, granting):
                self._begin_to_lead(epoch, granting)
            case AppendVoters(voters):
                self._append_voters(voters)
                self._flush_soon()
            case LeaderIs(leader_id, epoch):
                self._leader_is(leader_id, epoch)
            case Committed(offset):
                self._commit(offset)

    def _store(self, state: ElectionState) -> None:
        voted = state.voted or ReplicaKey(-1)
        text = quorum_state.encode(
            quorum_state.QuorumState(state.leader_id, state.epoch, voted.id, voted.directory_id),
            self.voters.ids if self.machine.core.voters.static and self._static else None,
        )
        path = f"{self.log.directory}/{quorum_state.FILE_NAME}"
        self._disk.replace_text_durably(path, text)

    # -- requests to others -----------------------------------------------------------------

    def _send(self, to: int, request: Request) -> None:
        key, body = request_of(
            request,
            self.cluster_id,
            self.config["controller.quorum.fetch.max.bytes"],
            (self.endpoint,) if self.endpoint is not None else (),
        )

        def done(response: object) -> None:
            self.links.learn(endpoints_in(response))
            answer = answer_of(request, response)
            if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
                self._met_stranger(to)
            self._event(lambda now: self.machine.on_answer(to, request, answer, now))

        def failed(refused: bool) -> None:
            self._event(lambda now: self.machine.on_failure(to, request, now, refused=refused))

        self.links.send(
            to,
            type(request).__name__,
            key,
            body,
            self.config["controller.quorum.request.timeout.ms"],
            done,
            failed,
        )

    def _met_stranger(self, node_id: int) -> None:
        """Another cluster's node. For a voter one may be misplaced; if most are, it is this node
        that is. An observer asks one at a time and takes the first one's word."""
        if node_id in self._strangers:
            return
        self._strangers[node_id] = None
        log.error(
            "node %d belongs to another cluster than %s: correct the quorum's addresses "
            "or this node's log.dirs; nothing was changed", node_id, self.cluster_id,
        )  # fmt: skip
        enough = self.voters.majority if self.machine.core.is_voter else 1
        if len(self._strangers) >= enough and self.leader_id < 0:
            for tell in self._when_misplaced:
                tell(node_id)

    def _connection_lost(self, node_id: int) -> None:
        if not self._stopped:
            self._event(lambda now: self.machine.on_connection_lost(node_id, now))

    # -- following --------------------------------------------------------------------------

    def _append_fetched(self, records: bytes | memoryview) -> None:
        try:
            self.log.append_fetched(records)
        except (LogError, DiskError) as error:
            log.error("fetched metadata cannot be stored: %s", error)
            self.machine.following.pause(self._moment().now_ms + int(DISK_PAUSE_S * 1000))
            return
        for offset, voters in self.log.voters_in(records):
            self._heard_voters(offset, voters)
        self.machine.on_appended()

    def _heard_voters(self, offset: int, voters: VoterSet) -> None:
        self.machine.on_voters(offset, voters)
        self.links.set_voters(voters)
        log.info("voters are %s from offset %d on", list(voters.ids), offset)

    def _truncated(self, end_offset: int) -> None:
        log.info("the metadata log is cut to offset %d, as the leader has it", end_offset)
        self.machine.on_truncated(end_offset)
        self.links.set_voters(self.voters)

    def _take_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        try:
            self.log.snapshots.complete(snapshot)
        except (SnapshotDamaged, DiskError) as error:
            log.error("snapshot %s is fetched again: %s", snapshot, error)
            self.machine.following.pause(self._moment().now_ms + int(DISK_PAUSE_S * 1000))
            return
        self.log.restart_behind(snapshot)
        batches = list(self.log.snapshots.load(snapshot))
        voters = next((one.voters for one in batches if one.voters is not None), None)
        changes = self.images.replace(batches, snapshot.offset, snapshot.epoch)
        self.images.publish(changes)
        self.machine.on_snapshot_loaded(snapshot.offset, voters)
        self.links.set_voters(self.voters)
        log.info("took over the leader's snapshot %s", snapshot)

    def _commit(self, offset: int) -> None:
        self.log.advance_high_watermark(offset)
        if self.machine.role is not Role.LEADER and self.images.replayed_offset < offset:
            self.images.replay(self.log.batches(self.images.replayed_offset, offset))
        self.images.commit(offset)
        self.machine.on_committed(self._moment())
        if self.machine.role is Role.LEADER and not self._is_active:
            self._activate()
        self.housekeeping.on_commit()

    # -- leading ----------------------------------------------------------------------------

    def _begin_to_lead(self, epoch: int, granting: tuple[int, ...]) -> None:
        value = control.leader_change(self.me.id, self.voters.ids, granting)
        self.log.append_control(ControlType.LEADER_CHANGE, value, epoch)
        if self._static is None and self.machine.core.voters.latest_offset < 0:
            # Only a format or a snapshot names the voters: those who read the log must hear it.
            self.log.append_control(ControlType.KRAFT_VERSION, control.kraft_version(), epoch)
            alone = self.voters.is_only(self.me)
            self._append_voters(self._own_set() if alone else self.voters)
        self.images.replay(self.log.batches(self.images.replayed_offset, self.log.end.offset))
        self._flush_soon()

    def _own_set(self) -> VoterSet:
        place = self.endpoint or Endpoint("127.0.0.1", 0)
        return VoterSet.of([Voter(self.me, (place,))])

    def _append_voters(self, voters: VoterSet) -> None:
        value = control.voters_record(voters)
        offset = self.log.append_control(ControlType.KRAFT_VOTERS, value, self.machine.epoch)
        self.images.replayed_offset = max(self.images.replayed_offset, offset + 1)
        self._heard_voters(offset, voters)

    def _activate(self) -> None:
        self._is_active = True
        log.info("active controller in epoch %d", self.machine.epoch)
        for tell in self._when_active:
            tell(self.machine.epoch, self.images.newest)

    def _deactivate(self) -> None:
        was_active, self._is_active = self._is_active, False
        self.images.drop_pending()
        if was_active:
            log.info("no longer the active controller")
            for tell in self._when_inactive:
                tell()

    def _leader_is(self, leader_id: int, epoch: int) -> None:
        if leader_id != self.me.id:
            self._deactivate()
        log.info("leader of epoch %d is %s", epoch, leader_id if leader_id >= 0 else "not known")
        self.parked.wake()
        for tell in self._when_leader_changes:
            tell(leader_id, epoch)

    def change_voters(self, ask: Callable[[Machine], Outcome]) -> Outcome:
        """One step of a change of the voters, with what follows from it."""
        return self.step(lambda _: ask(self.machine))

    def tell_own_place(self) -> Outcome:
        """A leader whose listener has moved says so itself."""
        if self.endpoint is None:
            return DONE
        place = (self.endpoint,)
        return self.change_voters(lambda machine: machine.membership.update(self.me, place))


def _settings(config: BrokerConfig, clock: Clock) -> Settings:
    return Settings(
        election_timeout_ms=max(config["controller.quorum.election.timeout.ms"], 1),
        election_backoff_max_ms=max(config["controller.quorum.election.backoff.max.ms"], 1),
        fetch_timeout_ms=max(config["controller.quorum.fetch.timeout.ms"], 1),
        retry_backoff_ms=max(config["controller.quorum.retry.backoff.ms"], 1),
        can_vote="controller" in config["process.roles"],
    )
