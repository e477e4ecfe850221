"""The ZooKeeper control plane: a session, this broker's node in it, and a controller that may be
elected.

Parts: `startup`, `registration`, `channels`, `outage_log`, the controller and this broker's
handling of its requests.

As Kafka 3.9: the broker registers by an ephemeral node, takes part in the election, and leads what
the elected controller assigns to it. While ZooKeeper cannot be reached it serves on; when its
session has ended it leads nothing from that moment, and registers again by itself as soon as it
can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.controller.active import ActiveController
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.probe import is_reachable
from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import (
    DuplicateBroker,
)
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.controller_requests import ControllerRequestHandler, LocalReplicas
from broker.controller.zk.failure_detector import FailureDetector
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    ZooKeeperSession,
)
from broker.disk.port import DiskError
from broker.log.errors import LogError
from broker.log.log_dir_files import UNKNOWN_BROKER_EPOCH
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.server.control_plane import ControlPlaneDeps, Runtime, StartError
from broker.server.zk.channels import BrokerChannels, controlled_shutdown
from broker.server.zk.outage_log import OutageLog
from broker.server.zk.registration import BrokerRegistration
from broker.server.zk.startup import Startup
from bus.client.wire.ports import Address
from bus.errors import CloseConnection, ErrorCode, check

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode
    from broker.controller.kraft.raft.voters import Voter

log = logging.getLogger("broker.server")


class ZooKeeperControlPlane:
    """`broker.server.control_plane.ControlPlane` on a ZooKeeper ensemble.

    Invariant: `_registration` is set from `join` on; `_startup` runs everything before it.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._session = self._make_session()
        self._startup = Startup(runtime, self._session)
        self._deps: ControlPlaneDeps | None = None
        self._channels: BrokerChannels | None = None
        self._controller: ZooKeeperController | None = None
        self._follower: ControllerRequestHandler | None = None
        self._registration: BrokerRegistration | None = None
        self._active: ActiveController | None = None
        self._failure_detector: FailureDetector | None = None
        self.incarnation_id = runtime.clock.new_uuid()
        self._is_unverified = False
        self._has_failed_directory = False
        self._outage_log = OutageLog(
            runtime.clock, runtime.roles.zookeeper or "", lambda: self._session.last_failure
        )

    def _make_session(self) -> ZooKeeperSession:
        runtime = self._runtime
        if runtime.zookeeper is not None:
            return runtime.zookeeper
        from broker.controller.zk.kazoo_session import KazooSession
        from broker.server.zk.ensemble_settings import ensemble_access

        return KazooSession(
            runtime.roles.zookeeper or "",
            int(runtime.config["zookeeper.session.timeout.ms"]),
            ensemble_access(runtime.config, runtime.tls),
        )

    # -- the ControlPlane port ------------------------------------------------------------

    @property
    def controller(self) -> ZooKeeperController:
        """After `prepare`."""
        check(self._controller is not None, "a plane is prepared before it is used")
        return self._controller  # type: ignore[return-value]

    @property
    def follower(self) -> ControllerRequestHandler:
        """After `prepare`."""
        check(self._follower is not None, "a plane is prepared before it is used")
        return self._follower  # type: ignore[return-value]

    @property
    def image(self) -> MetadataImage:
        """What the controller has sent to this broker."""
        return self.follower.image

    @property
    def knows_topics_at_join(self) -> bool:
        """Topics arrive by requests once the broker serves."""
        return False

    @property
    def knows_topics(self) -> bool:
        """Whether the controller has sent all topics since this broker registered."""
        return self.follower.informed.is_set()

    async def open(self) -> str | None:
        """Connect, then read the cluster's id from the ensemble, or write a new one."""
        self._session.start(self)
        return await self._startup.cluster_id()

    def prepare(self, logs: LogManager) -> None:
        """Create the controller, and the handler of the elected controller's requests."""
        known = logs.dirs.previous_broker_epoch() != UNKNOWN_BROKER_EPOCH
        self._is_unverified = not known and not logs.dirs.was_clean_shutdown()
        runtime = self._runtime
        config = runtime.config
        self._controller = ZooKeeperController(
            config.node_id,
            self._session,
            runtime.clock,
            policy=lambda: PartitionPolicy.of(self._attached().metadata.config),
            send=lambda broker_id, key, body: self._broker_channels().send(broker_id, key, body),
            committed=lambda: self.follower.image,
            deletion_enabled=lambda: bool(config["delete.topic.enable"]),
            on_unclean=runtime.metrics.meter(
                "ControllerStats", "UncleanLeaderElectionsPerSec"
            ).mark,
        )
        self._follower = ControllerRequestHandler(
            config.node_id,
            self._session,
            runtime.clock,
            self._publish,
            self._controller.on_controller_epoch,
        )
        self._follower.image = MetadataImage(cluster_id=logs.cluster_id)

    def attach(self, deps: ControlPlaneDeps) -> None:
        """Connect the components; no metadata is on disk, all comes from ZooKeeper."""
        self._deps = deps
        self._channels = BrokerChannels(self._runtime, self.controller, deps.local_call)
        runtime = self._runtime
        self._failure_detector = FailureDetector(
            runtime.config.node_id,
            self._session,
            runtime.clock,
            self.controller,
            lambda endpoint: is_reachable(runtime.network, runtime.clock, endpoint),
        )
        self._channels.on_lost = self._failure_detector.connection_lost
        self._channels.on_response = self._failure_detector.on_response
        self._active = ActiveController(
            self.controller,
            runtime.clock,
            runtime.network,
            lambda: deps.metadata.config,
            runtime.settings.site_number,
            watches_sessions=False,
        )
        deps.replicas.on_directory_failed = self._on_directory_failed
        self.controller.on_active.append(lambda _epoch, _image: self._on_active())
        self.controller.on_inactive.append(self._on_inactive)
        self.controller.on_broker_contact.append(self._active.on_contact)

    def controller_address(self, node_id: int) -> Address | None:
        """The address of the controller's broker."""
        return self._broker_channels().address(node_id)

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """Call `changed()` when `/controller` changes."""
        self.controller.on_leader_change.append(lambda _leader: changed())

    def broker_epoch(self) -> int:
        """The czxid of this broker's node."""
        return self.follower.fencing.broker_epoch if self._follower is not None else -1

    def verified_epoch(self) -> int:
        """The registration's epoch, once a controller has taken the state of our logs into
        account."""
        return UNKNOWN_BROKER_EPOCH if self._is_unverified else self.broker_epoch()

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run the controller; it takes part in elections once the broker is registered."""
        self.controller.start()

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, and read the configurations."""
        runtime, config = self._runtime, self._runtime.config
        info = znodes.BrokerInfo(
            config.node_id, endpoints, config["broker.rack"], self._is_unverified,
            self.incarnation_id,
        )  # fmt: skip
        self._registration = BrokerRegistration(
            runtime, self._session, info, self.controller, self.follower, self._step_down
        )
        if self._has_failed_directory:
            self._registration.on_directory_failed()
        try:
            await self._startup.retry(self._registration.register)
        except DuplicateBroker as error:
            raise StartError(str(error)) from error

    async def serve(self) -> None:
        """Handle the controller's requests; wait until it has sent all metadata."""
        self.follower.open(LocalReplicas(self._delete, self._is_replica_failed))
        if self._registration is not None:
            self._registration.start()
        self.controller.elect()
        await self.follower.informed.wait()
        if self._is_unverified:
            await self._startup.retry(self._verify)

    async def _verify(self) -> None:
        """A controller has removed this broker from the in-sync sets before it sent any metadata:
        from here on membership in these sets says whether our logs are complete (ADR 0032)."""
        if self._registration is not None:
            await self._registration.member.mark_verified()
        self._is_unverified = False
        self._attached().logs.dirs.begin_boot_marker(self.broker_epoch())

    async def controlled_shutdown(self) -> None:
        """Move partition leadership to other brokers, then resign as controller."""
        if self._registration is None or self._channels is None:
            return
        if self._session.state is SessionState.CONNECTED:
            await controlled_shutdown(
                self._runtime, self._channels, self.image, self.broker_epoch()
            )
        await self.controller.stop()

    async def stop(self) -> None:
        """End the session, which removes this broker's node at once."""
        self._outage_log.end()
        if self._registration is not None:
            self._registration.stop()
        if self._follower is not None:
            self.follower.close()
        if self._controller is not None:
            await self.controller.stop()
        if self._failure_detector is not None:
            self._failure_detector.stop()
        if self._channels is not None:
            self._channels.close()
        await self._session.close()

    # -- what handlers ask --------------------------------------------------------------------

    @property
    def active(self) -> ActiveController:
        """After `attach`."""
        check(self._active is not None, "a plane has its components before it is used")
        return self._active  # type: ignore[return-value]

    @property
    def has_quorum(self) -> bool:
        """The metadata are in ZooKeeper."""
        return False

    @property
    def quorum(self) -> RaftNode:
        """There is none."""
        raise CloseConnection("this node is part of no quorum")

    @property
    def kraft_version(self) -> int:
        """No quorum has one here."""
        return 0

    @property
    def voters(self) -> Sequence[Voter]:
        """Nobody votes."""
        return ()

    @property
    def advertised_controller_id(self) -> int:
        """The elected broker."""
        return self.controller.leader_id

    def connection_lost(self, broker_id: int) -> None:
        """Its session says whether the broker is gone; a probe may say so earlier."""
        if self._failure_detector is not None:
            self._failure_detector.connection_lost(broker_id)

    def handle_controller_request(self, request: object, reply: Callable[[object], None]) -> None:
        """LeaderAndIsr, StopReplica, UpdateMetadata."""
        self.follower.handle(request, reply)

    def handle_controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """ControlledShutdown."""
        self.controller.controlled_shutdown(broker_id, broker_epoch, done, failed)

    # -- events of the session --------------------------------------------------------------

    def on_session(self, state: SessionState, session_id: int) -> None:
        """Follow the session: reconnect, or step down when it has expired."""
        log.info("ZooKeeper session %x is %s", session_id, state.value)
        if state is SessionState.CONNECTED:
            self._outage_log.end()
            self._startup.connected.set()
            if self._registration is not None:
                self._registration.wake()
                if session_id == self._registration.registered_session:
                    self.controller.on_session(state)
            return
        self._outage_log.begin()
        if self._session.is_refused:
            self._startup.connected.set()  # a login that is refused is not waited for
        if state is SessionState.EXPIRED:
            log.warning(
                "the session has ended: broker %d leads nothing until it is registered again",
                self._runtime.config.node_id,
            )
            if self._registration is not None:
                self._registration.registered_session = 0
            self._step_down()
        if self._controller is not None:
            self._controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        """Route a watch event to the registration or the controller."""
        if self._registration is not None and self._registration.handle_watch(event.path):
            return
        if self._controller is not None:
            self._controller.on_watch(event)

    def _step_down(self) -> None:
        if self._deps is not None and self._deps.is_broker_started:
            self._deps.replicas.resign_all()
        if self._follower is not None:
            self._follower.step_down()

    # -- connections between the parts ------------------------------------------------------

    def _publish(self, changes: Changes) -> None:
        deps = self._attached()
        if deps.is_broker_started:
            deps.publisher.publish(changes)
        else:
            deps.metadata.image = changes.image

    def _delete(self, topic: str, index: int) -> ErrorCode:
        try:
            self._attached().replicas.delete_partition(topic, index)
        except LogError as error:
            return error.code
        except DiskError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _on_directory_failed(self) -> None:
        """Report to the controller. Without any directory there is nothing left to serve."""
        deps = self._attached()
        if deps.replicas.is_all_offline:
            deps.fail(
                StartError(
                    f"every log directory of broker {self._runtime.config.node_id} has failed; "
                    "repair or replace the disks, then start it again"
                )
            )
            return
        self._has_failed_directory = True
        if self._registration is not None:
            self._registration.on_directory_failed()

    def _is_replica_failed(self, topic: str, index: int) -> bool:
        """Whether a replica of the image is missing here because its directory failed."""
        return self._attached().replicas.find(topic, index) is None

    def _on_active(self) -> None:
        if self._active is not None:
            self._active.on_active()

    def _on_inactive(self) -> None:
        if self._active is not None:
            self._active.on_inactive()
        if self._channels is not None:
            self._channels.close_all()

    def _attached(self) -> ControlPlaneDeps:
        check(self._deps is not None, "a control plane has its components before it is used")
        return self._deps  # type: ignore[return-value]

    def _broker_channels(self) -> BrokerChannels:
        check(self._channels is not None, "a control plane has its components before it is used")
        return self._channels  # type: ignore[return-value]
