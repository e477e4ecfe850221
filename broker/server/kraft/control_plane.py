"""The KRaft control plane: a Raft node in this process, and this broker's registration with its
leader.

Core: `kraft.node.RaftNode` and `controller.active.ActiveController`.

Until this broker has registered, the newest committed image is only kept: the components get the
whole of the first image at or past the registration, and from then on every change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.controller import state_changes
from broker.controller.active import ActiveController
from broker.controller.decisions import cluster
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.kraft import duplicate_id
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.voters import Voter
from broker.controller.kraft.storage.format import read_first_records
from broker.controller.port import Controller, Failed
from broker.log.log_dir_files import readable_meta_properties
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.peer.controller_channel import ControllerChannel, ControllerLocator
from broker.server.control_plane import ControlPlaneDeps, Runtime, StartError
from broker.server.kraft.broker_lifecycle import BrokerIdentity, BrokerLifecycleManager
from bus.client.wire.ports import Address
from bus.errors import CloseConnection, ErrorCode, check

if TYPE_CHECKING:
    from broker.server.kraft.controller_registration import ControllerRegistration

log = logging.getLogger("broker.server")


class KraftControlPlane:
    """`broker.server.control_plane.ControlPlane` on a Raft quorum."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.incarnation_id = runtime.clock.new_uuid()
        self._node: RaftNode | None = None
        self._active: ActiveController | None = None
        self._deps: ControlPlaneDeps | None = None
        self._is_loaded = False
        self._image = MetadataImage()
        self._image_changed = asyncio.Event()
        self._unclean_elections = runtime.metrics.meter(
            "ControllerStats", "UncleanLeaderElectionsPerSec"
        )
        self._is_leader = asyncio.Event()
        self._first_records: tuple[object, ...] = ()
        self._lifecycle: BrokerLifecycleManager | None = None
        self._controller_channel: ControllerChannel | None = None
        self._registration: ControllerRegistration | None = None

    @property
    def controller(self) -> Controller:
        """The Raft node; after `prepare`."""
        return self.node

    @property
    def image(self) -> MetadataImage:
        """The newest committed image."""
        return self._image

    @property
    def knows_topics_at_join(self) -> bool:
        """The image is at or past the registration."""
        return True

    # -- what handlers ask --------------------------------------------------------------

    @property
    def knows_topics(self) -> bool:
        """The image has them all."""
        return True

    @property
    def active(self) -> ActiveController:
        """After `attach`."""
        check(self._active is not None, "a control plane has its components before it is used")
        return self._active  # type: ignore[return-value]

    @property
    def has_quorum(self) -> bool:
        """Every process is a voter or an observer."""
        return True

    @property
    def quorum(self) -> RaftNode:
        """The Raft node."""
        return self.node

    @property
    def kraft_version(self) -> int:
        """0 where the configuration names the voters, 1 where the log does."""
        return self.node.kraft_version

    @property
    def voters(self) -> Sequence[Voter]:
        """The voters in force."""
        return self.node.voters.voters

    @property
    def advertised_controller_id(self) -> int:
        """This broker, which forwards: no client may reach the controllers."""
        return self._runtime.config.node_id

    def connection_lost(self, broker_id: int) -> None:
        """The active controller probes the broker."""
        if self._active is not None:
            self._active.connection_lost(broker_id)

    def handle_controller_request(self, request: object, reply: Callable[[object], None]) -> None:
        """No listener serves these APIs here."""
        raise CloseConnection("the controller of this cluster is a quorum")

    def handle_controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Failed,
    ) -> None:
        """No listener serves this API here."""
        raise CloseConnection("the controller of this cluster is a quorum")

    # -- life ---------------------------------------------------------------------------

    @property
    def node(self) -> RaftNode:
        """The Raft node; after `prepare`."""
        check(self._node is not None, "a plane is prepared before it is used")
        return self._node  # type: ignore[return-value]

    async def open(self) -> str | None:
        """The id in the settings or the directories; only a process that is the whole quorum may
        create one."""
        config, settings = self._runtime.config, self._runtime.settings
        if settings.cluster_id:
            return settings.cluster_id
        disk = self._runtime.disk
        known = readable_meta_properties(disk, (*config.log_dirs, config.metadata_log_dir))
        if self._runtime.roles.founds_cluster or any(known):
            return None
        raise StartError(
            f"the log directories of node {config.node_id} ({', '.join(config.log_dirs)}) are not "
            "formatted; set `cluster.id` to the same id on every node, or run "
            "`databus broker format`"
        )

    def prepare(self, logs: LogManager) -> None:
        """Create the Raft node of these directories."""
        runtime = self._runtime
        self._node = RaftNode(
            runtime.config,
            runtime.clock,
            runtime.disk,
            runtime.to_controllers,
            runtime.config.metadata_log_dir,
            logs.cluster_id,
            runtime.config.node_id,
            logs.directory_ids[runtime.config.metadata_log_dir],
            self._publish,
            metrics=runtime.metrics,
            login=runtime.roles.controller_login,
        )
        self._node.on_active(self._on_active)
        self._node.on_inactive(self._on_inactive)
        self._node.on_wrong_cluster(self._on_wrong_cluster)
        self._node.on_duplicate_id(self._on_duplicate_id)
        self._node.on_failed(self._on_failed)

    def attach(self, deps: ControlPlaneDeps) -> None:
        """Load the metadata from the disk."""
        self._deps = deps
        self._active = ActiveController(
            self.node,
            self._runtime.clock,
            self._runtime.network,
            lambda: deps.metadata.config,
            self._runtime.settings.site_number,
        )
        changes = self.node.open()
        if not changes.image.features:
            directory = self._runtime.config.metadata_log_dir
            self._first_records = read_first_records(self._runtime.disk, directory)
        self._is_loaded = True
        self._publish(changes)

    def controller_address(self, node_id: int) -> Address | None:
        """The address according to the voters or the bootstrap servers."""
        return self.node.address_of(node_id)

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """Call `changed()` when Raft has another leader."""
        self.node.on_leader_change(lambda _leader, _epoch: changed())

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run the Raft node; with one voter it is active when this returns, because what follows
        would only retry until it is."""
        if controller_endpoints:
            first = controller_endpoints[0]
            self.node.set_endpoint(first.host, first.port)
            does = await duplicate_id.find_duplicate(self.node.context)
            if does is not None:
                raise self._duplicate_id_error(does)
        self.node.start()
        if self.node.is_only_voter:
            await self._is_leader.wait()
        if controller_endpoints:
            # Imported here: most brokers are alone and start faster without it.
            from broker.server.kraft.controller_registration import ControllerRegistration

            self._registration = ControllerRegistration(
                self._runtime.clock,
                self._channel_to_controller(),
                lambda: self._image,
                self._runtime.config.node_id,
                controller_endpoints,
            )
            self._registration.start()

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, then wait for an image that contains the registration."""
        deps, runtime = self._attached(), self._runtime
        lifecycle = self._lifecycle = BrokerLifecycleManager(
            self._identity(deps),
            runtime.clock,
            self._channel_to_controller(),
            runtime.config,
            metadata_offset=lambda: self._image.offset,
            offline_directories=lambda: deps.replicas.offline_dirs,
            cordoned_directories=lambda: deps.replicas.cordoned_dirs,
            fail=deps.fail,
        )
        deps.replicas.on_directory_failed = lambda: self._on_directory_failed(lifecycle)
        epoch = await lifecycle.register(endpoints)
        lifecycle.start()
        while self._image.offset < epoch:
            self._image_changed.clear()
            await self._image_changed.wait()

    async def serve(self) -> None:
        """Wait until unfenced. The replicas of the first image exist; those of a new topic are
        created a few per loop iteration, because the quorum needs this loop, too."""
        check(self._lifecycle is not None, "a broker joins before it serves")
        new = self._attached().replicas.creation_queue
        new.is_spread, new.is_quorum_storing = True, lambda: self.node.event_loop.waits_for_disk
        await self._lifecycle.wait_until_unfenced()  # type: ignore[union-attr]

    async def controlled_shutdown(self) -> None:
        """Move leadership to other brokers, if there are any."""
        if self._lifecycle is None:
            return
        me = self._runtime.config.node_id
        if any(other.broker_id != me for other in self._image.alive_brokers()):
            await self._lifecycle.controlled_shutdown()
        self._lifecycle.stop()

    async def stop(self) -> None:
        """Stop the Raft node; a leader resigns first."""
        if self._registration is not None:
            self._registration.stop()
        if self._controller_channel is not None:
            self._controller_channel.close()
        if self._active is not None:
            self._active.on_inactive()
        if self._is_loaded:
            await self.node.stop()

    def broker_epoch(self) -> int:
        """The epoch of the registration, -1 before it."""
        return -1 if self._lifecycle is None else self._lifecycle.epoch

    def verified_epoch(self) -> int:
        """The registration's epoch: it is committed, so the controller knows what these logs
        lack."""
        return self.broker_epoch()

    # -- events of the quorum ---------------------------------------------------------

    def _publish(self, changes: Changes) -> None:
        self._image = changes.image
        if self._is_loaded and self.node.is_active:
            state_changes.log_state_changes(changes, self._runtime.config.node_id, self.node.epoch)
            self._unclean_elections.mark(state_changes.log_unclean_elections(changes))
        deps = self._attached()
        if deps.is_broker_started:
            deps.publisher.publish(changes)
        else:
            deps.metadata.image = changes.image
        self._image_changed.set()
        if self._lifecycle is not None:
            self._heartbeat_early(changes, self._lifecycle)

    def _heartbeat_early(self, changes: Changes, lifecycle: BrokerLifecycleManager) -> None:
        """Send the next heartbeat now instead of within two seconds if it is waited for: this
        broker is fenced, or another shuts down and must know that this one has read so far."""
        for broker_id in changes.changed_brokers:
            found = changes.image.brokers.get(broker_id)
            if broker_id == self._runtime.config.node_id:
                if found is None or found.fenced:
                    lifecycle.wake()
            elif found is not None and found.in_controlled_shutdown and not found.fenced:
                lifecycle.wake()

    def _on_active(self, epoch: int, image: MetadataImage) -> None:
        """This node leads the quorum: an empty cluster gets its first records."""
        self._is_leader.set()
        rules = PartitionPolicy.of(self._attached().metadata.config)
        self.node.write(
            lambda newest: cluster.bootstrap(newest, rules, formatted=self._first_records),
            _ignore,
            _not_stored,
        )
        if self._active is None:
            return
        self._active.on_active()
        for broker in image.alive_brokers():
            # The former controller may have died together with a broker whose connections ended
            # elsewhere: probe every broker once instead of waiting for session timeouts.
            if broker.broker_id != self._runtime.config.node_id:
                self._active.connection_lost(broker.broker_id)

    def _on_inactive(self) -> None:
        if self._active is not None:
            self._active.on_inactive()

    def _on_directory_failed(self, lifecycle: BrokerLifecycleManager) -> None:
        """Report to the controller now. Without any directory there is nothing left to serve."""
        lifecycle.wake()
        if self._attached().replicas.is_all_offline:
            self._attached().fail(
                StartError(
                    f"every log directory of broker {lifecycle.me.node_id} has failed; repair or "
                    "replace the disks, then start it again"
                )
            )

    def _on_wrong_cluster(self, node_id: int) -> None:
        config = self._runtime.config
        self._attached().fail(
            StartError(
                f"node {config.node_id} belongs to cluster {self._attached().logs.cluster_id}, "
                f"the quorum it is configured to join (node {node_id}) to another; name the right "
                "log.dirs (or cluster.id) or the right controllers, nothing was changed"
            )
        )

    def _on_duplicate_id(self, does: str) -> None:
        self._attached().fail(self._duplicate_id_error(does))

    def _on_failed(self, what: str) -> None:
        self._attached().fail(
            StartError(
                f"the metadata directory of node {self._runtime.config.node_id} has failed: "
                f"{what}; repair or replace the disk, then start it again (a voter whose directory "
                "is empty fetches the metadata from the others)"
            )
        )

    def _duplicate_id_error(self, does: str) -> StartError:
        config = self._runtime.config
        return StartError(
            f"duplicate node id: another process with node.id={config.node_id} (and another "
            f"metadata directory than {config.metadata_log_dir}) {does}; give this process a "
            "node.id of its own, with its own entry in controller.quorum.voters if it is to vote, "
            "or stop the other one first; nothing was changed"
        )

    def _channel_to_controller(self) -> ControllerChannel:
        """A channel for this node's own requests: heartbeats never wait behind others."""
        if self._controller_channel is None:
            route = ControllerLocator(
                self._runtime.config.node_id,
                lambda: self.node.leader_id,
                self.controller_address,
                self._attached().local_call,
            )
            self._controller_channel = ControllerChannel(
                self._runtime.to_controllers, self._runtime.clock, route, name="lifecycle",
                pipelined=True,
                login=self._runtime.roles.controller_login,
            )  # fmt: skip
            self.on_leader_change(self._controller_channel.leader_changed)
        return self._controller_channel

    def _attached(self) -> ControlPlaneDeps:
        check(self._deps is not None, "a control plane has its components before it is used")
        return self._deps  # type: ignore[return-value]

    def _identity(self, deps: ControlPlaneDeps) -> BrokerIdentity:
        config = self._runtime.config
        previous_epoch = deps.logs.dirs.previous_broker_epoch()  # may find that one has failed
        return BrokerIdentity(
            node_id=config.node_id,
            cluster_id=deps.logs.cluster_id,
            incarnation_id=self.incarnation_id,
            rack=config["broker.rack"],
            directories=tuple(deps.logs.directory_ids[d] for d in deps.logs.usable_directories),
            previous_epoch=previous_epoch,
        )


def _ignore(_: object) -> None:
    """Ignores the reply of a decision that cannot fail."""


def _not_stored(error: ErrorCode) -> None:
    """Another node already leads; it writes these records itself."""
    log.info("the first records of the cluster were not stored here: %s", error.name)
