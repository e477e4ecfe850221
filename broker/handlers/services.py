"""The services of one broker that handlers use, cut by what a handler of a kind needs.

A row of the registry names which planes its handler gets (`Plane`); the others are withheld from
it. The newest metadata and the configuration are everybody's. Never: sockets, or how a component
works.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Flag, auto
from typing import TYPE_CHECKING, Any, Protocol, cast

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.active import ActiveController
from broker.controller.decisions.topics import Defaults
from broker.controller.port import Controller, Failed
from broker.controller.producer_ids import ProducerIdManager
from broker.coordinator.coordinators import Coordinators
from broker.handlers.connection_control import Chunks, ConnectionControl
from broker.handlers.listener_type import ListenerType
from broker.handlers.metadata_cache import EncodedTopicCache
from broker.log.manager import LogManager
from broker.metadata.failover_gate import FailoverGate
from broker.metadata.image import MetadataImage
from broker.quotas.client_quotas import ClientQuotas
from broker.replica.manager import ReplicaManager
from broker.security.authorizer import Authorizer
from broker.security.delegation_tokens import DelegationTokens
from broker.security.logins import Logins
from broker.security.session import Session
from bus.errors import ErrorCode
from bus.protocol.generated.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from broker.controller.kraft.node import RaftNode
    from broker.controller.kraft.raft.voters import Voter
    from broker.handlers.auto_topic_creation import AutoTopicCreation


class Plane(Flag):
    """What a row of the registry may name."""

    DATA = auto()
    COORDINATORS = auto()
    CONTROL = auto()


@dataclass(slots=True)
class MetadataCache:
    """The newest metadata this broker acts on, the configuration in force, and responses that are
    kept as long as these do not change. The publisher sets the image before all else."""

    image: MetadataImage
    config: BrokerConfig
    failover_gate: FailoverGate
    """Delays Metadata responses while a broker fails over."""
    knows_topics: Callable[[], bool]
    """Whether a topic that is not in the image does not exist. Under ZooKeeper the controller sends
    them only after this broker serves."""
    encoded_topics: EncodedTopicCache = field(default_factory=EncodedTopicCache)
    """Encoded topics for Metadata responses about all topics."""
    api_versions: dict[tuple[ListenerType, int], tuple[object, ApiVersionsResponse]] = field(
        default_factory=dict
    )
    """Responses of ApiVersions, with the image they were made from."""


@dataclass(slots=True)
class DataPlane:
    """Logs and replicas of this broker, for those who write and read records."""

    replicas: ReplicaManager
    logs: LogManager
    producer_ids: ProducerIdManager
    volume_bytes: Callable[[str], tuple[int, int]]
    """Size and free space of the volume of a path."""


class ControlPlaneApi(Protocol):
    """What handlers ask of the control plane, the same under KRaft and ZooKeeper. What only the
    other kind serves is refused."""

    @property
    def controller(self) -> Controller:
        """The controller as this process sees it."""

    @property
    def active(self) -> ActiveController:
        """The state of the active controller; idle elsewhere."""

    @property
    def has_quorum(self) -> bool:
        """Whether this process keeps a replica of the metadata log."""

    @property
    def quorum(self) -> RaftNode:
        """That replica. Raises CloseConnection without one: no listener serves its APIs then."""

    @property
    def kraft_version(self) -> int:
        """The quorum's own feature level; 0 without a quorum."""

    @property
    def voters(self) -> Sequence[Voter]:
        """The quorum's voters; none without one."""

    @property
    def advertised_controller_id(self) -> int:
        """The controller for clients: the elected broker under ZooKeeper; under KRaft this broker,
        which forwards requests to the controllers that no client may reach."""

    def connection_lost(self, broker_id: int) -> None:
        """A broker's connection to this node is gone: it is probed if this is the controller."""

    def handle_controller_request(self, request: object, reply: Callable[[object], None]) -> None:
        """LeaderAndIsr, StopReplica, UpdateMetadata of the ZooKeeper controller."""

    def handle_controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        done: Callable[[bool, list[tuple[str, int]]], None],
        failed: Failed,
    ) -> None:
        """ControlledShutdown at the ZooKeeper controller."""


class ForwardableRequest(Protocol):
    """What is sent on in an envelope, and how its client is answered."""

    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def session(self) -> Session:
        """Whose request it is."""

    def throttle(self, throttle_time_ms: int) -> None:
        """The client has used more than its quota: it is served no more for this time."""

    def reply_frame(self, chunks: Chunks) -> None:
        """Respond with a whole frame that another node made for this request."""

    def reply_error(self, key: int, request: object, error: ErrorCode) -> None:
        """Respond that nothing of the request could be done."""


@dataclass(slots=True)
class Forwarding:
    """Requests for the controller from brokers that are not the active one."""

    forward: Callable[[int, object, ForwardableRequest], None]
    """Sends a request of this API to the active controller, which answers the client."""
    dispatch_envelope: Callable[[memoryview, ConnectionControl, Callable[[Chunks], None]], None]
    """Dispatches the request inside an envelope."""


@dataclass(slots=True)
class TopicCreation:
    """What topics get that are created without saying everything."""

    auto: AutoTopicCreation
    """Creates topics on first use, where another node is the active controller."""
    defaults: Callable[[], Defaults]
    is_alone: bool = False
    """Whether the whole cluster is this one process."""


@dataclass(frozen=True, slots=True)
class Services:
    """The services of one broker. `authorizer` is the context's, and `client_quotas` mostly: a
    handler asks them there."""

    node_id: int
    clock: Clock
    metadata: MetadataCache
    data_plane: DataPlane
    coordinators: Coordinators
    control_plane: ControlPlaneApi
    forwarding: Forwarding
    topic_creation: TopicCreation
    authorizer: Authorizer
    logins: Logins
    tokens: DelegationTokens
    client_quotas: ClientQuotas

    def only(self, needs: Plane) -> Services:
        """The same for a handler that needs only these planes. The others are not there for it, so
        that its row in the registry cannot lack one."""
        withheld = {
            name: cast(Any, WithheldPlane(name))
            for plane, names in PLANES.items()
            if plane not in needs
            for name in names
        }
        return replace(self, **withheld)


PLANES: Mapping[Plane, tuple[str, ...]] = {
    Plane.DATA: ("data_plane",),
    Plane.COORDINATORS: ("coordinators",),
    Plane.CONTROL: ("control_plane", "forwarding", "topic_creation"),
}
"""The fields of `Services` that a plane is."""


class WithheldPlane:
    """In the place of what a row of the registry does not name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> object:
        raise RuntimeError(f"a handler uses {self._name}.{attribute}, which its row does not name")
