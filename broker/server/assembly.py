"""Builds the components of one broker and connects them.

In: the broker's `Runtime` and its control plane. Out: `Components`. Never: listening, or a rule of
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from broker.config.checks import numbers_by_address
from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.decisions.site_confirmations import is_closed
from broker.controller.decisions.topics import Defaults
from broker.controller.port import Controller
from broker.controller.producer_ids import ProducerIdManager
from broker.coordinator.coordinators import Coordinators
from broker.coordinator.group.records import OFFSETS, OFFSETS_TOPIC
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.group.shard import GroupLimits
from broker.coordinator.partition_writer import PartitionWriter
from broker.handlers.auto_topic_creation import AutoTopicCreation
from broker.handlers.dispatch import Dispatcher
from broker.handlers.forward import ForwardingManager
from broker.handlers.listener_type import ListenerType
from broker.handlers.services import (
    DataPlane,
    Forwarding,
    MetadataCache,
    Services,
    TopicCreation,
)
from broker.handlers.topics import is_internal
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.failover_gate import FailoverGate
from broker.metadata.image import MetadataImage, ResourceType
from broker.metadata.publisher import Publisher
from broker.network.limits import ConnectionLimits
from broker.network.port import SocketBuffers
from broker.peer.controller_channel import ControllerChannel
from broker.purgatory.timer import Timer
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.connection_rates import ConnectionRates
from broker.replica.manager import ReplicaManager
from broker.replica.port import ClusterAccess
from broker.security.delegation_tokens import DelegationTokens
from broker.security.logins import Logins
from broker.server.authorization import make_authorizer
from broker.server.client_quotas import make_client_quotas, make_connection_rates
from broker.server.confirmation_log import ConfirmationLog
from broker.server.connections import PeerConnections
from broker.server.control_plane import ControlPlane, Runtime, full_changes
from broker.server.stored_configs import StoredConfigs
from broker.server.subscribers import CoordinatorSubscriber, ReplicaSubscriber
from bus.security.sasl_server import ScramCredential, ScramMechanism

RECEIVE_MEMORY_BYTES = 64 * 1024 * 1024
"""Half-received requests of all clients together, where `queued.max.request.bytes` sets nothing:
Kafka then sets no limit, which a broker meant for 150 MB cannot afford."""

NONCE_BYTES = 16
"""Of the server's part of a SCRAM nonce, which is hexadecimal."""

_MINUTE_MS = 60_000


@dataclass(slots=True)
class Components:
    """The components of one process. A process that is only a controller never starts those of a
    broker.

    Invariant: `is_broker_started` is set as soon as the publisher's subscribers know an image;
    before that they receive no changes.
    """

    node_id: int
    cluster_id: str
    timer: Timer
    logs: LogManager
    replicas: ReplicaManager
    controller: Controller
    coordinators: Coordinators
    metadata: MetadataCache
    topic_config: Callable[[str], TopicConfig]
    dispatchers: dict[ListenerType, Dispatcher]
    publisher: Publisher
    stored_configs: StoredConfigs
    connections: PeerConnections
    forwarding: ForwardingManager
    client_quotas: ClientQuotas
    connection_rates: ConnectionRates
    confirmation_log: ConfirmationLog
    cleaner: LogCleaner | None
    is_broker_started: bool = False

    def subscribe(self) -> None:
        """Subscribe to metadata changes: every process acts on configurations."""
        self.publisher.subscribe(self._put_image)
        self.publisher.subscribe(self._apply_dynamic_config)

    async def start_broker(self, control_plane: ControlPlane) -> None:
        """Load the logs, then take the roles that the newest image assigns."""
        self._apply_dynamic_config(full_changes(control_plane.image))
        # On a worker thread: recovering gigabytes must not keep a quorum's voter from voting.
        await self.logs.disk.run(self.logs.load, self.topic_config)
        for directory, error in self.logs.dirs.failed.items():
            self.replicas.take_offline(directory, error)
        full = full_changes(control_plane.image)
        if control_plane.knows_topics_at_join:
            self.replicas.remove_strays(full.image)
        self.publisher.subscribe(
            ReplicaSubscriber(
                self.node_id,
                self.replicas,
                self.topic_config,
                self.publisher.on_apply_error,
            )
        )
        self.publisher.subscribe(CoordinatorSubscriber(self.replicas, self.coordinators))
        self.publisher.subscribe(self.metadata.failover_gate)
        self.publisher.subscribe(self.confirmation_log)
        self.publisher.publish(full)
        self.is_broker_started = True
        self.logs.start()
        self.replicas.start()
        if self.cleaner is not None:
            self.cleaner.start()

    async def stop_broker(self) -> None:
        """Stop serving."""
        self.timer.stop()
        self.forwarding.stop()
        if self.is_broker_started:
            if self.cleaner is not None:
                await self.cleaner.stop()
            await self.coordinators.stop()
            await self.replicas.stop()
        self.connections.close()

    def _put_image(self, changes: Changes) -> None:
        """Handlers and components see the same image."""
        self.metadata.image = changes.image
        self.client_quotas.follow(changes.image.client_quotas)
        self.connection_rates.follow(changes.image.client_quotas)

    def _apply_dynamic_config(self, changes: Changes) -> None:
        """Dynamic configuration takes effect immediately."""
        if any(kind is ResourceType.BROKER for kind, _ in changes.changed_configs):
            configs, before = changes.image.configs, self.metadata.config
            self.metadata.config = self.stored_configs.broker(
                self.metadata.config,
                configs.get((ResourceType.BROKER, ""), {}),
                configs.get((ResourceType.BROKER, str(self.node_id)), {}),
            )
            self.metadata.config.warn_of_new(before)
            self.logs.config = self.metadata.config
            self.replicas.replication_quotas.reconfigure(self.metadata.config)


def build_components(runtime: Runtime, control_plane: ControlPlane, logs: LogManager) -> Components:
    """Create every component of a broker; nothing is started yet."""
    clock = runtime.clock
    timer = Timer(clock)
    metadata = MetadataCache(
        control_plane.controller.committed,
        runtime.config,
        FailoverGate(clock),
        lambda: control_plane.knows_topics,
    )
    dispatchers: dict[ListenerType, Dispatcher] = {}
    connections = _peer_connections(runtime, control_plane, metadata, dispatchers)
    forwarding = ForwardingManager(
        clock,
        connections.to_controller("forwarding", pipelined=True),
        lambda: metadata.config["request.timeout.ms"],
    )
    replicas = _replicas(runtime, control_plane, logs, connections, timer, lambda: metadata.image)
    coordinators = Coordinators(_groups(runtime, replicas, timer, lambda: metadata.image))
    stored, publisher = StoredConfigs(), Publisher()
    requests = connections.to_controller("requests", pipelined=True)
    services = _services(
        runtime,
        control_plane,
        metadata,
        _data_plane(runtime, control_plane, logs, replicas, requests),
        coordinators,
        forwarding,
        requests,
        dispatchers,
    )
    runtime.metrics.gauge(
        "broker-metadata-metrics", "metadata-apply-error-count",
        lambda: publisher.errors + len(stored.refused),
    )  # fmt: skip
    for side in runtime.roles.listener_types:
        dispatchers[side] = Dispatcher(services, runtime.metrics, side)
        services.client_quotas.on_limited.append(dispatchers[side].forget_handlers)
    return Components(
        node_id=runtime.config.node_id,
        cluster_id=logs.cluster_id,
        timer=timer,
        logs=logs,
        replicas=replicas,
        controller=control_plane.controller,
        coordinators=coordinators,
        metadata=metadata,
        topic_config=lambda name: topic_config(
            metadata, stored, control_plane.incarnation_id, name
        ),
        dispatchers=dispatchers,
        publisher=publisher,
        stored_configs=stored,
        connections=connections,
        forwarding=forwarding,
        client_quotas=services.client_quotas,
        connection_rates=make_connection_rates(runtime.config, runtime.metrics),
        confirmation_log=ConfirmationLog(control_plane.incarnation_id, runtime.metrics),
        cleaner=_cleaner(runtime, logs),
    )


def _cleaner(runtime: Runtime, logs: LogManager) -> LogCleaner | None:
    if runtime.cleaner_process is None:
        return None
    cleaner = LogCleaner(logs, runtime.cleaner_process, runtime.clock, is_internal)
    cleaner.figures.register_metrics(runtime.metrics, logs.directories)
    return cleaner


def _peer_connections(
    runtime: Runtime,
    control_plane: ControlPlane,
    metadata: MetadataCache,
    dispatchers: dict[ListenerType, Dispatcher],
) -> PeerConnections:
    return PeerConnections(
        runtime.to_peers,
        runtime.to_controllers,
        runtime.clock,
        runtime.config,
        control_plane,
        lambda: metadata.image,
        lambda key, body: dispatchers[runtime.roles.controller_listener_type].call(key, body),
        metadata.failover_gate.on_disconnect,
        metadata.failover_gate.on_connect,
        runtime.roles.peer_login,
        runtime.roles.controller_login,
    )


def _services(
    runtime: Runtime,
    control_plane: ControlPlane,
    metadata: MetadataCache,
    data_plane: DataPlane,
    coordinators: Coordinators,
    forwarding: ForwardingManager,
    requests: ControllerChannel,
    dispatchers: dict[ListenerType, Dispatcher],
) -> Services:
    """What the handlers of all listeners see."""
    tokens = DelegationTokens(
        runtime.config["delegation.token.secret.key"] or "",
        lambda: metadata.image.delegation_tokens,
        runtime.clock.now_ms,
    )
    return Services(
        node_id=runtime.config.node_id,
        clock=runtime.clock,
        metadata=metadata,
        data_plane=data_plane,
        coordinators=coordinators,
        control_plane=control_plane,
        forwarding=Forwarding(
            forwarding.forward,
            lambda frame, connection, fill: dispatchers[ListenerType.CONTROLLER].dispatch(
                frame, connection, fill
            ),
        ),
        topic_creation=TopicCreation(
            AutoTopicCreation(runtime.clock, requests),
            lambda: topic_defaults(metadata.config),
            runtime.roles.is_alone,
        ),
        authorizer=make_authorizer(
            runtime.config, lambda: metadata.image, runtime.metrics, runtime.clock.monotonic
        ),
        logins=Logins(
            runtime.roles.logins,
            lambda mechanism, user: scram_credential(metadata.image, mechanism, user),
            tokens,
            lambda: runtime.clock.secret_bytes(NONCE_BYTES).hex(),
            runtime.config["connection.failed.authentication.delay.ms"],
            runtime.judge_token,
        ),
        tokens=tokens,
        client_quotas=make_client_quotas(
            runtime.config, runtime.roles, runtime.metrics, runtime.clock.monotonic
        ),
    )


def scram_credential(
    image: MetadataImage, mechanism: ScramMechanism, user: str
) -> ScramCredential | None:
    """What the metadata hold of a user's password."""
    record = image.scram.get((mechanism, user))
    if record is None:
        return None
    return ScramCredential(
        bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
    )


def _replicas(
    runtime: Runtime,
    control_plane: ControlPlane,
    logs: LogManager,
    connections: PeerConnections,
    timer: Timer,
    image: Callable[[], MetadataImage],
) -> ReplicaManager:
    replicas = ReplicaManager(
        broker_id=runtime.config.node_id,
        log_manager=logs,
        clock=runtime.clock,
        timer=timer,
        metrics=runtime.metrics,
    )
    if not runtime.roles.is_alone:
        replicas.attach_cluster(
            ClusterAccess(
                channel=connections.to_broker,
                controllers=connections.to_controller("alter-partition"),
                broker_epoch=control_plane.broker_epoch,
                image=image,
            )
        )
    return replicas


def _groups(
    runtime: Runtime, replicas: ReplicaManager, timer: Timer, image: Callable[[], MetadataImage]
) -> GroupCoordinator:
    config = runtime.config
    return GroupCoordinator(
        writer=PartitionWriter(
            replicas, runtime.clock, OFFSETS, config["offsets.commit.timeout.ms"]
        ),
        timer=timer,
        clock=runtime.clock,
        limits=group_limits(config),
        partition_count=lambda: offsets_partitions(image(), config),
    )


def _data_plane(
    runtime: Runtime,
    control_plane: ControlPlane,
    logs: LogManager,
    replicas: ReplicaManager,
    requests: ControllerChannel,
) -> DataPlane:
    clock, disk = runtime.clock, runtime.disk
    return DataPlane(
        replicas,
        logs,
        ProducerIdManager(requests, clock, runtime.config.node_id, control_plane.broker_epoch),
        lambda path: (disk.total_bytes(path), disk.free_bytes(path)),
    )


def topic_config(
    metadata: MetadataCache, stored: StoredConfigs, incarnation_id: bytes, name: str
) -> TopicConfig:
    """A topic's effective configuration in this process, which may wait to be confirmed."""
    image = metadata.image
    config = stored.topic(metadata.config, name, image.topic_config(name))
    if is_closed(image, name, incarnation_id):
        return replace(config, is_unconfirmed=True)
    return config


def topic_defaults(config: BrokerConfig) -> Defaults:
    """What -1 means for a new topic."""
    return Defaults(
        partitions=config["num.partitions"],
        replication_factor=config["default.replication.factor"],
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
        max_connections_by_ip=numbers_by_address(config["max.connections.per.ip.overrides"]),
        receive_memory_bytes=RECEIVE_MEMORY_BYTES if queued < 0 else queued,
        max_unknown_request_bytes=config["sasl.server.max.receive.size"],
    )


def socket_buffers(config: BrokerConfig) -> SocketBuffers:
    """The system's buffers of a connection."""
    return SocketBuffers(config["socket.send.buffer.bytes"], config["socket.receive.buffer.bytes"])


def make_control_plane(runtime: Runtime) -> ControlPlane:
    """The control plane of this configuration; the other one is not imported."""
    if runtime.roles.zookeeper:
        from broker.server.zk.control_plane import ZooKeeperControlPlane

        return ZooKeeperControlPlane(runtime)
    from broker.server.kraft.control_plane import KraftControlPlane

    return KraftControlPlane(runtime)
