"""The ZooKeeper plane: a session, this broker's node in it, and a controller that may be elected.

In: configuration and ports, then the rooms. Out: `Plane`. Parts: `zookeeper_opening` (the start),
`zookeeper_place` (registered and up to date), `zk.controller`, `zk.follower`. Never: a decision,
nor what a znode means.

As Kafka 3.9: the broker registers by an ephemeral node, stands for election, and leads what the
elected controller tells it. While ZooKeeper cannot be reached it serves on; when its session has
ended it leads nothing from that moment, and begins again by itself as soon as it can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from broker.controller.active import ActiveController
from broker.controller.decisions.rules import Rules
from broker.controller.probe import answers
from broker.controller.zk import znodes
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.follower import Follower, Local
from broker.controller.zk.member import (
    DuplicateBroker,
)
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    ZooKeeperSession,
)
from broker.controller.zk.suspicion import Suspicions
from broker.disk.port import DiskError
from broker.log.directories import UNKNOWN_BROKER_EPOCH
from broker.log.errors import LogError
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.peer.port import Address
from broker.server.plane import PlaneRooms, Ports, StartError
from broker.server.zookeeper_absence import Absence
from broker.server.zookeeper_links import BrokerLinks, hand_over
from broker.server.zookeeper_opening import Opening
from broker.server.zookeeper_place import Place
from bus.errors import ErrorCode, check

log = logging.getLogger("broker.server")


class ZookeeperPlane:
    """`broker.server.plane.Plane` with an ensemble.

    Invariant: `_place` is there from `join` on; what came before it is `zookeeper_opening`'s.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._session = self._make_session()
        self._opening = Opening(ports, self._session)
        self._rooms: PlaneRooms | None = None
        self._links: BrokerLinks | None = None
        self._controller: ZooKeeperController | None = None
        self._follower: Follower | None = None
        self._place: Place | None = None
        self._active: ActiveController | None = None
        self._suspicions: Suspicions | None = None
        self._is_unsound = False
        self._has_failed_directory = False
        self._absence = Absence(ports.clock, ports.roles.zookeeper or "")

    def _make_session(self) -> ZooKeeperSession:
        ports = self._ports
        if ports.zookeeper is not None:
            return ports.zookeeper
        from broker.controller.zk.real import KazooSession

        return KazooSession(
            ports.roles.zookeeper or "", int(ports.config["zookeeper.session.timeout.ms"])
        )

    # -- the Plane port -------------------------------------------------------------------

    @property
    def controller(self) -> ZooKeeperController:
        """After `prepare`."""
        check(self._controller is not None, "a plane is prepared before it is used")
        return self._controller  # type: ignore[return-value]

    @property
    def follower(self) -> Follower:
        """After `prepare`."""
        check(self._follower is not None, "a plane is prepared before it is used")
        return self._follower  # type: ignore[return-value]

    @property
    def image(self) -> MetadataImage:
        """What the controller has told this broker."""
        return self.follower.image

    @property
    def knows_topics_at_join(self) -> bool:
        """Topics come by requests once the broker serves."""
        return False

    @property
    def knows_topics(self) -> bool:
        """Whether the controller has named all topics since this broker registered."""
        return self.follower.informed.is_set()

    async def open(self) -> str | None:
        """Connect; the ensemble knows the cluster's id or gets one."""
        self._session.start(self)
        return await self._opening.cluster_id()

    def prepare(self, logs: LogManager) -> None:
        """Make the controller and the follower."""
        known = logs.dirs.previous_broker_epoch() != UNKNOWN_BROKER_EPOCH
        self._is_unsound = not known and not logs.dirs.was_closed_in_order()
        ports = self._ports
        config = ports.config
        self._controller = ZooKeeperController(
            config.node_id,
            self._session,
            ports.clock,
            rules=lambda: Rules.of(self._attached().services.config),
            send=lambda broker_id, key, body: self._broker_links().send(broker_id, key, body),
            committed=lambda: self.follower.image,
            deletion_enabled=lambda: bool(config["delete.topic.enable"]),
            on_unclean=ports.metrics.meter("ControllerStats", "UncleanLeaderElectionsPerSec").mark,
        )
        self._follower = Follower(
            config.node_id, self._session, ports.clock, self._publish, self._controller.note_epoch
        )
        self._follower.image = MetadataImage(cluster_id=logs.cluster_id)

    def attach(self, rooms: PlaneRooms) -> None:
        """Nothing is on disk; the rooms are told what ZooKeeper says."""
        self._rooms = rooms
        rooms.services.zookeeper = self
        self._links = BrokerLinks(self._ports, self.controller, rooms.local_call)
        ports = self._ports
        self._suspicions = Suspicions(
            ports.config.node_id,
            self._session,
            ports.clock,
            self.controller,
            lambda endpoint: answers(ports.network, ports.clock, endpoint),
        )
        self._links.on_lost = self._suspicions.connection_lost
        self._links.on_answer = self._suspicions.answered
        self._active = rooms.services.active = ActiveController(
            self.controller,
            ports.clock,
            ports.network,
            lambda: rooms.services.config,
            ports.settings.site_number,
            watches_sessions=False,
        )
        rooms.services.connection_lost = self._suspicions.connection_lost
        rooms.replicas.on_directory_failed = self._on_directory_failed
        self.controller.on_active.append(lambda _epoch, _image: self._on_active())
        self.controller.on_inactive.append(self._on_inactive)

    def controller_address(self, node_id: int) -> Address | None:
        """A controller listens where its broker does."""
        return self._broker_links().address(node_id)

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """News of `/controller`."""
        self.controller.on_leader_change.append(lambda _leader: changed())

    def broker_epoch(self) -> int:
        """The czxid of this broker's node."""
        return self.follower.fencing.broker_epoch if self._follower is not None else -1

    def vouched_epoch(self) -> int:
        """That of the registration, once a controller has counted with our logs as they are."""
        return UNKNOWN_BROKER_EPOCH if self._is_unsound else self.broker_epoch()

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run what takes part in elections; it stands once the broker is registered."""
        self.controller.start()

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register, and read the configurations."""
        ports, config = self._ports, self._ports.config
        info = znodes.BrokerInfo(
            config.node_id, endpoints, config["broker.rack"], self._is_unsound
        )
        self._place = Place(
            ports, self._session, info, self.controller, self.follower, self._step_down
        )
        if self._has_failed_directory:
            self._place.directory_failed()
        try:
            await self._opening.persistently(self._place.register)
        except DuplicateBroker as error:
            raise StartError(str(error)) from error

    async def serve(self) -> None:
        """Take the controller's requests; until it has told us everything."""
        self.follower.open(Local(self._delete, self._has_failed))
        if self._place is not None:
            self._place.start()
        self.controller.stand()
        await self.follower.informed.wait()
        if self._is_unsound:
            await self._opening.persistently(self._vouch)

    async def _vouch(self) -> None:
        """A controller has taken us out of the in-sync sets before it told us anything: from here
        on our logs are as good as our place in these sets (ADR 0032)."""
        if self._place is not None:
            await self._place.member.vouch()
        self._is_unsound = False
        self._attached().logs.dirs.begin_life(self.broker_epoch())

    async def leave(self) -> None:
        """Hand leadership over, then the office."""
        if self._place is None or self._links is None:
            return
        if self._session.state is SessionState.CONNECTED:
            await hand_over(self._ports, self._links, self.image, self.broker_epoch())
        await self.controller.stop()

    async def stop(self) -> None:
        """End the session: this broker's node is gone at once."""
        self._absence.end()
        if self._place is not None:
            self._place.stop()
        if self._follower is not None:
            self.follower.close()
        if self._controller is not None:
            await self.controller.stop()
        if self._suspicions is not None:
            self._suspicions.stop()
        if self._links is not None:
            self._links.close()
        await self._session.close()

    # -- the controller's requests, for handlers --------------------------------------------

    def take(self, request: Any, reply: Callable[[object], None]) -> None:
        """LeaderAndIsr, StopReplica, UpdateMetadata."""
        self.follower.take(request, reply)

    def leave_orderly(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Callable[[ErrorCode], None],
    ) -> None:
        """ControlledShutdown."""
        self.controller.leave_orderly(broker_id, broker_epoch, done, failed)

    # -- news of the session ----------------------------------------------------------------

    def on_session(self, state: SessionState, session_id: int) -> None:
        """The session's fate is this broker's."""
        log.info("ZooKeeper session %x is %s", session_id, state.value)
        if state is SessionState.CONNECTED:
            self._absence.end()
            self._opening.connected.set()
            if self._place is not None:
                self._place.look()
                if session_id == self._place.registered_session:
                    self.controller.on_session(state)
            return
        self._absence.begin()
        if state is SessionState.EXPIRED:
            log.warning(
                "the session has ended: broker %d leads nothing until it is registered anew",
                self._ports.config.node_id,
            )
            if self._place is not None:
                self._place.registered_session = 0
            self._step_down()
        if self._controller is not None:
            self._controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        """Ours, or the controller's."""
        if self._place is not None and self._place.is_ours(event.path):
            return
        if self._controller is not None:
            self._controller.on_watch(event)

    def _step_down(self) -> None:
        if self._rooms is not None and self._rooms.is_broker_started:
            self._rooms.replicas.resign_all()
        if self._follower is not None:
            self._follower.step_down()

    # -- joining the parts ------------------------------------------------------------------

    def _publish(self, changes: Changes) -> None:
        rooms = self._attached()
        if rooms.is_broker_started:
            rooms.publisher.publish(changes)
        else:
            rooms.services.image = changes.image

    def _delete(self, topic: str, index: int) -> ErrorCode:
        try:
            self._attached().replicas.delete_partition(topic, index)
        except LogError as error:
            return error.code
        except DiskError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def _on_directory_failed(self) -> None:
        """Tell the controller. Without any directory there is nothing left to serve from."""
        rooms = self._attached()
        if rooms.replicas.is_all_offline:
            rooms.fail(
                StartError(
                    f"every log directory of broker {self._ports.config.node_id} has failed; mend "
                    "or replace the disks, then start it again"
                )
            )
            return
        self._has_failed_directory = True
        if self._place is not None:
            self._place.directory_failed()

    def _has_failed(self, topic: str, index: int) -> bool:
        """Whether a replica that the image has here is not: its directory failed."""
        return self._attached().replicas.find(topic, index) is None

    def _on_active(self) -> None:
        if self._active is not None:
            self._active.on_active()

    def _on_inactive(self) -> None:
        if self._active is not None:
            self._active.on_inactive()
        if self._links is not None:
            self._links.forget()

    def _attached(self) -> PlaneRooms:
        check(self._rooms is not None, "a plane has rooms before it is used")
        return self._rooms  # type: ignore[return-value]

    def _broker_links(self) -> BrokerLinks:
        check(self._links is not None, "a plane has rooms before it is used")
        return self._links  # type: ignore[return-value]
