"""The network port: how the broker listens and connects, real or simulated.

In: addresses and protocol factories. Out: servers and transports.
Never: Kafka semantics. The real side is `real.py`; the simulation brings its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class SocketBuffers(NamedTuple):
    """The system's buffers of each accepted connection, in bytes; -1: as the system tunes them."""

    send_bytes: int = -1
    receive_bytes: int = -1


class ListenError(Exception):
    """An address cannot be bound; the text names the remedy."""


class Server(Protocol):
    """One bound address."""

    @property
    def port(self) -> int:
        """The port in use, also where 0 was asked for."""

    async def close(self) -> None:
        """Stop accepting connections; the owner of open ones closes them."""


class Network(Protocol):
    """Everything the broker may do with sockets."""

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, buffers: SocketBuffers | None = None
    ) -> Server:
        """Bind and accept. Raises `ListenError`."""

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection. Raises `OSError`."""
