"""The control plane: delivers metadata to a broker and its requests to the active controller.

In: one configuration. Out: `ControlPlane`, the same for KRaft and ZooKeeper. Never: how either
works.

Order of calls: `open` (find the cluster id), `prepare` (create the controller), `attach` (load what
the disk holds), `start` (run the controller's side), `join` (register this broker), `serve` (it may
lead from now on), `controlled_shutdown` (leadership moves to others), `stop`. A broker acts on no
image older than its own registration: another broker may lead by now what it led before its
restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.cleaner_process.port import CleanerProcess
from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.zk.port import ZooKeeperSession
from broker.disk.port import Disk
from broker.handlers.services import ControlPlaneApi, MetadataCache
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.metadata.publisher import Publisher
from broker.metrics.registry import Metrics
from broker.network.port import Network, TlsPort
from broker.peer.controller_channel import LocalCall
from broker.replica.manager import ReplicaManager
from broker.server.roles import Roles
from broker.settings import ProcessSettings
from bus.client.wire.ports import Address, Connector
from bus.security.oauth_bearer import BearerToken


class StartError(Exception):
    """The process cannot start or continue; the text is one sentence that names the remedy."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """What components and control planes are built from: configuration and the ports.
    `zookeeper` is set where the ensemble is simulated; no log is cleaned without
    `cleaner_process`. The connectors are those of TLS, where the listeners of others have it.
    `judge_token`: whose token it is at a listener. `tls`: OpenSSL and its files."""

    config: BrokerConfig
    settings: ProcessSettings
    roles: Roles
    clock: Clock
    disk: Disk
    network: Network
    metrics: Metrics
    judge_token: Callable[[str, str], BearerToken]
    zookeeper: ZooKeeperSession | None = None
    cleaner_process: CleanerProcess | None = None
    peer_connector: Connector | None = None
    controller_connector: Connector | None = None
    tls: TlsPort | None = None

    @property
    def to_peers(self) -> Connector:
        """Opens connections to the inter-broker listeners of others."""
        return self.peer_connector or self.network

    @property
    def to_controllers(self) -> Connector:
        """Opens connections to controllers."""
        return self.controller_connector or self.network


@dataclass(slots=True)
class ControlPlaneDeps:
    """The components a control plane uses, created after `open` and before `start`.

    `is_broker_started`: the publisher's subscribers know an image and need every change from now
    on; before that, a control plane only keeps the newest image. `fail` ends the process cleanly,
    with its sentence and exit status 1.
    """

    logs: LogManager
    publisher: Publisher
    metadata: MetadataCache
    replicas: ReplicaManager
    local_call: LocalCall
    fail: Callable[[StartError], None]
    is_broker_started: bool = False


class ControlPlane(ControlPlaneApi, Protocol):
    """One way for a process to be part of a cluster; available to handlers after `attach`, its
    controller after `prepare`."""

    @property
    def image(self) -> MetadataImage:
        """The newest image this broker may act on."""

    @property
    def incarnation_id(self) -> bytes:
        """Of this process; every start draws another one."""

    @property
    def knows_topics_at_join(self) -> bool:
        """Whether the image after `join` has all topics, so that a log without a topic is a stray.
        Under ZooKeeper topics arrive later, by requests."""

    @property
    def knows_topics(self) -> bool:
        """Whether a topic that is not in the image does not exist."""

    async def open(self) -> str | None:
        """The cluster's id, None if this process may create one. Raises StartError."""

    def prepare(self, logs: LogManager) -> None:
        """Create the controller; the directories are locked by this process. Nothing is read
        yet."""

    def attach(self, deps: ControlPlaneDeps) -> None:
        """Connect to the components; nothing is started yet. May raise what an operator must
        fix."""

    def controller_address(self, node_id: int) -> Address | None:
        """Where a controller listens."""

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """Call `changed()` when another controller, or none, is known."""

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 before it."""

    def verified_epoch(self) -> int:
        """The epoch that a restarted broker may name to prove that these logs are complete; -1 as
        long as they may lack acknowledged records and no controller knows that (ADR 0032)."""

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run the controller's side; its listeners are already bound."""

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register this broker; its components may then be started from `image`. Raises StartError
        for what waiting does not fix."""

    async def serve(self) -> None:
        """The components serve; wait until this broker may lead and follow."""

    async def controlled_shutdown(self) -> None:
        """Move leadership to other brokers within a bounded time."""

    async def stop(self) -> None:
        """Stop all parts of the control plane."""


def full_changes(image: MetadataImage) -> Changes:
    """The whole image as changes since an empty one, for the components of a starting broker."""
    return Changes(
        image=image,
        changed_partitions=tuple(image.partitions()),
        changed_configs=tuple(image.configs),
        changed_brokers=tuple(sorted(image.brokers)),
        changed_features=tuple(sorted(image.features)),
        changed_quotas=tuple(image.client_quotas),
    )
