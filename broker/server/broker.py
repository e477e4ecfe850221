"""One broker: its rooms put together, started in order and stopped in the reverse order.

In: configuration and the three ports. Out: a serving broker until `stop`.
Never: a rule of Kafka; and no room is reached around another.

Start (X-GAP-17, KRaft): directories and cluster id, metadata log replayed, logs loaded, replicas
and groups made from the image, the controller leads, listeners bound, broker registered and
unfenced. Stop: listeners, groups, replicas, logs with their clean-shutdown file, controller.
"""

from __future__ import annotations

import asyncio
import logging

from broker.clock.port import Clock, TaskHandle
from broker.config.views import BrokerConfig
from broker.controller.decisions import cluster
from broker.controller.decisions.cluster import Registration
from broker.disk.port import Disk
from broker.handlers.context import CloseClient, Session
from broker.metadata.image import Endpoint
from broker.metrics.registry import Metrics
from broker.network.connection import CloseConnection, Connection
from broker.network.http import MetricsConnection
from broker.network.limits import SWEEP_S
from broker.network.listener import Dispatch, Listener
from broker.network.port import Network, Server
from broker.network.responses import Slot
from broker.server.listeners import ListenerAddress, advertised, broker_listeners
from broker.server.rooms import Rooms, build_rooms, connection_limits
from broker.settings import ProcessSettings
from bus.errors import BusError

log = logging.getLogger("broker.server")


class Broker:
    """A broker with its own controller."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        disk: Disk,
        network: Network,
        settings: ProcessSettings | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.settings = settings or ProcessSettings()
        self.metrics = Metrics()
        self.addresses: list[ListenerAddress] = []
        self.metrics_port = -1
        self.disk = disk
        self.network = network
        self._listeners: list[Listener] = []
        self._http: Server | None = None
        self._tasks: list[TaskHandle] = []
        self._rooms: Rooms | None = None
        self._stopping = asyncio.Event()

    @property
    def rooms(self) -> Rooms:
        """The rooms of a started broker."""
        if self._rooms is None:
            raise RuntimeError("the broker has not been started")
        return self._rooms

    async def start(self) -> None:
        """Everything up to and including serving."""
        rooms = self._rooms = build_rooms(self)
        rooms.start()
        await self._listen(rooms)
        self._register(rooms)
        self._tasks = [
            self.clock.spawn(self._sweep_idle(), name="idle-connections"),
            self.clock.spawn(self._expire_offsets(), name="offsets-expiry"),
        ]
        log.info("broker %d of cluster %s serves", rooms.node_id, rooms.cluster_id)

    async def wait_for_stop_request(self) -> None:
        """Until `request_stop`."""
        await self._stopping.wait()

    def request_stop(self) -> None:
        """Ask for the end; may be called from a signal handler."""
        self._stopping.set()

    async def stop(self) -> None:
        """Stop cleanly: what was acknowledged is flushed, the next start need not recover."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            await listener.stop()
        if self._http is not None:
            await self._http.close()
        if self._rooms is not None:
            await self._rooms.stop()
        log.info("broker stopped")

    # -- parts of the start -----------------------------------------------------------

    async def _listen(self, rooms: Rooms) -> None:
        limits = connection_limits(self.config)
        config = self.config
        for wanted in broker_listeners(
            config["listeners"],
            config["controller.listener.names"] or (),
            config["listener.security.protocol.map"],
        ):
            listener = Listener(
                self.network,
                limits,
                _dispatcher(rooms, wanted.name),
                self.clock.monotonic,
                lambda callback: self.clock.call_later(0, callback),
            )
            port = await listener.start(wanted.host, wanted.port)
            self._listeners.append(listener)
            bound = ListenerAddress(wanted.name, wanted.host, port)
            self.addresses.append(advertised(bound, config["advertised.listeners"]))
        await self._listen_for_metrics()

    async def _listen_for_metrics(self) -> None:
        if self.settings.metrics_port < 0:
            return
        self.metrics.gauge(
            "socket-server-metrics",
            "connection-count",
            lambda: sum(listener.connection_count for listener in self._listeners),
        )
        self._http = await self.network.listen(
            self.settings.metrics_host,
            self.settings.metrics_port,
            lambda: MetricsConnection(self.metrics.text),
        )
        self.metrics_port = self._http.port

    def _register(self, rooms: Rooms) -> None:
        """Tell the controller that this broker is here, then that it serves."""
        controller = rooms.controller
        endpoints = tuple(Endpoint(one.name, one.host, one.port) for one in self.addresses)
        registration = Registration(
            broker_id=rooms.node_id,
            incarnation_id=self.clock.new_uuid(),
            endpoints=endpoints,
            log_dirs=tuple(sorted(rooms.logs.directory_ids.values())),
            rack=self.config["broker.rack"],
        )
        epoch = controller.end_offset
        controller.write(
            lambda image: cluster.register_broker(image, registration, epoch), _ignore
        )
        if not rooms.logs.was_clean:
            controller.write(
                lambda image: cluster.renew_leadership(image, rooms.node_id), _ignore
            )
        controller.write(lambda image: cluster.unfence_broker(image, rooms.node_id), _ignore)

    async def _sweep_idle(self) -> None:
        while True:
            await self.clock.sleep(SWEEP_S)
            for listener in self._listeners:
                listener.close_stalled()
                listener.close_idle()

    async def _expire_offsets(self) -> None:
        while True:
            await self.clock.sleep(self.config["offsets.retention.check.interval.ms"] / 1000)
            self.rooms.groups.expire()


def _ignore(_: object) -> None:
    """The reply of a decision that cannot fail."""


def _dispatcher(rooms: Rooms, listener_name: str) -> Dispatch:
    """The join of network and handlers: who asks, and what cannot be answered."""
    handle = rooms.dispatcher.dispatch

    def dispatch(frame: memoryview, connection: Connection, slot: Slot) -> None:
        session = connection.session
        if not isinstance(session, Session):
            session = connection.session = Session(connection.host, listener_name)
        try:
            handle(frame, session, slot.fill)
        except (CloseClient, BusError) as error:
            raise CloseConnection(str(error)) from error

    return dispatch
