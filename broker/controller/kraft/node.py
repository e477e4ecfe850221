"""The KRaft node of a process: voter or observer, and the `Controller` the rest of it sees.

Core: `machine.Machine` (the quorum), `images.Images` (decisions waiting for their commit), the
decisions themselves. In: decisions, requests of other nodes, time. Out: records in the log, answers
after their commit, changes to publish.
Never: a rule of Raft (the machine's) or about topics and brokers (the decisions').

Decisions of one turn of the loop share a flush, and none of them waits for it on the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.decisions.decision import Decide
from broker.controller.kraft.batches import StoredBatch
from broker.controller.kraft.carrier import Carrier
from broker.controller.kraft.context import QuorumContext, moment
from broker.controller.kraft.driver import Driver
from broker.controller.kraft.epoch_limit import EpochLimit
from broker.controller.kraft.flushing import Flushing
from broker.controller.kraft.gauges import measure
from broker.controller.kraft.housekeeping import Housekeeping
from broker.controller.kraft.images import Images, Waiting
from broker.controller.kraft.machine import Machine
from broker.controller.kraft.membership import BUSY, DONE, Outcome
from broker.controller.kraft.messages import Moment, OffsetAndEpoch, Request
from broker.controller.kraft.opening import open_quorum, settings_of
from broker.controller.kraft.parked import ParkedFetches
from broker.controller.kraft.places import Links
from broker.controller.kraft.presence import Presence
from broker.controller.kraft.service import QuorumService
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.port import METADATA_WORKER, Disk
from broker.log.errors import LogError
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.versions import METADATA_VERSION, record_version
from broker.metrics.registry import Metrics
from broker.peer.port import Address, Network
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import NoOpRecord

log = logging.getLogger("broker.controller")

Reply = TypeVar("Reply")

STOP_WAIT_S = 0.5
"""How long a stopping leader lets the others hear of it; they find out by themselves too."""


def _ignore(*_: object) -> None:
    """Nobody waits for it."""


class RaftNode:
    """Implements `controller.port.Controller`.

    Its parts: `driver` feeds the machine, `carrier` carries its effects out, `flushing` gets the
    leader's appends onto the device, `images` holds what waits for its commit. They share a
    `QuorumContext`; what one of them needs of the others above it the node passes on.
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
        self.disk = disk
        self._network = network
        self._root = root
        self.me = ReplicaKey(node_id, directory_id)
        self.load_errors = 0
        self.images = Images(MetadataImage(cluster_id=cluster_id), publish, self._left_out)
        self._metrics = metrics
        self._when_active: list[Callable[[int, MetadataImage], None]] = []
        self._when_inactive: list[Callable[[], None]] = []
        self._when_leader_changes: list[Callable[[int, int], None]] = []
        self._when_misplaced: list[Callable[[int], None]] = []
        self._when_namesake: list[Callable[[str], None]] = []
        self._when_failed: list[Callable[[str], None]] = []
        self._is_active = False

    # -- life -------------------------------------------------------------------------------

    def load(self) -> Changes:
        """Open the log, before anybody is served. What is certain to be committed, all of it as
        changes: for a single voter everything, else what the newest snapshot holds."""
        opened = open_quorum(self.config, self.clock, self.disk, self._root, self.me)
        self.log = opened.log
        self.links = Links(
            self._network, self.clock, f"raft-client-{self.me.id}", opened.places.bootstrap
        )
        self.machine = Machine(
            self.me,
            self.log,
            opened.voters,
            opened.state,
            moment(self.clock),
            settings_of(self.config),
            self.links.bootstrap_ids,
        )
        self.links.set_voters(opened.voters.latest)
        self.context = QuorumContext(
            config=self.config,
            clock=self.clock,
            disk=self.disk,
            cluster_id=self.cluster_id,
            me=self.me,
            log=self.log,
            machine=self.machine,
            images=self.images,
            links=self.links,
            epoch_limit=EpochLimit(self.clock),
        )
        self._make_parts(self.context, opened.places.static)
        changes = self._certain(opened.voters.latest.is_only(self.me))
        latest = self.log.latest_snapshot
        if latest is not None and latest.offset:
            self.machine.on_snapshot_loaded(latest.offset, None, keep_voters=True)
        return changes

    def _make_parts(self, context: QuorumContext, static: VoterSet | None) -> None:
        self.carrier = Carrier(context, self, static)
        self.driver = Driver(context, self.carrier, self)
        self.links.on_lost = self.driver.connection_lost
        self.parked = ParkedFetches(
            self.machine, self.log, self.clock, self.config, self.driver.event
        )
        self.flushing = Flushing(context, self.carrier, self.driver, self.parked)
        self.housekeeping = Housekeeping(context, self.driver, Presence(context, self), self)
        self.service = QuorumService(context, self.driver, self.parked)

    def _certain(self, alone: bool) -> Changes:
        """The images from what is certain to be committed: the only voter's whole log is."""
        latest, place = self.log.latest_snapshot, OffsetAndEpoch(0, 0)
        batches: Iterable[StoredBatch] = ()
        if latest is not None:
            batches, place = self.log.snapshots.load(latest), latest
        if alone:
            batches = chain(batches, self.log.batches(place.offset, self.log.end.offset))
            place = self.log.end
            self.log.advance_high_watermark(place.offset)
        return self.images.replace(batches, place.offset, place.epoch)

    def _left_out(self, record: object, error: Exception) -> None:
        """Kafka's brokers do the same, and count it as metadata-load-error-count."""
        self.load_errors += 1
        log.error("a record of the metadata log is left out: %s", record, exc_info=error)

    def place(self, host: str, port: int) -> None:
        """This node's controller listener is here."""
        listener = (self.config["controller.listener.names"] or ("CONTROLLER",))[0]
        self.context.endpoint = Endpoint(host, port, listener)

    def start(self, endpoint: tuple[str, int] | None = None) -> None:
        """Take part in the quorum; `endpoint` is where this node's controller listener is."""
        if endpoint is not None:
            self.place(*endpoint)
        self.driver.settle()
        self.housekeeping.start()
        if self._metrics is not None:
            measure(self.context, lambda: self.load_errors, self._metrics)

    async def stop(self) -> None:
        """Resign, tell the others, close the log."""
        if self.machine.role is Role.LEADER and len(self.machine.core.voters.latest.voters) > 1:
            self.driver.event(self.machine.resign)
            await self._until_heard()
        self.driver.stop()
        self.flushing.stop()
        self.housekeeping.stop()
        self._deactivate()
        self.parked.drop()
        self.links.close()
        if self.driver.is_failed:
            self.log.release()
        else:
            await self.disk.run(self.log.close, worker=METADATA_WORKER)

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

    def on_namesake(self, tell: Callable[[str], None]) -> None:
        """Hear what another process with this node's id does, once it is certain that it lives."""
        self._when_namesake.append(tell)

    def on_failed(self, tell: Callable[[str], None]) -> None:
        """Hear what the metadata directory has lost; this node says nothing more to anybody."""
        self._when_failed.append(tell)

    def address_of(self, node_id: int) -> Address | None:
        """Where a controller listens, as far as is known here; None for this node itself too."""
        return self.links.place_of(node_id)

    # -- the Controller protocol ------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """The newest image while active, else what is committed."""
        return self.images.newest if self.is_active else self.images.committed

    @property
    def committed(self) -> MetadataImage:
        """What cannot be taken back."""
        return self.images.committed

    @property
    def is_active(self) -> bool:
        """Whether this node leads and has a record of its own epoch committed. While it stores
        that another epoch has begun it leads no longer, though nobody has been told."""
        return self._is_active and self.machine.role is Role.LEADER

    @property
    def epoch(self) -> int:
        """The epoch of the quorum as this node knows it."""
        return self.context.epoch

    @property
    def leader_id(self) -> int:
        """Who leads, -1 if that is not known."""
        return self.context.leader_id

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self.context.end_offset

    @property
    def endpoint(self) -> Endpoint | None:
        """Where this node's controller listener is, once it is bound."""
        return self.context.endpoint

    @property
    def log_bytes(self) -> int:
        """What the metadata log occupies on disk."""
        return self.log.size_bytes

    @property
    def kraft_version(self) -> int:
        """0 where the configuration names the voters, 1 where the log does."""
        return self.machine.membership.level

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
        """Decide on the newest image, append, answer after commit. See the port."""
        if not self.is_active or self.images.is_full or self.driver.is_silent:
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
            self._refused(error)
            if failed is not None:
                failed(error.code if self.is_alone else ErrorCode.NOT_CONTROLLER)
            return
        self.images.add(Waiting(end_offset, changes, lambda: done(reply), failed))
        self.flushing.soon()

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
        self.images.take_in(delta, records)
        self.images.replayed_offset = last_offset + 1
        return self.images.applied(delta, last_offset, self.machine.epoch), last_offset + 1

    def write_noop(self) -> None:
        """A record that says nothing, so that observers' lag is told truthfully."""
        if self.machine.role is not Role.LEADER or self.driver.is_silent:
            return
        try:
            changes, end_offset = self._append((NoOpRecord(),))
        except LogError as error:
            self._refused(error)
            return
        self.images.add(Waiting(end_offset, changes))
        self.flushing.soon()

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter."""
        return self.context.is_alone

    def _refused(self, error: LogError) -> None:
        """A controller that cannot write decides nothing: no dead broker is fenced, nobody leads
        in its place. Whoever is alone can only wait for room."""
        if self.is_alone:
            log.error("the metadata log refuses a decision: %s", error)
            return
        log.error("the metadata log refuses a decision, this node resigns: %s", error)
        self.driver.event(self.machine.resign)

    # -- who leads --------------------------------------------------------------------------

    def on_committed(self) -> None:
        """See ``CarrierHost``. A leader is active from its first commit on."""
        if self.machine.role is Role.LEADER and not self.is_active:
            self._activate()
        self.housekeeping.on_commit()

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

    def leader_is(self, leader_id: int, epoch: int) -> None:
        """See ``CarrierHost``."""
        if leader_id != self.me.id:
            self._deactivate()
        log.info("leader of epoch %d is %s", epoch, leader_id if leader_id >= 0 else "not known")
        self.parked.wake()
        for tell in self._when_leader_changes:
            tell(leader_id, epoch)

    def tell_misplaced(self, node_id: int) -> None:
        """See ``DriverHost``."""
        for tell in self._when_misplaced:
            tell(node_id)

    def tell_namesake(self, does: str) -> None:
        """See ``DriverHost`` and ``PresenceHost``."""
        for tell in self._when_namesake:
            tell(does)

    def directory_failed(self, error: Exception) -> None:
        """See ``DriverHost``."""
        self._deactivate()
        for tell in self._when_failed:
            tell(f"{self.log.directory} {error}")

    # -- what its parts ask of each other -------------------------------------------------

    def send(self, to: int, request: Request) -> None:
        """See ``CarrierHost``."""
        self.driver.send(to, request)

    def flush_soon(self) -> None:
        """See ``CarrierHost``."""
        self.flushing.soon()

    def dropped(self, paths: list[str]) -> None:
        """See ``CarrierHost``."""
        self.housekeeping.dropped(paths)

    def on_settled(self) -> None:
        """See ``DriverHost``."""
        self.parked.wake()
        self.flushing.soon()

    # -- events from outside and changes of the voters ------------------------------------

    def step(
        self,
        call: Callable[[Moment], Reply],
        answer: Callable[[Reply], None] = _ignore,
        refused: Callable[[], None] = _ignore,
    ) -> None:
        """One event of the machine; `answer` when all that follows from it is stored, or
        `refused`."""
        self.driver.step(call, answer, refused)

    def change_voters(
        self, ask: Callable[[Machine], Outcome], told: Callable[[Outcome], None]
    ) -> None:
        """One step of a change of the voters, with what follows from it."""
        self.step(lambda _: ask(self.machine), told, lambda: told(BUSY))

    def tell_own_place(self, told: Callable[[Outcome], None]) -> None:
        """A leader says itself where it listens, as the others tell it by UpdateRaftVoter."""
        if self.endpoint is None:
            told(DONE)
            return
        voter = Voter(self.me, (self.endpoint,))
        self.change_voters(lambda machine: machine.membership.update(voter), told)
