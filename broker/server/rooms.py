"""The rooms of one broker and how they are joined.

In: the broker's configuration, its ports and its plane. Out: `Rooms`. Never: listening, and no
rule of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.config.checks import numbers_by_address
from broker.config.views import BrokerConfig
from broker.controller.decisions.topics import Defaults
from broker.controller.port import Controller
from broker.controller.producer_ids import ProducerIds
from broker.coordinator.appender import OFFSETS_TOPIC, Appender
from broker.coordinator.service import GroupCoordinator
from broker.coordinator.shard import GroupLimits
from broker.handlers.auto_topics import AutoTopics
from broker.handlers.context import Services
from broker.handlers.dispatch import Dispatcher
from broker.handlers.forward import Forwarder
from broker.handlers.sides import Side
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.departures import Departures
from broker.metadata.image import MetadataImage, ResourceType
from broker.metadata.publisher import Publisher
from broker.network.limits import ConnectionLimits
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.replica.port import Cluster
from broker.security.authorizer import Authorizer
from broker.server.links import Links
from broker.server.plane import Plane, Ports, everything
from broker.server.stored_configs import StoredConfigs
from broker.server.subscribers import GroupSubscriber, ReplicaSubscriber

RECEIVE_BUDGET_BYTES = 64 * 1024 * 1024
"""Half-received requests of all clients together, where `queued.max.request.bytes` sets nothing:
Kafka then sets no limit, which a broker meant for 150 MB cannot afford."""

_MINUTE_MS = 60_000


@dataclass(slots=True)
class Rooms:
    """One process' rooms. In one that is a controller only those of a broker are never started.

    Invariant: `is_broker_started` from the moment at which the publisher's subscribers know an
    image; before it nobody tells them of changes.
    """

    node_id: int
    cluster_id: str
    timer: Timer
    logs: LogManager
    replicas: ReplicaManager
    controller: Controller
    groups: GroupCoordinator
    services: Services
    dispatchers: dict[Side, Dispatcher]
    publisher: Publisher
    stored_configs: StoredConfigs
    links: Links
    forwarder: Forwarder
    is_broker_started: bool = False

    def begin(self) -> None:
        """Hear of metadata: every process acts on configurations."""
        self.publisher.subscribe(self._put_image)
        self.publisher.subscribe(self._apply_dynamic_config)

    async def start_broker(self, plane: Plane) -> None:
        """Load the logs, then become what the newest image says."""
        self._apply_dynamic_config(everything(plane.image))
        # On a worker thread: recovering gigabytes must not keep a quorum's voter from voting.
        await self.logs.disk.run(self.logs.load, self.services.topic_config)
        for directory, error in self.logs.dirs.failed.items():
            self.replicas.take_offline(directory, error)
        whole = everything(plane.image)
        if plane.knows_topics_at_join:
            self.replicas.remove_strays(whole.image)
        self.publisher.subscribe(
            ReplicaSubscriber(
                self.node_id, self.replicas, self.services.topic_config, self.publisher.failed
            )
        )
        self.publisher.subscribe(GroupSubscriber(self.replicas, self.groups))
        self.publisher.subscribe(self.services.departures)
        self.publisher.publish(whole)
        self.is_broker_started = True
        self.logs.start()
        self.replicas.start()

    async def stop_broker(self) -> None:
        """Serve no more."""
        self.timer.stop()
        self.forwarder.stop()
        if self.is_broker_started:
            await self.groups.stop()
            await self.replicas.stop()
        self.links.close()

    def _put_image(self, changes: Changes) -> None:
        """Handlers and rooms see one and the same image."""
        self.services.image = changes.image

    def _apply_dynamic_config(self, changes: Changes) -> None:
        """What operators set while brokers run is in force at once."""
        if any(kind is ResourceType.BROKER for kind, _ in changes.changed_configs):
            configs, before = changes.image.configs, self.services.config
            self.services.config = self.stored_configs.broker(
                self.services.config,
                configs.get((ResourceType.BROKER, ""), {}),
                configs.get((ResourceType.BROKER, str(self.node_id)), {}),
            )
            self.services.config.warn_of_new(before)
            self.logs.config = self.services.config
            self.replicas.throttles.reconfigure(self.services.config)


def build_rooms(ports: Ports, plane: Plane, logs: LogManager) -> Rooms:
    """Make every room of a broker; nothing is started yet."""
    clock, roles = ports.clock, ports.roles
    timer, departures = Timer(clock), Departures(clock)
    dispatchers: dict[Side, Dispatcher] = {}
    links = Links(
        ports.network,
        clock,
        ports.config,
        plane,
        lambda: services.image,
        lambda key, body: dispatchers[roles.controller_side].call(key, body),
        departures.connection_lost,
    )
    forwarder = Forwarder(
        clock,
        links.to_controller("forwarding", pipelined=True),
        lambda: services.config["request.timeout.ms"],
    )
    replicas = _replicas(ports, plane, logs, links, timer, lambda: services.image)
    groups = _groups(ports, replicas, timer, lambda: services.image)
    stored, publisher = StoredConfigs(), Publisher()
    services = _services(
        ports, plane, logs, links, forwarder, dispatchers, replicas, groups, departures, stored
    )
    ports.metrics.gauge(
        "broker-metadata-metrics", "metadata-apply-error-count",
        lambda: publisher.errors + len(stored.refused),
    )  # fmt: skip
    for side in roles.sides:
        dispatchers[side] = Dispatcher(services, ports.metrics, side)
    return Rooms(
        node_id=ports.config.node_id,
        cluster_id=logs.cluster_id,
        timer=timer,
        logs=logs,
        replicas=replicas,
        controller=plane.controller,
        groups=groups,
        services=services,
        dispatchers=dispatchers,
        publisher=publisher,
        stored_configs=stored,
        links=links,
        forwarder=forwarder,
    )


def _replicas(
    ports: Ports,
    plane: Plane,
    logs: LogManager,
    links: Links,
    timer: Timer,
    image: Callable[[], MetadataImage],
) -> ReplicaManager:
    replicas = ReplicaManager(
        broker_id=ports.config.node_id,
        log_manager=logs,
        clock=ports.clock,
        timer=timer,
        metrics=ports.metrics,
    )
    if not ports.roles.alone:
        replicas.join(
            Cluster(
                channel=links.to_broker,
                controllers=links.to_controller("alter-partition"),
                broker_epoch=plane.broker_epoch,
                image=image,
            )
        )
    return replicas


def _groups(
    ports: Ports, replicas: ReplicaManager, timer: Timer, image: Callable[[], MetadataImage]
) -> GroupCoordinator:
    config = ports.config
    return GroupCoordinator(
        appender=Appender(replicas, ports.clock, config["offsets.commit.timeout.ms"]),
        timer=timer,
        clock=ports.clock,
        limits=group_limits(config),
        partition_count=lambda: offsets_partitions(image(), config),
    )


def _services(
    ports: Ports,
    plane: Plane,
    logs: LogManager,
    links: Links,
    forwarder: Forwarder,
    dispatchers: dict[Side, Dispatcher],
    replicas: ReplicaManager,
    groups: GroupCoordinator,
    departures: Departures,
    stored: StoredConfigs,
) -> Services:
    """What handlers walk down to."""
    config, clock, disk = ports.config, ports.clock, ports.disk
    requests = links.to_controller("requests", pipelined=True)
    services = Services(
        node_id=config.node_id,
        config=config,
        clock=clock,
        controller=plane.controller,
        replicas=replicas,
        logs=logs,
        groups=groups,
        producer_ids=ProducerIds(requests, clock, config.node_id, plane.broker_epoch),
        authorizer=Authorizer(),
        topic_defaults=lambda: topic_defaults(services),
        topic_config=lambda name: stored.topic(
            services.config, name, services.image.topic_config(name)
        ),
        volume_bytes=lambda path: (disk.total_bytes(path), disk.free_bytes(path)),
        image=plane.controller.committed,
        forward=forwarder.forward,
        dispatch_inner=lambda frame, session, fill: dispatchers[Side.CONTROLLER].dispatch(
            frame, session, fill
        ),
        link=requests,
        departures=departures,
        auto_topics=AutoTopics(clock, requests),
        site_number=ports.settings.site_number,
        is_alone=ports.roles.alone,
    )
    return services


def topic_defaults(services: Services) -> Defaults:
    """What -1 means for a new topic."""
    return Defaults(
        partitions=services.config["num.partitions"],
        replication_factor=services.config["default.replication.factor"],
    )


def offsets_partitions(image: MetadataImage, config: BrokerConfig) -> int:
    """How many partitions `__consumer_offsets` has, or will have."""
    topic = image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return int(config["offsets.topic.num.partitions"])
    return len(topic.partitions)


def group_limits(config: BrokerConfig) -> GroupLimits:
    """The group coordinator's part of the configuration."""
    return GroupLimits(
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        max_size=config["group.max.size"],
        offsets_retention_ms=config["offsets.retention.minutes"] * _MINUTE_MS,
        max_metadata_bytes=config["offset.metadata.max.bytes"],
    )


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    """The network's part of the configuration."""
    queued = config["queued.max.request.bytes"]
    return ConnectionLimits(
        max_request_bytes=config["socket.request.max.bytes"],
        max_idle_ms=config["connections.max.idle.ms"],
        max_connections=config["max.connections"],
        max_connections_per_ip=config["max.connections.per.ip"],
        of_address=numbers_by_address(config["max.connections.per.ip.overrides"]),
        receive_budget_bytes=RECEIVE_BUDGET_BYTES if queued < 0 else queued,
    )
