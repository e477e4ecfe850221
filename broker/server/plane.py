"""The plane: what brings a broker its metadata and carries its wishes to the active controller.

In: one configuration. Out: `Plane`, the same for KRaft and ZooKeeper. Never: how either works.

Order of life: `open` (whose cluster is this?), `prepare` (the controller is made), `attach` (what
the disk knows), `start` (the controller's side runs), `join` (this broker is registered), `serve`
(it may lead from now on), `leave` (leadership is handed over), `stop`. A broker acts on no image
older than its own registration: what it led in its last life may be led by another by now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.port import Controller
from broker.controller.zk.port import ZooKeeperSession
from broker.coordinator.service import GroupCoordinator
from broker.disk.port import Disk
from broker.log.manager import LogManager
from broker.metadata.delta import Changes
from broker.metadata.image import Endpoint, MetadataImage
from broker.metadata.publisher import Publisher
from broker.metrics.registry import Metrics
from broker.network.port import Network
from broker.peer.controller_link import LocalCall
from broker.peer.port import Address
from broker.replica.manager import ReplicaManager
from broker.server.roles import Roles
from broker.settings import ProcessSettings

if TYPE_CHECKING:
    from broker.handlers.context import Services


class StartError(Exception):
    """A start, or a life, that cannot go on as things are; one sentence that names the remedy."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What rooms and planes are made of: configuration and the three ports. `zookeeper` is given
    where the ensemble is simulated."""

    config: BrokerConfig
    settings: ProcessSettings
    roles: Roles
    clock: Clock
    disk: Disk
    network: Network
    metrics: Metrics
    zookeeper: ZooKeeperSession | None = None


@dataclass(slots=True)
class PlaneRooms:
    """The rooms a plane touches, made after `open` and before `start`.

    `is_broker_started`: the publisher's subscribers know an image and want every change from now
    on; before it, a plane only remembers the newest image. `fail` ends the process in order, with
    its sentence and exit status 1.
    """

    logs: LogManager
    publisher: Publisher
    services: Services
    replicas: ReplicaManager
    groups: GroupCoordinator
    local_call: LocalCall
    fail: Callable[[StartError], None]
    is_broker_started: bool = False


class Plane(Protocol):
    """One way for a process to be part of a cluster."""

    @property
    def controller(self) -> Controller:
        """The controller as this process sees it; there after `prepare`."""

    @property
    def image(self) -> MetadataImage:
        """The newest image this broker may act on."""

    @property
    def knows_topics_at_join(self) -> bool:
        """Whether the image after `join` has all topics, so that a log it does not have is a
        stray. Under ZooKeeper topics come by requests later."""

    async def open(self) -> str | None:
        """The cluster's id, None if this process may make one. Raises StartError."""

    def prepare(self, logs: LogManager) -> None:
        """The directories are ours; make the controller. Nothing is read yet."""

    def attach(self, rooms: PlaneRooms) -> None:
        """The rooms are there; nothing is started yet. May raise what an operator must mend."""

    def controller_address(self, node_id: int) -> Address | None:
        """Where a controller listens."""

    def on_leader_change(self, changed: Callable[[], None]) -> None:
        """Have `changed()` called when another controller, or none, is known."""

    def broker_epoch(self) -> int:
        """The epoch of this broker's registration, -1 before it."""

    def vouched_epoch(self) -> int:
        """The epoch a later life may name to vouch for these logs; -1 as long as they may lack
        acknowledged records and no controller has taken that into account (ADR 0032)."""

    async def start(self, controller_endpoints: tuple[Endpoint, ...]) -> None:
        """Run the controller's side; the listeners for it are bound."""

    async def join(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register this broker; `image` is then one its rooms may be started from. Raises
        StartError for what waiting does not mend."""

    async def serve(self) -> None:
        """The rooms serve: until this broker may lead and follow."""

    async def leave(self) -> None:
        """Hand leadership over, bounded; others may go on without this broker."""

    async def stop(self) -> None:
        """End everything of the plane."""


def everything(image: MetadataImage) -> Changes:
    """The whole image as what changed since nothing: what a starting broker's rooms are told."""
    return Changes(
        image=image,
        changed_partitions=tuple(image.partitions()),
        changed_configs=tuple(image.configs),
        changed_brokers=tuple(sorted(image.brokers)),
        changed_features=tuple(sorted(image.features)),
        changed_quotas=tuple(image.client_quotas),
    )
