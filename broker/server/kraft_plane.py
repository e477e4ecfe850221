"""The KRaft plane: a Raft node in this process, and this broker's registration with its leader.

In: configuration and ports, then the rooms. Out: `Plane`. Core: `kraft.node.RaftNode` and
`controller.active.ActiveController`. Never: a decision, nor an election.

What is committed before this broker has registered is only remembered: the rooms are told the
whole of the first image at or past the registration, and from then on every change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.controller import state_changes
from broker.controller.active import ActiveController
from broker.controller.decisions import cluster
from broker.controller.decisions.rules import Rules
from broker.controller.kraft import namesake
from broker.controller.kraft.node import RaftNode
from broker.controller.port import Controller
from broker.log.directories import readable_identities
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.peer.controller_link import ControllerLink, Route
from broker.peer.port import Address
from broker.server.plane import PlaneRooms, Ports, StartError
from broker.server.registration import BrokerLifecycle, Self
from bus.errors import ErrorCode, check

if TYPE_CHECKING:
    from broker.server.controller_registration import ControllerRegistration

log = logging.getLogger("broker.server")


class KraftPlane:
    """`broker.server.plane.Plane` with a quorum."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._node: RaftNode | None = None
        self._active: ActiveController | None = None
        self._rooms: PlaneRooms | None = None
        self._is_loaded = False
        self._image = MetadataImage()
        self._newer = asyncio.Event()
        self._unclean_elections = ports.metrics.meter(
            "ControllerStats", "UncleanLeaderElectionsPerSec"
        )
        self._leads = asyncio.Event()
        self._lifecycle: BrokerLifecycle | None = None
        self._link: ControllerLink | None = None
        self._registration: ControllerRegistration | None = None

    @property
    def controller(self) -> Controller:
        """The Raft node; after `prepare`."""
        return self.node

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self._image

    @property
    def knows_topics_at_join(self) -> bool:
        """The image is at or past the registration."""
        return True

    @property
    def node(self) -> RaftNode:
        """The Raft node; after `prepare`."""
        check(self._node is not None, "a plane is prepared before it is used")
        return self._node  # type: ignore[return-value]

    async def open(self) -> str | None:
        """What the settings or the directories say; only a process that is a whole cluster may
        make an id."""
        config, settings = self._ports.config, self._ports.settings
        if settings.cluster_id:
            return settings.cluster_id
        disk = self._ports.disk
        known = readable_identities(disk, (*config.log_dirs, config.metadata_log_dir))
        if self._ports.roles.founds or any(known):
            return None
        raise StartError(
            f"the log directories of node {config.node_id} ({', '.join(config.log_dirs)}) are not "
            "formatted; set `cluster.id` to the same id on every node, or run "
            "`databus broker format`"
        )

    def prepare(self, logs: LogManager) -> None:
        """Make the Raft node of these directories."""
        ports = self._ports
        self._node = RaftNode(
            ports.config,
            ports.clock,
            ports.disk,
            ports.network,
            ports.config.metadata_log_dir,
            logs.cluster_id,
            ports.config.node_id,
            logs.directory_ids[ports.config.metadata_log_dir],
            self._publish,
            metrics=ports.metrics,
        )
        self._node.on_active(self._on_active)
        self._node.on_inactive(self._on_inactive)
        self._node.on_misplaced(self._on_misplaced)
        self._node.on_namesake(self._on_namesake)
        self._node.on_failed(self._on_failed)

    def attach(self, rooms: PlaneRooms) -> None:
        """Take in the metadata that the disk holds."""
        self._rooms = rooms
        rooms.services.quorum = self.node
        self._active = rooms.services.active = ActiveController(
            self.node,
            self._ports.clock,
            self._ports.network,
            lambda: rooms.services.config,
            self._ports.settings.site_number,
        )
        changes = self.node.load()
        self._is_loaded = True
        self._publish(changes)

    def controller_address(self, node_id: int) -> Address | None:
        """As the voters or the bootstrap servers say."""
        return self.node.address_of(node_id)

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """Raft's news."""
        self.node.on_leader_change(lambda _leader, _epoch: changed())

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run the Raft node; with one voter it is active when this returns, for what follows would
        only ask again and again until it is."""
        if controller_endpoints:
            first = controller_endpoints[0]
            self.node.place(first.host, first.port)
            does = await namesake.met(self.node.context)
            if does is not None:
                raise self._namesake_error(does)
        self.node.start()
        if self.node.is_alone:
            await self._leads.wait()
        if controller_endpoints:
            # Imported where it is needed: most brokers are alone and start faster without.
            from broker.server.controller_registration import ControllerRegistration

            self._registration = ControllerRegistration(
                self._ports.clock,
                self._link_to_controller(),
                lambda: self._image,
                self._ports.config.node_id,
                controller_endpoints,
            )
            self._registration.start()

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, then wait for an image that knows of it."""
        rooms, ports = self._attached(), self._ports
        lifecycle = self._lifecycle = BrokerLifecycle(
            self._self(rooms),
            ports.clock,
            self._link_to_controller(),
            ports.config,
            metadata_offset=lambda: self._image.offset,
            offline_directories=lambda: rooms.replicas.offline_dirs,
            cordoned_directories=lambda: rooms.replicas.cordoned_dirs,
            fail=rooms.fail,
        )
        rooms.replicas.on_directory_failed = lambda: self._on_directory_failed(lifecycle)
        epoch = await lifecycle.register(endpoints)
        lifecycle.start()
        while self._image.offset < epoch:
            self._newer.clear()
            await self._newer.wait()

    async def serve(self) -> None:
        """Until unfenced. The replicas of the first image are there; those of a new topic come a
        few per turn, for the quorum, too, needs this loop."""
        check(self._lifecycle is not None, "a broker joins before it serves")
        new = self._attached().replicas.new
        new.is_spread, new.is_quorum_storing = True, lambda: self.node.driver.waits_for_disk
        await self._lifecycle.ready()  # type: ignore[union-attr]

    async def leave(self) -> None:
        """Hand over, unless there is nobody to hand anything to."""
        if self._lifecycle is None:
            return
        me = self._ports.config.node_id
        if any(other.broker_id != me for other in self._image.alive_brokers()):
            await self._lifecycle.leave()
        self._lifecycle.stop()

    async def stop(self) -> None:
        """The quorum is told if its leader goes."""
        if self._registration is not None:
            self._registration.stop()
        if self._link is not None:
            self._link.close()
        if self._active is not None:
            self._active.on_inactive()
        if self._is_loaded:
            await self.node.stop()

    def broker_epoch(self) -> int:
        """The epoch of the registration, -1 before it."""
        return -1 if self._lifecycle is None else self._lifecycle.epoch

    def vouched_epoch(self) -> int:
        """The registration's: it is committed, so the controller knows what these logs lack."""
        return self.broker_epoch()

    # -- news of the quorum -----------------------------------------------------------

    def _publish(self, changes: Changes) -> None:
        self._image = changes.image
        if self._is_loaded and self.node.is_active:
            state_changes.tell(changes, self._ports.config.node_id, self.node.epoch)
            self._unclean_elections.mark(state_changes.tell_unclean(changes))
        rooms = self._attached()
        if rooms.is_broker_started:
            rooms.publisher.publish(changes)
        else:
            rooms.services.image = changes.image
        self._newer.set()
        if self._lifecycle is not None:
            self._report_early(changes, self._lifecycle)

    def _report_early(self, changes: Changes, lifecycle: BrokerLifecycle) -> None:
        """A heartbeat that is due in two seconds is sent now if somebody waits for it: we are
        fenced, or a broker wants to leave and must know that we have read so far."""
        for broker_id in changes.changed_brokers:
            found = changes.image.brokers.get(broker_id)
            if broker_id == self._ports.config.node_id:
                if found is None or found.fenced:
                    lifecycle.wake()
            elif found is not None and found.in_controlled_shutdown and not found.fenced:
                lifecycle.wake()

    def _on_active(self, epoch: int, image: MetadataImage) -> None:
        """Lead: an empty cluster gets its first records."""
        self._leads.set()
        rules = Rules.of(self._attached().services.config)
        self.node.write(lambda newest: cluster.bootstrap(newest, rules), _ignore, _not_stored)
        if self._active is None:
            return
        self._active.on_active()
        for broker in image.alive_brokers():
            # The death of the last controller may have been that of a broker too, and its
            # connections ended elsewhere: look at everybody once rather than wait for sessions.
            if broker.broker_id != self._ports.config.node_id:
                self._active.connection_lost(broker.broker_id)

    def _on_inactive(self) -> None:
        if self._active is not None:
            self._active.on_inactive()

    def _on_directory_failed(self, lifecycle: BrokerLifecycle) -> None:
        """Tell the controller now. Without any directory there is nothing left to serve from."""
        lifecycle.wake()
        if self._attached().replicas.is_all_offline:
            self._attached().fail(
                StartError(
                    f"every log directory of broker {lifecycle.me.node_id} has failed; mend or "
                    "replace the disks, then start it again"
                )
            )

    def _on_misplaced(self, node_id: int) -> None:
        config = self._ports.config
        self._attached().fail(
            StartError(
                f"node {config.node_id} belongs to cluster {self._attached().logs.cluster_id}, "
                f"the quorum it is told to join (node {node_id}) to another; name the right "
                "log.dirs (or cluster.id) or the right controllers, nothing was changed"
            )
        )

    def _on_namesake(self, does: str) -> None:
        self._attached().fail(self._namesake_error(does))

    def _on_failed(self, what: str) -> None:
        self._attached().fail(
            StartError(
                f"the metadata directory of node {self._ports.config.node_id} has failed: {what}; "
                "mend or replace the disk, then start it again (a voter whose directory is empty "
                "fetches the metadata from the others)"
            )
        )

    def _namesake_error(self, does: str) -> StartError:
        config = self._ports.config
        return StartError(
            f"duplicate node id: another process with node.id={config.node_id} (and another "
            f"metadata directory than {config.metadata_log_dir}) {does}; give this process a "
            "node.id of its own, with its own entry in controller.quorum.voters if it is to vote, "
            "or stop the other one first; nothing was changed"
        )

    def _link_to_controller(self) -> ControllerLink:
        """This node's own affairs: nothing else may stand in front of a heartbeat."""
        if self._link is None:
            route = Route(
                self._ports.config.node_id,
                lambda: self.node.leader_id,
                self.controller_address,
                self._attached().local_call,
            )
            self._link = ControllerLink(
                self._ports.network, self._ports.clock, route, name="lifecycle", pipelined=True
            )
            self.on_leader_change(self._link.leader_changed)
        return self._link

    def _attached(self) -> PlaneRooms:
        check(self._rooms is not None, "a plane has rooms before it is used")
        return self._rooms  # type: ignore[return-value]

    def _self(self, rooms: PlaneRooms) -> Self:
        config = self._ports.config
        previous_epoch = rooms.logs.dirs.previous_broker_epoch()  # may find that one has failed
        return Self(
            node_id=config.node_id,
            cluster_id=rooms.logs.cluster_id,
            incarnation_id=self._ports.clock.new_uuid(),
            rack=config["broker.rack"],
            directories=tuple(rooms.logs.directory_ids[d] for d in rooms.logs.usable_directories),
            previous_epoch=previous_epoch,
        )


def _ignore(_: object) -> None:
    """The reply of a decision that cannot fail."""


def _not_stored(error: ErrorCode) -> None:
    """Another leads already; it writes these records itself."""
    log.info("the first records of the cluster were not stored here: %s", error.name)
