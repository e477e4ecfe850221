"""One process of a cluster: its components, started in a fixed sequence and stopped in reverse.

In: configuration and the ports. Out: a broker, a controller or both, until `stop`.
Never: a rule of Kafka; access to a component around another; anything global, so that several
brokers can run in one process of the simulation.

Start (X-GAP-17): cluster id, directories, listeners bound but silent, control plane, the
controllers' listener serves, the broker registers, logs are loaded, replicas and groups are created
from an image at or past the registration, clients are served, the broker is unfenced. Stop:
leadership moves to others, listeners, groups, replicas, control plane, logs with their
clean-shutdown file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from broker.cleaner_process.port import CleanerProcess
from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.controller.zk.port import ZooKeeperSession
from broker.disk.port import Disk, DiskError
from broker.handlers.dispatch import Dispatcher
from broker.handlers.listener_type import ListenerType
from broker.log.errors import LogError, is_device_failure
from broker.log.log_dir_files import KRAFT_VERSION, ZOOKEEPER_VERSION
from broker.log.manager import LogManager
from broker.metadata.image import Endpoint
from broker.metrics.registry import Metrics
from broker.network.connection import Connection
from broker.network.limits import SWEEP_S, ConnectionLimits
from broker.network.listener import Dispatch, Listener, SharedResources
from broker.network.plain_clients import PLAIN_CLIENTS_PAGE, PlainClients
from broker.network.port import HttpsPort, Network, Server, TlsPort
from broker.network.responses import ResponseSlot
from broker.network.shared_port import SharedPort
from broker.security.session import NO_BROKER, AuthenticationState
from broker.server.assembly import (
    Components,
    build_components,
    connection_limits,
    make_control_plane,
    socket_buffers,
)
from broker.server.client_quotas import is_among_brokers
from broker.server.cluster_metrics import BrokerState, ClusterMetrics
from broker.server.control_plane import ControlPlane, ControlPlaneDeps, Runtime, StartError
from broker.server.creation_limits import CreationLimits, protected_listeners
from broker.server.listeners import ListenerAddress, advertised
from broker.server.process_tls import ProcessTls
from broker.server.process_tokens import ProcessTokens
from broker.server.roles import roles_of
from broker.settings import ProcessSettings
from bus.errors import BusError, CloseConnection
from bus.metrics.page import MetricsConnection
from bus.protocol.apis import ApiKey
from bus.protocol.frames import request_header
from bus.protocol.wire import ProtocolError

log = logging.getLogger("broker.server")
requests = logging.getLogger("broker.handlers")

REFRESH_TLS_S = 1.0
"""How often is looked whether certificates have changed."""


class Broker:
    """One process: created, `start`ed, `stop`ped. Dropped without `stop` it is a killed one."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        network: Network,
        settings: ProcessSettings | None = None,
        zookeeper: ZooKeeperSession | None = None,
        cleaner_process: CleanerProcess | None = None,
        tls: TlsPort | None = None,
        https: HttpsPort | None = None,
    ) -> None:
        """`zookeeper` replaces the session with the ensemble of `zookeeper.connect`; without
        `cleaner_process` no log is cleaned, without `tls` no listener may ask for it."""
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
        self._shared = SharedResources(clock.monotonic, clock.call_later)
        self._components: Components | None = None
        self._tls = ProcessTls(
            self._newest_config, self.roles, tls, network, clock, self._shared.client_log
        )
        self._tokens = ProcessTokens(config, self.roles.logins, tls, https, clock, disk)
        self._runtime = Runtime(
            config, self.settings, self.roles, clock, disk, network, self.metrics,
            self._tokens.judge, zookeeper,
            cleaner_process, self._tls.peer_connector, self._tls.controller_connector, tls,
        )  # fmt: skip
        self.control_plane: ControlPlane = make_control_plane(self._runtime)
        self._listeners: dict[ListenerType, list[Listener]] = {}
        self._dispatches: dict[Listener, Dispatch] = {}
        self._shared_ports = {
            address: SharedPort(network, clock.monotonic)
            for address in sorted(self.roles.shared_addresses)
        }
        self._plain_clients = PlainClients(
            clock.monotonic,
            lambda: (one for listener in self._all_listeners() for one in listener.connections),
        )
        self._metrics_server: Server | None = None
        self._limits: tuple[BrokerConfig, ConnectionLimits] | None = None
        self._creation: dict[bool, CreationLimits] = {}
        self._tasks: list[TaskHandle] = []
        self._logs: LogManager | None = None
        self._logs_requests = False
        self._deps: ControlPlaneDeps | None = None
        self.failure: StartError | None = None
        self._stopping = asyncio.Event()
        self._state = BrokerState.STARTING

    @property
    def components(self) -> Components:
        """The components of a started broker."""
        if self._components is None:
            raise RuntimeError("the broker has not been started")
        return self._components

    def _newest_config(self) -> BrokerConfig:
        return self.config if self._components is None else self._components.metadata.config

    async def start(self) -> None:
        """Start everything, up to serving; waits while no controller is available. Raises
        StartError and others of `process.OPERATOR_ERRORS`."""
        try:
            await self._start()
        except (DiskError, LogError) as error:
            cause = error if isinstance(error, DiskError) else error.__cause__
            if not isinstance(cause, DiskError) or not is_device_failure(cause):
                raise
            raise StartError(
                f"the disk of node {self.config.node_id} refuses what it cannot start without: "
                f"{cause}; repair or replace the disk, then start it again"
            ) from error

    async def _start(self) -> None:
        components = await self._build_components()
        await self._listen(components)
        await self._tokens.load()
        await self.control_plane.start(self._endpoints(self.controller_addresses))
        self._open(ListenerType.CONTROLLER)
        self._tasks.append(self.clock.spawn(self._sweep_idle(), name="idle-connections"))
        if self._tls.is_used:
            self._tasks.append(self.clock.spawn(self._refresh_tls(), name="certificates"))
        for listener in self._tokens.listeners:
            refresh = self._tokens.refresh_always(listener)
            self._tasks.append(self.clock.spawn(refresh, name=f"keys-{listener}"))
        if self.roles.broker:
            await self._start_broker(components)
        self.disk.begin_service()
        self._state = BrokerState.RUNNING
        log.info("node %d of cluster %s serves", components.node_id, components.cluster_id)

    async def wait_for_stop_request(self) -> None:
        """Wait until `request_stop`."""
        await self._stopping.wait()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested."""
        return self._stopping.is_set()

    def request_stop(self) -> None:
        """Request the stop; may be called from a signal handler."""
        self._stopping.set()

    def _fail(self, error: StartError) -> None:
        """Stop cleanly because of an error that an operator must fix; the first error counts."""
        if self.failure is None:
            log.error("%s", error)
            self.failure = error
        self._stopping.set()

    async def stop(self) -> None:
        """Stop cleanly: what was acknowledged is flushed, the next start need not recover."""
        self._state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        await self.control_plane.controlled_shutdown()
        for task in self._tasks:
            task.cancel()
        await self._close(self.roles.client_listener_type)
        if self._metrics_server is not None:
            await self._metrics_server.close()
        if self._components is not None:
            await self._components.stop_broker()
        self.disk.end_service()
        await self.control_plane.stop()
        await self._close(ListenerType.CONTROLLER)
        if self._components is not None and self._components.is_broker_started:
            await self._components.logs.stop(self.control_plane.verified_epoch())
        elif self._logs is not None:
            self._logs.release()
        log.info("node %d stopped", self.config.node_id)

    # -- parts of the start -----------------------------------------------------------

    async def _build_components(self) -> Components:
        cluster_id = await self.control_plane.open()
        logs = LogManager(config=self.config, disk=self.disk, clock=self.clock)
        version = ZOOKEEPER_VERSION if self.roles.zookeeper else KRAFT_VERSION
        logs.prepare(cluster_id, version=version)
        self._logs = logs
        flushes = self.metrics.histogram("LogFlushStats", "LogFlushRateAndTimeMs")
        logs.on_flushed = flushes.update
        logs.volumes.register_metrics(self.metrics)
        logs.scrubber.register_metrics(self.metrics)
        self.control_plane.prepare(logs)
        components = self._components = build_components(self._runtime, self.control_plane, logs)
        components.subscribe()
        self._deps = ControlPlaneDeps(
            logs=logs,
            publisher=components.publisher,
            metadata=components.metadata,
            replicas=components.replicas,
            local_call=components.dispatchers[self.roles.controller_listener_type].call,
            fail=self._fail,
        )
        self.control_plane.attach(self._deps)
        ClusterMetrics(
            self.metrics, self.control_plane.controller, lambda: components.metadata.image,
            lambda: self._state, lambda: len(components.coordinators.groups.groups()),
        )  # fmt: skip
        return components

    async def _start_broker(self, components: Components) -> None:
        await self.control_plane.join(self._endpoints(self.addresses))
        components.logs.dirs.begin_boot_marker(self.control_plane.verified_epoch())
        await components.start_broker(self.control_plane)
        if self._deps is not None:
            self._deps.is_broker_started = True
        self._open(self.roles.client_listener_type)
        self._tasks.append(self.clock.spawn(self._expire_offsets(), name="offsets-expiry"))
        await self.control_plane.serve()

    async def _listen(self, components: Components) -> None:
        buffers = socket_buffers(self.config)
        for side, wanted, told in (
            (ListenerType.CONTROLLER, self.roles.controller_listeners, self.controller_addresses),
            (self.roles.client_listener_type, self.roles.broker_listeners, self.addresses),
        ):
            for one in wanted:
                kind = side if side is ListenerType.CONTROLLER else self.roles.type_of(one.name)
                listener = self._listener(components.dispatchers[kind], kind, one)
                port = await listener.start(one.host, one.port, held=True, buffers=buffers)
                self._listeners.setdefault(side, []).append(listener)
                bound = replace(one, port=port)
                told.append(advertised(bound, self.config["advertised.listeners"]))
        await self._listen_for_metrics()

    def _listener(
        self, dispatcher: Dispatcher, side: ListenerType, address: ListenerAddress
    ) -> Listener:
        dispatch = _dispatch(dispatcher)
        if address.protocol.has_sasl:
            dispatch = _within_session(dispatch, self.clock.monotonic)
        shared = self._shared_ports.get((address.host, address.port))
        listener = Listener(
            shared.endpoint(has_tls=address.protocol.has_tls) if shared else self.network,
            self._connection_limits,
            dispatch,
            self.clock.monotonic,
            self.clock.call_later,
            self._connection_closed,
            self._shared,
            name=address.name,
            protocol=address.protocol,
            is_for_brokers=side is ListenerType.CONTROLLER
            or is_among_brokers(self.config, self.roles, address.name),
            connection_rates=(
                None
                if address.name in self.components.client_quotas.exempt_listeners
                else self.components.connection_rates
            ),
            creation_bounds=self._creation_limits(side),
            tls=self._tls.servers.get(address.name),
            handshakes=(
                self.metrics.meter("socket-server-metrics", "tls-handshakes",
                                   listener=address.name),
                self.metrics.meter("socket-server-metrics", "tls-handshakes-failed",
                                   listener=address.name),
            ) if address.protocol.has_tls else None,
        )  # fmt: skip
        self._dispatches[listener] = dispatch
        return listener

    def _creation_limits(self, side: ListenerType) -> CreationLimits:
        """Of the controller's listeners, or of those of clients and brokers: each kind for itself,
        as in Kafka."""
        is_controllers = side is ListenerType.CONTROLLER
        if is_controllers not in self._creation:
            roles = self.roles
            throttled = self.metrics.meter("quota", "throttled", resource="ConnectionCreation")
            self._creation[is_controllers] = CreationLimits(
                self._newest_config,
                roles.controller_listeners if is_controllers else roles.broker_listeners,
                () if is_controllers else protected_listeners(self.config, roles),
                throttled.mark,
            )
        return self._creation[is_controllers]

    def _connection_limits(self) -> ConnectionLimits:
        """Computed once per configuration: thousands of connections may arrive in a second."""
        config = self.components.metadata.config
        if self._limits is None or self._limits[0] is not config:
            self._limits = (config, connection_limits(config))
        return self._limits[1]

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
        self._metrics_server = await self.network.listen(
            self.settings.metrics_host,
            self.settings.metrics_port,
            lambda: MetricsConnection(
                self.metrics.text,
                {PLAIN_CLIENTS_PAGE: self._plain_clients.page},
                page_token=self.settings.metrics_token,
            ),
        )
        self.metrics_port = self._metrics_server.port

    def _open(self, side: ListenerType) -> None:
        for listener in self._listeners.get(side, ()):
            listener.open()

    async def _close(self, side: ListenerType) -> None:
        for listener in self._listeners.pop(side, ()):
            await listener.stop()

    def _all_listeners(self) -> list[Listener]:
        return [one for listeners in self._listeners.values() for one in listeners]

    def _endpoints(self, addresses: list[ListenerAddress]) -> tuple[Endpoint, ...]:
        return tuple(
            Endpoint(one.name, one.host, one.port, one.protocol.value) for one in addresses
        )

    def _connection_closed(self, connection: Connection) -> None:
        """A connection is gone; of a broker's to the active controller: probe that broker."""
        self._plain_clients.on_closed(connection)
        broker_id = connection.session.broker_id
        if broker_id != NO_BROKER:
            self.control_plane.connection_lost(broker_id)

    async def _sweep_idle(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_S)
            for listener in self._all_listeners():
                listener.close_stalled()
                listener.close_unread()
                listener.close_idle()
                listener.close_unknown()
            for shared in self._shared_ports.values():
                shared.close_silent()
            self._log_requests(requests.isEnabledFor(logging.DEBUG))

    async def _refresh_tls(self) -> None:
        while True:
            await self.clock.sleep(REFRESH_TLS_S)
            await self.disk.run(self._tls.refresh)

    def _log_requests(self, wanted: bool) -> None:
        """Put the request log in front of the dispatchers, or take it away: requests that are not
        logged do not even pay for the check."""
        if wanted is self._logs_requests:
            return
        self._logs_requests = wanted
        for listener, dispatch in self._dispatches.items():
            listener.dispatch = _logged(dispatch) if wanted else dispatch

    async def _expire_offsets(self) -> None:
        while True:
            await self.clock.sleep(self.config["offsets.retention.check.interval.ms"] / 1000)
            await self.components.coordinators.groups.expire()


def _logged(dispatch: Dispatch) -> Dispatch:
    """Write a line to request.log for each request, then dispatch it."""

    def log_and_dispatch(frame: memoryview, connection: Connection, slot: ResponseSlot) -> None:
        with suppress(ProtocolError):  # the dispatcher says what is wrong with it
            header, _ = request_header(frame)
            requests.debug(
                "%s: api %d version %d correlation %d client %s, %d bytes", connection.host,
                header.api_key, header.api_version, header.correlation_id, header.client_id,
                len(frame),
            )  # fmt: skip
        dispatch(frame, connection, slot)

    return log_and_dispatch


def _within_session(dispatch: Dispatch, monotonic: Callable[[], float]) -> Dispatch:
    """Of a listener with SASL: after the end of its session a client may only renew it
    (KIP-368)."""

    def dispatch_within_session(
        frame: memoryview, connection: Connection, slot: ResponseSlot
    ) -> None:
        session = connection.session
        if (
            monotonic() >= session.expires_at
            and session.state is AuthenticationState.AUTHENTICATED
            and request_header(frame)[0].api_key != ApiKey.SASL_HANDSHAKE
        ):
            raise CloseConnection("its session has ended, and its client did not renew it")
        dispatch(frame, connection, slot)

    return dispatch_within_session


def _dispatch(dispatcher: Dispatcher) -> Dispatch:
    """Connects network and handlers: typed errors close the connection."""
    handle = dispatcher.dispatch

    def dispatch(frame: memoryview, connection: Connection, slot: ResponseSlot) -> None:
        try:
            handle(frame, connection, slot.set)
        except BusError as error:
            raise CloseConnection(str(error)) from error

    return dispatch
