"""The ZooKeeper plane: a session, this broker's node in it, and a controller that may be elected.

In: configuration and ports, then the rooms. Out: `Plane`. Cores: `zk.controller`, `zk.follower`,
`zk.member`. Never: a decision, nor what a znode means.

As Kafka 3.9: the broker registers by an ephemeral node, stands for election, and leads what the
elected controller tells it. While ZooKeeper cannot be reached it serves on; when its session has
ended it leads nothing from that moment, and begins again by itself as soon as it can.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from broker.clock.port import TaskHandle
from broker.controller.active import ActiveController
from broker.controller.decisions.rules import Rules
from broker.controller.probe import answers
from broker.controller.zk import znodes
from broker.controller.zk.configs import NOTE_FOLDERS
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.follower import Follower, Local
from broker.controller.zk.load import read_cluster_id
from broker.controller.zk.member import (
    DuplicateBroker,
    Member,
    ensure_paths,
    find_or_make_cluster_id,
)
from broker.controller.zk.port import (
    SessionState,
    WatchEvent,
    ZooKeeperError,
    ZooKeeperErrorKind,
    ZooKeeperSession,
)
from broker.controller.zk.suspicion import Suspicions
from broker.disk.port import DiskError
from broker.log.directories import UNKNOWN_BROKER_EPOCH, encode_uuid, read_identity
from broker.log.errors import LogError
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.peer.port import Address
from broker.peer.silence import Silence
from broker.server.plane import PlaneRooms, Ports, StartError
from broker.server.zookeeper_absence import Absence
from broker.server.zookeeper_links import BrokerLinks, hand_over
from bus.errors import ErrorCode, check

log = logging.getLogger("broker.server")

Found = TypeVar("Found")

RETRY_S = 0.2
"""Between two tries of a step of the start while the connection comes and goes."""


class ZookeeperPlane:
    """`broker.server.plane.Plane` with an ensemble.

    Invariant: `_registered_session` is the session that made this broker's node, 0 before it;
    the controller stands for election only under such a session.
    """

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._session = self._make_session()
        self._connected = asyncio.Event()
        self._rooms: PlaneRooms | None = None
        self._links: BrokerLinks | None = None
        self._controller: ZooKeeperController | None = None
        self._follower: Follower | None = None
        self._member: Member | None = None
        self._active: ActiveController | None = None
        self._suspicions: Suspicions | None = None
        self._registered_session = 0
        self._is_unsound = False
        self._notes_due = False
        self._absence = Absence(ports.clock, ports.roles.zookeeper or "")
        self._failure_due = False
        self._wake = asyncio.Event()
        self._task: TaskHandle | None = None

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

    async def open(self) -> str | None:
        """Connect; the ensemble knows the cluster's id or gets one."""
        self._session.start(self)
        await self._first_connection()
        await self._persistently(self._check_not_migrated)
        has_authorizer = bool(self._ports.config["authorizer.class.name"])
        await self._persistently(
            lambda: ensure_paths(self._session, has_authorizer=has_authorizer)
        )
        known = self._known_cluster_id()
        if known is not None:
            return await self._persistently(lambda: self._check_cluster(known))
        candidate = self._new_cluster_id()
        return await self._persistently(
            lambda: find_or_make_cluster_id(self._session, candidate)
        )

    async def _check_not_migrated(self) -> None:
        if await self._session.exists(znodes.MIGRATION) is not None:
            await self._session.close()
            raise StartError(
                f"this cluster has moved to KRaft ({znodes.MIGRATION} exists in ZooKeeper): start "
                "the broker with its KRaft configuration; to go back instead, delete that node "
                "before any broker has run under KRaft"
            )

    async def _check_cluster(self, known: str) -> str:
        """A broker with a history does not found a cluster: an ensemble that has no id is the
        wrong one, or was emptied; both need a person."""
        found = await read_cluster_id(self._session)
        if found is None:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at "
                f"{self._ports.roles.zookeeper} knows no cluster: check zookeeper.connect (its "
                "chroot too), or restore ZooKeeper's data; to found the cluster anew there, "
                f"create {znodes.CLUSTER_ID} with "
                f"{znodes.encode_cluster_id(known).decode()}"
            )
        if found != known:
            raise StartError(
                f"the log directories belong to cluster {known}, but ZooKeeper at "
                f"{self._ports.roles.zookeeper} is that of cluster {found}: check "
                "zookeeper.connect (its chroot too) and log.dirs; nothing was changed"
            )
        return found

    def _known_cluster_id(self) -> str | None:
        disk = self._ports.disk
        found = (read_identity(disk, one) for one in self._ports.config.log_dirs)
        return next((one.cluster_id for one in found if one is not None), None)

    def _new_cluster_id(self) -> str:
        while (text := encode_uuid(self._ports.clock.new_uuid())).startswith("-"):
            pass  # a leading dash would look like an option on a command line
        return text

    async def _first_connection(self) -> None:
        timeout_ms = int(self._ports.config["zookeeper.connection.timeout.ms"])
        timer = self._ports.clock.call_later(timeout_ms / 1000, self._connected.set)
        try:
            await self._connected.wait()
        finally:
            timer.cancel()
        if self._session.state is not SessionState.CONNECTED:
            await self._session.close()
            raise StartError(
                f"ZooKeeper at {self._ports.roles.zookeeper} did not answer within "
                f"{timeout_ms} ms; check zookeeper.connect and that the ensemble has a quorum"
            )

    async def _persistently(self, work: Callable[[], Awaitable[Found]]) -> Found:
        """A step of the start, again after each lost connection."""
        silence = Silence()
        while True:
            try:
                return await work()
            except ZooKeeperError as error:
                if error.kind is ZooKeeperErrorKind.REFUSED:
                    raise StartError(f"ZooKeeper refuses: {error}") from error
                if silence.worth_saying(self._ports.clock.monotonic()):
                    log.info("again in a moment: %s", error)
            except znodes.ZnodeError as error:
                raise StartError(str(error)) from error
            await self._ports.clock.sleep(RETRY_S)

    def prepare(self, logs: LogManager) -> None:
        """Make the controller and the follower."""
        known = logs.previous_broker_epoch() != UNKNOWN_BROKER_EPOCH
        self._is_unsound = not known and not logs.was_closed_in_order()
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
        self._member = Member(
            self._session,
            ports.clock,
            znodes.BrokerInfo(
                config.node_id, endpoints, config["broker.rack"], self._is_unsound
            ),
            int(config["zookeeper.session.timeout.ms"]),
            self.follower.replay,
            lambda: self.follower.image,
        )
        try:
            await self._persistently(self._register)
        except DuplicateBroker as error:
            raise StartError(str(error)) from error

    async def serve(self) -> None:
        """Take the controller's requests; until it has told us everything."""
        self.follower.open(Local(self._delete, self._has_failed))
        self._task = self._ports.clock.spawn(self._run(), name="zookeeper-member")
        self._wake.set()
        self.controller.stand()
        await self.follower.informed.wait()
        if self._is_unsound:
            await self._persistently(self._vouch)

    async def _vouch(self) -> None:
        """A controller has taken us out of the in-sync sets before it told us anything: from here
        on our logs are as good as our place in these sets (ADR 0032)."""
        if self._member is not None:
            await self._member.vouch()
        self._is_unsound = False
        self._attached().logs.begin_life(self.broker_epoch())

    async def leave(self) -> None:
        """Hand leadership over, then the office."""
        if self._member is None or self._links is None:
            return
        if self._session.state is SessionState.CONNECTED:
            await hand_over(self._ports, self._links, self.image, self.broker_epoch())
        await self.controller.stop()

    async def stop(self) -> None:
        """End the session: this broker's node is gone at once."""
        self._absence.end()
        if self._task is not None:
            self._task.cancel()
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
            self._connected.set()
            self._wake.set()
            if session_id == self._registered_session:
                self.controller.on_session(state)
            return
        self._absence.begin()
        if state is SessionState.EXPIRED:
            log.warning(
                "the session has ended: broker %d leads nothing until it is registered anew",
                self._ports.config.node_id,
            )
            self._registered_session = 0
            self._step_down()
        if self._controller is not None:
            self._controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        """Ours, or the controller's."""
        if event.path in NOTE_FOLDERS:
            self._notes_due = True
            self._wake.set()
        elif self._member is not None and event.path == self._member.path:
            self._wake.set()
        elif self._controller is not None:
            self._controller.on_watch(event)

    def _step_down(self) -> None:
        if self._rooms is not None and self._rooms.is_broker_started:
            self._rooms.replicas.resign_all()
        if self._follower is not None:
            self._follower.step_down()

    # -- keeping our place ------------------------------------------------------------------

    async def _run(self) -> None:
        """After each reconnect, and whenever a watch says so."""
        silence = Silence()
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._session.state is not SessionState.CONNECTED:
                continue
            now_s = self._ports.clock.monotonic()
            try:
                await self._keep_place()
                silence.ended(now_s)
                continue
            except ZooKeeperError as error:
                if silence.worth_saying(now_s):
                    log.info("left for later: %s", error)
            except (DuplicateBroker, znodes.ZnodeError) as error:
                if silence.worth_saying(now_s):
                    log.error("%s", error)
            self._ports.clock.call_later(RETRY_S, self._wake.set)

    async def _keep_place(self) -> None:
        member = self._member
        if member is None:
            return
        session_id = self._session.session_id
        if session_id != self._registered_session or not await member.watch_own_node():
            if session_id == self._registered_session:
                # Somebody has removed our node: for the others we have gone.
                log.warning("this broker's node was removed; it registers anew")
                self._step_down()
            await self._register()
            if not await member.watch_own_node():
                self._wake.set()  # removed again before it was watched
            self.controller.on_session(SessionState.CONNECTED)
            self.controller.stand()
        elif self._failure_due:
            await member.note_failed_directory()
            self._failure_due = False
            self._wake.set()
        elif self._notes_due:
            self._notes_due = False
            self.controller.on_notes(await member.take_notes())
        else:
            await member.read_configs()

    async def _register(self) -> None:
        check(self._member is not None, "join makes the member")
        session_id = self._session.session_id
        epoch = await self._member.register()  # type: ignore[union-attr]
        self._registered_session = session_id
        self.follower.registered(epoch)
        log.info("broker %d is registered, epoch %d", self._ports.config.node_id, epoch)
        await self._member.read_configs()  # type: ignore[union-attr]

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
        self._failure_due = True
        self._wake.set()

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
