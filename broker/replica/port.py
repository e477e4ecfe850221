"""What the replicas of a broker need of the rest of the cluster.

In: nothing. Out: Protocols, which `broker/server` implements. Never: which controller is behind
them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.metadata.image import MetadataImage
from bus.protocol.wire import RequestMessage, ResponseT


class Channel(Protocol):
    """An ordered connection to one broker. ``request`` raises ``PeerError``."""

    async def request(
        self, api_key: int, body: RequestMessage[ResponseT], *, timeout_ms: int
    ) -> ResponseT: ...
    def disconnect(self) -> None: ...
    def close(self) -> None: ...


class Controllers(Protocol):
    """Requests to the active controller. Raises ``PeerError`` after the timeout."""

    async def request(
        self, api_key: int, body: RequestMessage[ResponseT], *, timeout_ms: int
    ) -> ResponseT: ...


@dataclass(slots=True)
class ClusterAccess:
    """The cluster around one broker.

    ``channel(broker id, name)`` opens a connection of our own to a broker; ``broker_epoch`` is the
    epoch of our registration, -1 before it.
    """

    channel: Callable[[int, str], Channel]
    controllers: Controllers
    broker_epoch: Callable[[], int]
    image: Callable[[], MetadataImage]
