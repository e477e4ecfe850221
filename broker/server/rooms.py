"""The rooms of one broker and how they are joined.

In: the broker's configuration and ports. Out: `Rooms`. Never: listening, and no rule of Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.controller import SingleVoterController
from broker.controller.decisions.topics import Defaults
from broker.controller.kraft.metadata_log import MetadataLog, VoterIdentity
from broker.controller.port import Controller
from broker.controller.producer_ids import ProducerIds
from broker.coordinator.appender import OFFSETS_TOPIC, Appender
from broker.coordinator.service import GroupCoordinator
from broker.coordinator.shard import GroupLimits
from broker.handlers.context import Services
from broker.handlers.dispatch import Dispatcher
from broker.handlers.forward import Forwarder
from broker.handlers.sides import Side
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import ResourceType
from broker.metadata.publisher import Publisher
from broker.network.limits import ConnectionLimits
from broker.peer.controller_link import ControllerLink, Route
from broker.purgatory.timer import Timer
from broker.replica.manager import ReplicaManager
from broker.security.authorizer import Authorizer
from broker.server.subscribers import GroupSubscriber, ReplicaSubscriber

if TYPE_CHECKING:
    from broker.server.broker import Broker

RECEIVE_BUDGET_BYTES = 64 * 1024 * 1024
"""Half-received requests of all clients together, where `queued.max.request.bytes` sets nothing:
Kafka then sets no limit, which a broker meant for 150 MB cannot afford."""

_MINUTE_MS = 60_000


@dataclass(slots=True)
class Rooms:
    """One broker's rooms."""

    node_id: int
    cluster_id: str
    root: str
    voter: VoterIdentity
    timer: Timer
    logs: LogManager
    replicas: ReplicaManager
    controller: SingleVoterController
    groups: GroupCoordinator
    services: Services
    dispatcher: Dispatcher
    publisher: Publisher

    def start(self) -> None:
        """Load everything from disk and take the lead."""
        whole = self.controller.load()
        self._put_image(whole)
        self._apply_dynamic_config(whole)
        self.logs.load(self.services.topic_config)
        self._remove_strays()
        self.publisher.subscribe(self._put_image)
        self.publisher.subscribe(self._apply_dynamic_config)
        self.publisher.subscribe(
            ReplicaSubscriber(self.node_id, self.replicas, self.services.topic_config)
        )
        self.publisher.subscribe(GroupSubscriber(self.node_id, self.groups))
        self.publisher.publish(whole)
        self.logs.start()
        self.replicas.start()
        self.controller.lead(self.voter)

    async def stop(self) -> None:
        """Stop in the reverse order."""
        self.timer.stop()
        await self.groups.stop()
        await self.replicas.stop()
        await self.logs.stop()
        self.controller.stop()

    def _remove_strays(self) -> None:
        """Logs of topics that were deleted while this broker was down."""
        image = self.controller.image

        def known(topic: str, index: int, topic_id: bytes | None) -> bool:
            found = image.topics.get(topic)
            if found is None or index >= len(found.partitions):
                return False
            return topic_id in (None, found.topic_id)

        for log in list(self.logs.unknown(known)):
            self.logs.delete(log.topic, log.index)

    def _put_image(self, changes: Changes) -> None:
        """Handlers and rooms see one and the same image."""
        self.services.image = changes.image

    def _apply_dynamic_config(self, changes: Changes) -> None:
        """What operators set while brokers run is in force at once."""
        if any(kind is ResourceType.BROKER for kind, _ in changes.changed_configs):
            configs = changes.image.configs
            self.services.config = self.services.config.with_dynamic(
                configs.get((ResourceType.BROKER, ""), {}),
                configs.get((ResourceType.BROKER, str(self.node_id)), {}),
            )


def build_rooms(broker: Broker) -> Rooms:
    """Make every room of a broker; nothing is started yet."""
    config, clock, disk = broker.config, broker.clock, broker.disk
    logs = LogManager(config=config, disk=disk, clock=clock)
    cluster_id = logs.prepare(None)
    root = config.metadata_log_dir
    publisher = Publisher()
    store = MetadataLog(root, disk=disk, clock=clock, config=config)
    controller = SingleVoterController(store, cluster_id, publisher.publish)
    timer = Timer(clock)
    replicas = ReplicaManager(
        broker_id=config.node_id,
        log_manager=logs,
        clock=clock,
        timer=timer,
        metrics=broker.metrics,
    )
    groups = GroupCoordinator(
        appender=Appender(replicas, clock, config["offsets.commit.timeout.ms"]),
        timer=timer,
        clock=clock,
        limits=group_limits(config),
        partition_count=lambda: offsets_partitions(controller, config),
    )
    link = ControllerLink(
        broker.network,
        clock,
        Route(
            node_id=config.node_id,
            leader=lambda: controller.leader_id,
            address=lambda _: None,
            local=lambda key, body: inner.call(key, body),
        ),
        name="requests",
    )
    forwarder = Forwarder(clock, link, lambda: services.config["request.timeout.ms"])
    services = Services(
        node_id=config.node_id,
        config=config,
        clock=clock,
        controller=controller,
        replicas=replicas,
        logs=logs,
        groups=groups,
        producer_ids=ProducerIds(controller, config.node_id, broker.settings.site_number),
        authorizer=Authorizer(),
        topic_defaults=lambda: topic_defaults(services, root),
        topic_config=lambda name: topic_config(services, name),
        volume_bytes=lambda path: (disk.total_bytes(path), disk.free_bytes(path)),
        image=controller.image,
        forward=forwarder.forward,
        dispatch_inner=lambda frame, session, fill: inner.dispatch(frame, session, fill),
        link=link,
    )
    inner = Dispatcher(services, broker.metrics, Side.CONTROLLER)
    return Rooms(
        node_id=config.node_id,
        cluster_id=cluster_id,
        root=root,
        voter=VoterIdentity(config.node_id, logs.directory_ids[root], "127.0.0.1", 0),
        timer=timer,
        logs=logs,
        replicas=replicas,
        controller=controller,
        groups=groups,
        services=services,
        dispatcher=Dispatcher(services, broker.metrics),
        publisher=publisher,
    )


def topic_defaults(services: Services, root: str) -> Defaults:
    """What -1 means for a new topic."""
    return Defaults(
        partitions=services.config["num.partitions"],
        replication_factor=services.config["default.replication.factor"],
        directories={services.node_id: services.logs.directory_ids[root]},
    )


def topic_config(services: Services, name: str) -> TopicConfig:
    """A topic's configuration in force."""
    return TopicConfig.of(services.config, services.image.topic_config(name))


def offsets_partitions(controller: Controller, config: BrokerConfig) -> int:
    """How many partitions `__consumer_offsets` has, or will have."""
    topic = controller.image.topics.get(OFFSETS_TOPIC)
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
        receive_budget_bytes=RECEIVE_BUDGET_BYTES if queued < 0 else queued,
    )
