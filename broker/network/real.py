"""The network port on the machine's own sockets, by the running event loop.

Both asyncio and uvloop set TCP_NODELAY by themselves; nothing is tuned here.
"""

from __future__ import annotations

import asyncio

from broker.network.port import ListenError, ProtocolFactory, Server

BACKLOG = 511
"""Connections the kernel may hold unaccepted: a site restarting all its cameras at once."""


class RealServer:
    """A listening socket of the event loop."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._port = int(server.sockets[0].getsockname()[1])

    @property
    def port(self) -> int:
        """The port in use."""
        return self._port

    async def close(self) -> None:
        """Stop accepting; does not wait for the connections, which their owner closes."""
        self._server.close()


class RealNetwork:
    """`Network` on the running loop of asyncio or uvloop."""

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Server:
        """Bind and accept; a port in use is an error with the remedy."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(factory, host or None, port, backlog=BACKLOG)
        except OSError as error:
            raise ListenError(
                f"cannot listen on {host}:{port} ({error.strerror or error}); "
                "stop the process that holds the port or choose another "
                "(`listeners`, `metrics.port`)"
            ) from error
        return RealServer(server)

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection."""
        return await asyncio.get_running_loop().create_connection(factory, host, port)
