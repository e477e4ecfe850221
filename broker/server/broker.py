"""One process of a cluster: its rooms put together, started in order and stopped in reverse.

In: configuration and the three ports. Out: a broker, a controller or both, until `stop`.
Never: a rule of Kafka; no room is reached around another; and nothing global, so that several
brokers live in one process of the simulation.

Start (X-GAP-17): whose cluster is it, directories, listeners bound but silent, the plane runs,
the controllers' listener answers, the broker registers, logs are loaded, replicas and groups made
from an image at or past the registration, clients are answered, the broker is unfenced. Stop:
leadership handed over, listeners, groups, replicas, the plane, logs with their clean-shutdown
file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.controller.zk.port import ZooKeeperSession
from broker.disk.port import Disk, DiskError
from broker.handlers.context import CloseClient, Session
from broker.handlers.dispatch import Dispatcher
from broker.handlers.sides import Side
from broker.log.directories import KRAFT_VERSION, ZOOKEEPER_VERSION
from broker.log.errors import LogError, is_of_the_device
from broker.log.manager import LogManager
from broker.metadata.image import Endpoint
from broker.metrics.registry import Metrics
from broker.network.connection import CloseConnection, Connection
from broker.network.http import MetricsConnection
from broker.network.limits import SWEEP_S, ConnectionLimits
from broker.network.listener import Dispatch, Listener, Shared
from broker.network.port import Network, Server
from broker.network.responses import Slot
from broker.server.gauges import BrokerState, ClusterGauges
from broker.server.listeners import ListenerAddress, advertised
from broker.server.plane import Plane, PlaneRooms, Ports, StartError
from broker.server.planes import make_plane
from broker.server.roles import roles_of
from broker.server.rooms import Rooms, build_rooms, connection_limits
from broker.settings import ProcessSettings
from bus.errors import BusError
from bus.protocol.frames import request_header
from bus.protocol.wire import ProtocolError

log = logging.getLogger("broker.server")
requests = logging.getLogger("broker.handlers")

NOBODY = -1


class Broker:
    """One process. Made, `start`ed, `stop`ped; dropped without `stop` it is a killed one."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        network: Network,
        settings: ProcessSettings | None = None,
        zookeeper: ZooKeeperSession | None = None,
    ) -> None:
        """`zookeeper` stands for the ensemble of `zookeeper.connect`; None: a session with it."""
        self.config = config
        self.clock = clock
        self.disk = disk
        self.network = network
        self.settings = settings or ProcessSettings()
        self.roles = roles_of(config)
        self.metrics = Metrics()
        self.addresses: list[ListenerAddress] = []
        self.controller_addresses: list[ListenerAddress] = []
        self.metrics_port = -1
        self._ports = Ports(
            config, self.settings, self.roles, clock, disk, network, self.metrics, zookeeper
        )
        self.plane: Plane = make_plane(self._ports)
        self._listeners: dict[Side, list[Listener]] = {}
        self._shared = Shared(clock.monotonic, self._soon)
        self._http: Server | None = None
        self._limits: tuple[BrokerConfig, ConnectionLimits] | None = None
        self._tasks: list[TaskHandle] = []
        self._logs: LogManager | None = None
        self._logs_requests = False
        self._rooms: Rooms | None = None
        self._plane_rooms: PlaneRooms | None = None
        self.failure: StartError | None = None
        self._stopping = asyncio.Event()
        self._state = BrokerState.STARTING

    @property
    def rooms(self) -> Rooms:
        """The rooms of a started broker."""
        if self._rooms is None:
            raise RuntimeError("the broker has not been started")
        return self._rooms

    async def start(self) -> None:
        """Everything up to and including serving; waits as long as the controllers are away. Raises
        StartError and others of `process.OPERATOR_ERRORS`."""
        try:
            await self._start()
        except (DiskError, LogError) as error:
            cause = error if isinstance(error, DiskError) else error.__cause__
            if not isinstance(cause, DiskError) or not is_of_the_device(cause):
                raise
            raise StartError(
                f"the disk of node {self.config.node_id} refuses what it cannot start without: "
                f"{cause}; mend or replace the disk, then start it again"
            ) from error

    async def _start(self) -> None:
        rooms = await self._make_rooms()
        await self._listen(rooms)
        await self.plane.start(self._endpoints(self.controller_addresses))
        self._open(Side.CONTROLLER)
        self._tasks.append(self.clock.spawn(self._sweep_idle(), name="idle-connections"))
        if self.roles.broker:
            await self._start_broker(rooms)
        self.disk.begin_service()
        self._state = BrokerState.RUNNING
        log.info("node %d of cluster %s serves", rooms.node_id, rooms.cluster_id)

    async def wait_for_stop_request(self) -> None:
        """Until `request_stop`."""
        await self._stopping.wait()

    @property
    def is_stopping(self) -> bool:
        """Whether the end was asked for."""
        return self._stopping.is_set()

    def request_stop(self) -> None:
        """Ask for the end; may be called from a signal handler."""
        self._stopping.set()

    def _fail(self, error: StartError) -> None:
        """End in order, for a reason that an operator must mend; the first reason counts."""
        if self.failure is None:
            log.error("%s", error)
            self.failure = error
        self._stopping.set()

    async def stop(self) -> None:
        """Stop cleanly: what was acknowledged is flushed, the next start need not recover."""
        self._state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        await self.plane.leave()
        for task in self._tasks:
            task.cancel()
        await self._close(self.roles.client_side)
        if self._http is not None:
            await self._http.close()
        if self._rooms is not None:
            await self._rooms.stop_broker()
        self.disk.end_service()
        await self.plane.stop()
        await self._close(Side.CONTROLLER)
        if self._rooms is not None and self._rooms.is_broker_started:
            await self._rooms.logs.stop(self.plane.vouched_epoch())
        elif self._logs is not None:
            self._logs.let_go()
        log.info("node %d stopped", self.config.node_id)

    # -- parts of the start -----------------------------------------------------------

    async def _make_rooms(self) -> Rooms:
        cluster_id = await self.plane.open()
        logs = LogManager(config=self.config, disk=self.disk, clock=self.clock)
        version = ZOOKEEPER_VERSION if self.roles.zookeeper else KRAFT_VERSION
        logs.prepare(cluster_id, version=version)
        self._logs = logs
        flushes = self.metrics.histogram("LogFlushStats", "LogFlushRateAndTimeMs")
        logs.on_flushed = flushes.update
        logs.volumes.measure(self.metrics)
        logs.scrub.measure(self.metrics)
        self.plane.prepare(logs)
        rooms = self._rooms = build_rooms(self._ports, self.plane, logs)
        rooms.begin()
        self._plane_rooms = PlaneRooms(
            logs=logs,
            publisher=rooms.publisher,
            services=rooms.services,
            replicas=rooms.replicas,
            groups=rooms.groups,
            local_call=rooms.dispatchers[self.roles.controller_side].call,
            fail=self._fail,
        )
        self.plane.attach(self._plane_rooms)
        ClusterGauges(
            self.metrics, self.plane.controller, lambda: rooms.services.image,
            lambda: self._state, lambda: len(rooms.groups.groups()),
        )  # fmt: skip
        return rooms

    async def _start_broker(self, rooms: Rooms) -> None:
        await self.plane.join(self._endpoints(self.addresses))
        rooms.logs.dirs.begin_life(self.plane.vouched_epoch())
        await rooms.start_broker(self.plane)
        if self._plane_rooms is not None:
            self._plane_rooms.is_broker_started = True
        self._open(self.roles.client_side)
        self._tasks.append(self.clock.spawn(self._expire_offsets(), name="offsets-expiry"))
        await self.plane.serve()

    async def _listen(self, rooms: Rooms) -> None:
        for side, wanted, told in (
            (Side.CONTROLLER, self.roles.controller_listeners, self.controller_addresses),
            (self.roles.client_side, self.roles.broker_listeners, self.addresses),
        ):
            for one in wanted:
                listener = self._listener(rooms.dispatchers[side], side, one.name)
                port = await listener.start(one.host, one.port, held=True)
                self._listeners.setdefault(side, []).append(listener)
                bound = ListenerAddress(one.name, one.host, port)
                told.append(advertised(bound, self.config["advertised.listeners"]))
        await self._listen_for_metrics()

    def _listener(self, dispatcher: Dispatcher, side: Side, name: str) -> Listener:
        return Listener(
            self.network,
            self._connection_limits,
            _dispatch(dispatcher, side, name),
            self.clock.monotonic,
            self._soon,
            self._connection_closed,
            self._shared,
            is_for_brokers=side is Side.CONTROLLER or self._is_among_brokers(name),
        )

    def _connection_limits(self) -> ConnectionLimits:
        """Read once per configuration, for thousands of connections may come in a second."""
        config = self.rooms.services.config
        if self._limits is None or self._limits[0] is not config:
            self._limits = (config, connection_limits(config))
        return self._limits[1]

    def _soon(self, callback: Callable[[], None]) -> object:
        return self.clock.call_later(0, callback)

    def _is_among_brokers(self, name: str) -> bool:
        """Whether clients have another listener than the one the brokers use among themselves."""
        return (
            name == self.config["inter.broker.listener.name"]
            and len(self.roles.broker_listeners) > 1
        )

    async def _listen_for_metrics(self) -> None:
        if self.settings.metrics_port < 0:
            return
        self.metrics.gauge(
            "socket-server-metrics",
            "connection-count",
            lambda: sum(one.connection_count for one in self._all_listeners()),
        )
        self.metrics.gauge(
            "socket-server-metrics",
            "unread-response-bytes",
            lambda: self._shared.client_memory.used_bytes,
        )
        self._http = await self.network.listen(
            self.settings.metrics_host,
            self.settings.metrics_port,
            lambda: MetricsConnection(self.metrics.text),
        )
        self.metrics_port = self._http.port

    def _open(self, side: Side) -> None:
        for listener in self._listeners.get(side, ()):
            listener.open()

    async def _close(self, side: Side) -> None:
        for listener in self._listeners.pop(side, ()):
            await listener.stop()

    def _all_listeners(self) -> list[Listener]:
        return [one for listeners in self._listeners.values() for one in listeners]

    def _endpoints(self, addresses: list[ListenerAddress]) -> tuple[Endpoint, ...]:
        return tuple(Endpoint(one.name, one.host, one.port) for one in addresses)

    def _connection_closed(self, connection: Connection) -> None:
        """A broker's connection to the active controller is gone: news for a probe."""
        session = connection.session
        if isinstance(session, Session) and session.broker_id != NOBODY:
            services = self.rooms.services
            if services.connection_lost is not None:
                services.connection_lost(session.broker_id)
            elif services.active is not None:
                services.active.connection_lost(session.broker_id)

    async def _sweep_idle(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_S)
            for listener in self._all_listeners():
                listener.close_stalled()
                listener.close_unread()
                listener.close_idle()
            self._log_requests(requests.isEnabledFor(logging.DEBUG))

    def _log_requests(self, wanted: bool) -> None:
        """Put the log in front of the dispatchers, or take it away: unlogged requests pay nothing
        for the question whether they are logged."""
        if wanted is self._logs_requests:
            return
        self._logs_requests = wanted
        for listener in self._all_listeners():
            if wanted:
                listener.dispatch = _logged(listener.dispatch)
            else:
                listener.dispatch = listener.dispatch.__wrapped__  # type: ignore[attr-defined]

    async def _expire_offsets(self) -> None:
        while True:
            await self.clock.sleep(self.config["offsets.retention.check.interval.ms"] / 1000)
            self.rooms.groups.expire()


def _logged(dispatch: Dispatch) -> Dispatch:
    """A line in request.log for each request, then the request."""

    @wraps(dispatch)
    def log_and_dispatch(frame: memoryview, connection: Connection, slot: Slot) -> None:
        with suppress(ProtocolError):  # the dispatcher says what is wrong with it
            header, _ = request_header(frame)
            requests.debug(
                "%s: api %d version %d correlation %d client %s, %d bytes", connection.host,
                header.api_key, header.api_version, header.correlation_id, header.client_id,
                len(frame),
            )  # fmt: skip
        dispatch(frame, connection, slot)

    return log_and_dispatch


def _dispatch(dispatcher: Dispatcher, side: Side, listener_name: str) -> Dispatch:
    """The join of network and handlers: who asks, and what cannot be answered."""
    handle = dispatcher.dispatch

    def dispatch(frame: memoryview, connection: Connection, slot: Slot) -> None:
        session = connection.session
        if not isinstance(session, Session):
            session = connection.session = Session(
                connection.host, listener_name, side=side, line=connection,
                hang_up=partial(connection.abort, "its request cannot be answered"),
            )  # fmt: skip
        try:
            handle(frame, session, slot.fill)
        except (CloseClient, BusError) as error:
            raise CloseConnection(str(error)) from error

    return dispatch
