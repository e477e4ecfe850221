"""What a handler gets beside its request: who asks, in which version, and the rooms below.

Never: sockets. A handler returns its response, or None when `context.reply` will be called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from broker.clock.port import Clock
from broker.config.views import BrokerConfig, TopicConfig
from broker.controller.decisions.topics import Defaults
from broker.controller.port import Controller
from broker.controller.producer_ids import ProducerIds
from broker.coordinator.service import GroupCoordinator
from broker.log.manager import LogManager
from broker.metadata.image import MetadataImage
from broker.replica.manager import ReplicaManager
from broker.security.authorizer import Authorizer, Operation, Resource
from broker.security.principal import ANONYMOUS, Principal

Chunks = Sequence["bytes | bytearray | memoryview"]


@dataclass(slots=True)
class Session:
    """What is known of a connection: its client, not its socket."""

    host: str
    listener: str = "PLAINTEXT"
    principal: Principal = ANONYMOUS
    software_name: str = "unknown"
    software_version: str = "unknown"


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

    @property
    def image(self) -> MetadataImage:
        """The newest metadata."""
        return self.controller.image


class CloseClient(Exception):
    """This client can only be answered by closing its connection; the text is the log line."""


class RequestContext:
    """One request's surroundings."""

    __slots__ = ("_encode", "_fill", "api_version", "client_id", "correlation_id", "services",
                 "session")

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
        """Answer, now or later; exactly once."""
        self._fill(self._encode(self.correlation_id, response))

    def no_reply(self) -> None:
        """The protocol allows no response (acks=0)."""
        self._fill(())

    def may(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Whether the client may do this."""
        return self.services.authorizer.authorise(
            self.session.principal, operation, resource, name
        )
