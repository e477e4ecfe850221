"""What a handler gets beside its request: the client, the version, and the broker's services.

Never: sockets. A handler returns its response, or None when it calls `context.reply` later.
`reply` is the one place where `throttle_time_ms` is set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

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
from broker.security.session import Session
from bus.errors import ErrorCode
from bus.protocol.generated.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from broker.controller.active import ActiveController
    from broker.controller.kraft.node import RaftNode
    from broker.handlers.auto_topic_creation import AutoTopicCreation

Chunks = Sequence["bytes | bytearray | memoryview"]


class ConnectionControl(Protocol):
    """What a handler may control on the connection of its request."""

    session: Session

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

    def mute(self, throttle_time_ms: int) -> None:
        """Accept no further request for this time, or as long as the listener allows at most."""

    def abort(self, reason: str) -> None:
        """Close the connection now; the reason is logged."""


class NoConnection:
    """For requests of this process to itself: controls nothing."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def pause_requests(self) -> None:
        """No other request follows."""

    def limit_read(self, wanted_bytes: int) -> int:
        """All of it."""
        return wanted_bytes

    def expect_response(self, size_bytes: int) -> None:
        """Not counted."""

    def mark_as_broker(self, broker_id: int, most_bytes: int) -> None:
        """It has no service class."""

    def mute(self, throttle_time_ms: int) -> None:
        """The next request comes when it comes."""

    def abort(self, reason: str) -> None:
        """There is nobody to be cut off: the error is the caller's."""
        raise RuntimeError(reason)


class EnvelopeConnection(NoConnection):
    """For a request in an envelope: what cannot be answered to the client is answered to the broker
    that forwards it."""

    def __init__(self, session: Session, refuse: Callable[[ErrorCode], None]) -> None:
        super().__init__(session)
        self.refuse = refuse

    def abort(self, reason: str) -> None:
        """Its broker responds in its own way."""
        self.refuse(ErrorCode.UNKNOWN_SERVER_ERROR)


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
    dispatch_envelope: Callable[[memoryview, ConnectionControl, Callable[[Chunks], None]], None]
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
        "_throttle_time_ms",
        "api_version",
        "client_id",
        "connection",
        "correlation_id",
        "listener_type",
        "services",
    )

    def __init__(
        self,
        services: Services,
        connection: ConnectionControl,
        listener_type: ListenerType,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        encode: Callable[[int, Any], Chunks],
        set_response: Callable[[Chunks], None],
    ) -> None:
        self.services = services
        self.connection = connection
        self.listener_type = listener_type
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self._set_response = set_response
        self._throttle_time_ms = 0

    @property
    def session(self) -> Session:
        """Whose request it is. Its principal may be another one at the next look
        (re-authentication)."""
        return self.connection.session

    def throttle(self, throttle_time_ms: int) -> None:
        """The client has used more than its quota: its connection accepts nothing for this time,
        and the response says so. Of several throttles the longest counts."""
        if throttle_time_ms > self._throttle_time_ms:
            self._throttle_time_ms = throttle_time_ms
            self.connection.mute(throttle_time_ms)

    def reply(self, response: object) -> None:
        """Send the response, now or later; exactly once.

        A response that cannot be encoded is caused by this client's request. Later no caller could
        close the connection: an error would end a timer, and so the process.
        """
        if self._throttle_time_ms:
            response = throttled(response, self._throttle_time_ms)
        try:
            chunks = self._encode(self.correlation_id, response)
        except Exception:
            log.exception("the response to %s cannot be written", self.session.host)
            self.connection.abort("its request cannot be answered")
            return
        self._set_response(chunks)

    def reply_frame(self, chunks: Chunks) -> None:
        """Respond with a whole frame that another node made for this request."""
        self._set_response(chunks)

    def reply_error(self, key: int, request: object, error: ErrorCode) -> None:
        """Respond that nothing of the request could be done. In an envelope, NOT_CONTROLLER goes to
        the broker that forwards it."""
        if error is ErrorCode.NOT_CONTROLLER and isinstance(self.connection, EnvelopeConnection):
            self.connection.refuse(error)
            return
        self.reply(error_response(key, request, error))

    def no_reply(self) -> None:
        """The protocol allows no response (acks=0)."""
        self._set_response(())

    def is_authorized(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the client may perform this operation."""
        session = self.connection.session
        return self.services.authorizer.authorize(
            session.principal, session.host, operation, resource, name
        )

    def allowed_operations(self, resource: Resource, name: str) -> int:
        """Bit field of what the client may do with the resource (KIP-430)."""
        session = self.connection.session
        return self.services.authorizer.allowed_operations(
            session.principal, session.host, resource, name
        )


def throttled(response: Any, throttle_time_ms: int) -> object:
    """The response with the time the client is to wait, where it can say it. A copy: some handlers
    return the same object to many clients."""
    if not hasattr(response, "throttle_time_ms"):
        return response
    told = copy(response)
    told.throttle_time_ms = throttle_time_ms
    return cast(object, told)
