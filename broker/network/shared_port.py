"""One address for two listeners, with TLS and without: the first byte says whose client it is.

In: connections that the system has accepted. Out: each with the protocol of its listener, and the
byte that was read. Never: more of a client than that byte; a connection that waits for ever.

A handshake of TLS begins with 22, a request with the first byte of its length: a request that
begins so would have 369 million bytes (`MAX_PLAIN_REQUEST_BYTES`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from broker.network.frames import TLS_HANDSHAKE
from broker.network.limits import MAX_LOGIN_S, MAX_UNKNOWN_CLIENTS
from broker.network.port import Network, ProtocolFactory, Server, SocketBuffers

TLS_FIRST_BYTE = TLS_HANDSHAKE >> 8
MAX_PLAIN_REQUEST_BYTES = (TLS_FIRST_BYTE << 24) - 1
"""No request of a plain client may be larger where a port is shared."""


class SharedPort:
    """The address of both; each of them listens by its own `endpoint`.

    Invariant: `_silent` has the connections that have sent nothing yet, the oldest first, at most
    `MAX_UNKNOWN_CLIENTS`.
    """

    def __init__(self, network: Network, monotonic: Callable[[], float]) -> None:
        self._network = network
        self.monotonic = monotonic
        self._factories: dict[bool, ProtocolFactory] = {}
        self._silent: dict[FirstByteReader, None] = {}
        self._server: Server | None = None

    def endpoint(self, *, has_tls: bool) -> SharedEndpoint:
        """What the listener with TLS, or the one without, uses as its network."""
        return SharedEndpoint(self, self._network, has_tls=has_tls)

    async def listen(
        self,
        host: str,
        port: int,
        factory: ProtocolFactory,
        buffers: SocketBuffers | None,
        *,
        has_tls: bool,
    ) -> None:
        """One of the two is ready; the address is bound when both are. Raises `ListenError`."""
        self._factories[has_tls] = factory
        if len(self._factories) == 2:
            self._server = await self._network.listen(
                host, port, lambda: FirstByteReader(self), buffers
            )

    async def close(self) -> None:
        """Stop accepting, for both, and close those that have sent nothing."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()
        for one in list(self._silent):
            one.close()

    def close_silent(self) -> None:
        """Close connections that have sent nothing for too long."""
        oldest = self.monotonic() - MAX_LOGIN_S
        for one in [one for one in self._silent if one.opened_at < oldest]:
            one.close()

    def add(self, reader: FirstByteReader) -> None:
        """A new connection; where there are too many, the oldest is closed."""
        self._silent[reader] = None
        if len(self._silent) > MAX_UNKNOWN_CLIENTS:
            next(iter(self._silent)).close()

    def remove(self, reader: FirstByteReader) -> None:
        """It has sent something, or is gone."""
        self._silent.pop(reader, None)

    def protocol_for(self, first_byte: int) -> asyncio.BufferedProtocol:
        """What serves a client that begins so."""
        made = self._factories[first_byte == TLS_FIRST_BYTE]()
        return cast(asyncio.BufferedProtocol, made)


class SharedEndpoint:
    """Implements `Network` for one of the two listeners."""

    def __init__(self, shared: SharedPort, network: Network, *, has_tls: bool) -> None:
        self._shared, self._network, self._has_tls = shared, network, has_tls
        self._port = 0

    @property
    def port(self) -> int:
        """The port in use."""
        return self._port

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, buffers: SocketBuffers | None = None
    ) -> Server:
        """The port must be a certain one, not 0. Raises `ListenError`."""
        self._port = port
        await self._shared.listen(host, port, factory, buffers, has_tls=self._has_tls)
        return self

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """As the network itself."""
        return await self._network.connect(host, port, factory)

    async def close(self) -> None:
        """Stop accepting; the other listener of the address stops with this one."""
        await self._shared.close()


class FirstByteReader(asyncio.BufferedProtocol):
    """A connection whose client has sent nothing yet."""

    def __init__(self, shared: SharedPort) -> None:
        self._shared = shared
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(1)
        self.opened_at = shared.monotonic()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for its first byte."""
        self._transport = cast(asyncio.Transport, transport)
        self._shared.add(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Of one byte."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """From now on the connection is its listener's, with this byte."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._transport = None
        self._shared.remove(self)
        protocol = self._shared.protocol_for(self._buffer[0])
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if not transport.is_closing():
            memoryview(protocol.get_buffer(1))[:1] = self._buffer
            protocol.buffer_updated(1)

    def eof_received(self) -> bool:
        """The client has given up."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It waits no more."""
        self._transport = None
        self._shared.remove(self)

    def close(self) -> None:
        """Before it has sent anything."""
        if self._transport is not None:
            self._transport.abort()
