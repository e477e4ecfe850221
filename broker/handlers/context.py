"""What a handler gets beside its request: the client, the version, and the broker's services.

Never: sockets. A handler returns its response, or None when it calls `context.reply` later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from broker.clock.port import Clock
from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.decisions.topics import Defaults
from broker.controller.port import Controller
from broker.controller.producer_ids import ProducerIdManager
from broker.coordinator.group.service import GroupCoordinator
from broker.handlers.error_responses import error_response
from broker.handlers.listener_type import ListenerType
from broker.handlers.metadata_cache import EncodedTopicCache
from broker.log.manager import LogManager
from broker.metadata.failover_gate import FailoverGate
from broker.metadata.image import MetadataImage
from broker.peer.controller_channel import ControllerChannel
from broker.replica.manager import ReplicaManager
from broker.security.authorizer import Authorizer, Operation, Resource
from broker.security.principal import ANONYMOUS, Principal
from bus.errors import ErrorCode
from bus.protocol.generated.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from broker.controller.active import ActiveController
    from broker.controller.kraft.node import RaftNode
    from broker.handlers.auto_topic_creation import AutoTopicCreation

Chunks = Sequence["bytes | bytearray | memoryview"]


class ConnectionControl(Protocol):
    """What a handler may control on the connection of its request."""

    def pause_requests(self) -> None:
        """Accept no further request before the newest one is answered (Kafka does so for all): its
        response may be large, and may come at any time."""

    def limit_read(self, wanted_bytes: int) -> int:
        """How many bytes a read for this connection may return now; 0 still means one batch."""

    def expect_response(self, size_bytes: int) -> None:
        """A read of this size is under way elsewhere; 0: it is over, its response follows."""

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """The client is a broker; an id from 0 on says which one fetches, at most `most_bytes` at a
        time."""


class NoConnection:
    """For requests of this process to itself and for those in envelopes: controls nothing."""

    def pause_requests(self) -> None:
        """No other request follows."""

    def limit_read(self, wanted_bytes: int) -> int:
        """All of it."""
        return wanted_bytes

    def expect_response(self, size_bytes: int) -> None:
        """Not counted."""

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """It has no service class."""


_NO_CONNECTION = NoConnection()


@dataclass(slots=True)
class Session:
    """What handlers know about a connection: its client, not its socket."""

    host: str
    listener: str = "PLAINTEXT"
    principal: Principal = ANONYMOUS
    software_name: str = "unknown"
    software_version: str = "unknown"
    listener_type: ListenerType = ListenerType.BROKER
    broker_id: int = -1
    """The broker that sends heartbeats here, for a probe when the connection is lost."""
    connection: ConnectionControl = _NO_CONNECTION
    on_not_controller: Callable[[], None] | None = None
    """For a request in an envelope: makes its broker try another controller."""
    close_connection: Callable[[], None] | None = None
    """Closes this client's connection because its request cannot be answered."""


@dataclass(slots=True)
class Services:
    """The components of one broker that handlers use."""

    node_id: int
    config: BrokerConfig
    clock: Clock
    controller: Controller
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    producer_ids: ProducerIdManager
    authorizer: Authorizer
    topic_defaults: Callable[[], Defaults]
    topic_config: Callable[[str], TopicConfig]
    volume_bytes: Callable[[str], tuple[int, int]]
    image: MetadataImage
    """The newest metadata this broker acts on; the publisher sets it before all else."""
    forward: Callable[[int, object, RequestContext], None]
    """Sends a request of this API to the active controller, which answers the client."""
    dispatch_envelope: Callable[[memoryview, Session, Callable[[Chunks], None]], None]
    """Dispatches the request inside an envelope."""
    controller_channel: ControllerChannel
    """This broker's own requests to the active controller."""
    failover_gate: FailoverGate
    """Delays Metadata responses while a broker fails over."""
    auto_topic_creation: AutoTopicCreation
    """Creates topics on first use, where another node is the active controller."""
    api_versions: dict[tuple[ListenerType, int], tuple[object, ApiVersionsResponse]] = field(
        default_factory=dict
    )
    """Responses of ApiVersions, with the image they were made from."""
    topic_cache: EncodedTopicCache = field(default_factory=EncodedTopicCache)
    """Encoded topics for Metadata responses about all topics."""
    site_number: int = 0
    """Stands in bits 48-55 of every producer id of this cluster."""
    is_alone: bool = False
    """Whether the whole cluster is this one process."""
    quorum: RaftNode | None = None
    """This process' replica of the metadata log; None under ZooKeeper."""
    zookeeper: Any | None = None
    """The ZooKeeper control plane; None under KRaft."""
    active: ActiveController | None = None
    """The state of the active controller; idle elsewhere."""
    connection_lost: Callable[[int], None] | None = None
    """Called when a broker's connection is lost, instead of `active` (under ZooKeeper)."""

    @property
    def knows_topics(self) -> bool:
        """Whether a topic that is not in the image does not exist. Under ZooKeeper the controller
        sends them only after this broker serves."""
        return self.zookeeper is None or bool(self.zookeeper.knows_topics)

    @property
    def advertised_controller_id(self) -> int:
        """The controller for clients: the elected broker under ZooKeeper; under KRaft this broker,
        which forwards requests to the controllers that no client may reach."""
        return self.node_id if self.zookeeper is None else self.controller.leader_id


log = logging.getLogger("broker.handlers")


class RequestContext:
    """The context of one request."""

    __slots__ = (
        "_encode",
        "_set_response",
        "api_version",
        "client_id",
        "correlation_id",
        "services",
        "session",
    )

    def __init__(
        self,
        services: Services,
        session: Session,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        encode: Callable[[int, Any], Chunks],
        set_response: Callable[[Chunks], None],
    ) -> None:
        self.services = services
        self.session = session
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self._set_response = set_response

    def reply(self, response: object) -> None:
        """Send the response, now or later; exactly once.

        A response that cannot be encoded is caused by this client's request. Later no caller could
        close the connection: an error would end a timer, and so the process.
        """
        try:
            chunks = self._encode(self.correlation_id, response)
        except Exception:
            if self.session.close_connection is None:
                raise
            log.exception("the response to %s cannot be written", self.session.host)
            self.session.close_connection()
            return
        self._set_response(chunks)

    def reply_frame(self, chunks: Chunks) -> None:
        """Respond with a whole frame that another node made for this request."""
        self._set_response(chunks)

    def reply_error(self, key: int, request: object, error: ErrorCode) -> None:
        """Respond that nothing of the request could be done. In an envelope, NOT_CONTROLLER goes to
        the broker that forwards it."""
        if error is ErrorCode.NOT_CONTROLLER and self.session.on_not_controller is not None:
            self.session.on_not_controller()
            return
        self.reply(error_response(key, request, error))

    def no_reply(self) -> None:
        """The protocol allows no response (acks=0)."""
        self._set_response(())

    def is_authorized(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the client may perform this operation."""
        return self.services.authorizer.authorize(self.session.principal, operation, resource, name)
