"""What a handler gets beside its request: who asks, in which version, and the rooms below.

Never: sockets. A handler returns its response, or None when `context.reply` will be called.
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
from broker.controller.producer_ids import ProducerIds
from broker.coordinator.service import GroupCoordinator
from broker.handlers.refusals import refusal
from broker.handlers.sides import Side
from broker.handlers.topic_blocks import TopicBlocks
from broker.log.manager import LogManager
from broker.metadata.departures import Departures
from broker.metadata.image import MetadataImage
from broker.peer.controller_link import ControllerLink
from broker.replica.manager import ReplicaManager
from broker.security.authorizer import Authorizer, Operation, Resource
from broker.security.principal import ANONYMOUS, Principal
from bus.errors import ErrorCode
from bus.protocol.generated.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from broker.controller.active import ActiveController
    from broker.controller.kraft.node import RaftNode
    from broker.handlers.auto_topics import AutoTopics

Chunks = Sequence["bytes | bytearray | memoryview"]


class Line(Protocol):
    """What a request may ask of the connection it came on, which knows no requests."""

    def hold(self) -> None:
        """Take no further request before the newest one is answered (as Kafka does for all): its
        answer may be large, and nobody knows when it comes."""

    def cut(self, wanted_bytes: int) -> int:
        """How many bytes a read for this connection may bring now; 0 still means one batch."""

    def expects(self, size_bytes: int) -> None:
        """A read of so many bytes is under way elsewhere; 0: it is over, its answer comes now."""

    def is_from_broker(self, broker_id: int, most_bytes: int) -> None:
        """A broker speaks; from 0 on it fetches as this one, at most so much at a time."""


class NoLine:
    """Requests of this process to itself, and those that come in envelopes: nothing is held."""

    def hold(self) -> None:
        """There is nothing behind it."""

    def cut(self, wanted_bytes: int) -> int:
        """All of it."""
        return wanted_bytes

    def expects(self, size_bytes: int) -> None:
        """It is not counted."""

    def is_from_broker(self, broker_id: int, most_bytes: int) -> None:
        """It has no turn."""


_NO_LINE = NoLine()


@dataclass(slots=True)
class Session:
    """What is known of a connection: its client, not its socket."""

    host: str
    listener: str = "PLAINTEXT"
    principal: Principal = ANONYMOUS
    software_name: str = "unknown"
    software_version: str = "unknown"
    side: Side = Side.BROKER
    broker_id: int = -1
    """The broker that reports on this connection, for a probe when it is lost."""
    line: Line = _NO_LINE
    on_not_controller: Callable[[], None] | None = None
    """For a request in an envelope: its broker shall ask another controller."""
    hang_up: Callable[[], None] | None = None
    """Ends this client's connection: what it asked cannot be answered, others are not concerned."""


@dataclass(slots=True)
class Services:
    """The rooms of one broker that handlers walk down to."""

    node_id: int
    config: BrokerConfig
    clock: Clock
    controller: Controller
    replicas: ReplicaManager
    logs: LogManager
    groups: GroupCoordinator
    producer_ids: ProducerIds
    authorizer: Authorizer
    topic_defaults: Callable[[], Defaults]
    topic_config: Callable[[str], TopicConfig]
    volume_bytes: Callable[[str], tuple[int, int]]
    image: MetadataImage
    """The newest metadata this broker acts on; put here by the publisher, before all others."""
    forward: Callable[[int, object, RequestContext], None]
    """Sends a request of this API to the active controller, which answers the client."""
    dispatch_inner: Callable[[memoryview, Session, Callable[[Chunks], None]], None]
    """Handles a request that came in an envelope."""
    link: ControllerLink
    """This broker's own requests to the active controller."""
    departures: Departures
    """Brokers that are just going, as clients are told."""
    auto_topics: AutoTopics
    """Topics asked for by using them, where another node is the active controller."""
    api_versions: dict[tuple[Side, int], tuple[object, ApiVersionsResponse]] = field(
        default_factory=dict
    )
    """Answers of ApiVersions that are made already, with what they were made from."""
    topic_blocks: TopicBlocks = field(default_factory=TopicBlocks)
    """Topics as clients were told them that asked for all."""
    site_number: int = 0
    """In bits 48-55 of every producer id this cluster hands out."""
    is_alone: bool = False
    """Whether the whole cluster is this one process."""
    quorum: RaftNode | None = None
    """This process' replica of the metadata log; None under ZooKeeper."""
    zookeeper: Any | None = None
    """The ZooKeeper plane's controller side; None under KRaft."""
    active: ActiveController | None = None
    """What the active controller remembers; idle elsewhere."""
    connection_lost: Callable[[int], None] | None = None
    """Who hears of a broker's lost connection, if not `active` (the ZooKeeper plane)."""

    @property
    def knows_topics(self) -> bool:
        """Whether a topic that is not in the image does not exist. Under ZooKeeper the controller
        names them only after this broker serves."""
        return self.zookeeper is None or bool(self.zookeeper.knows_topics)

    @property
    def shown_controller_id(self) -> int:
        """Whom clients shall ask for changes: the elected broker under ZooKeeper; under KRaft
        this one, which carries them to the controllers that no client may reach."""
        return self.node_id if self.zookeeper is None else self.controller.leader_id


log = logging.getLogger("broker.handlers")


class CloseClient(Exception):
    """This client can only be answered by closing its connection; the text is the log line."""


class RequestContext:
    """One request's surroundings."""

    __slots__ = (
        "_encode",
        "_fill",
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
        fill: Callable[[Chunks], None],
    ) -> None:
        self.services = services
        self.session = session
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self._encode = encode
        self._fill = fill

    def reply(self, response: object) -> None:
        """Answer, now or later; exactly once.

        Whatever cannot be written is due to what this client asked. Later there is nobody above
        us who could close its connection: an error would end a timer, and so the process.
        """
        try:
            chunks = self._encode(self.correlation_id, response)
        except Exception:
            if self.session.hang_up is None:
                raise
            log.exception("the response to %s cannot be written", self.session.host)
            self.session.hang_up()
            return
        self._fill(chunks)

    def reply_frame(self, chunks: Chunks) -> None:
        """Answer with a whole frame, made elsewhere for this very request."""
        self._fill(chunks)

    def refuse(self, key: int, request: object, error: ErrorCode) -> None:
        """Answer that nothing of the request could be done. In an envelope NOT_CONTROLLER is
        told to the broker that carries it."""
        if error is ErrorCode.NOT_CONTROLLER and self.session.on_not_controller is not None:
            self.session.on_not_controller()
            return
        self.reply(refusal(key, request, error))

    def no_reply(self) -> None:
        """The protocol allows no response (acks=0)."""
        self._fill(())

    def may(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the client may do this."""
        return self.services.authorizer.authorise(self.session.principal, operation, resource, name)
