"""The network port on the machine's own sockets, by the running event loop.

Both asyncio and uvloop set TCP_NODELAY by themselves. Buffers are the system's, which tunes them
while a connection lives, unless others are asked for.
"""

from __future__ import annotations

import asyncio
import logging
import socket

from broker.network.port import ListenError, ProtocolFactory, Server, SocketBuffers

log = logging.getLogger("broker.network")

BACKLOG = 511
"""Connections the kernel may hold unaccepted: a site restarting all its cameras at once."""


def set_buffers(one: socket.socket, sizes: SocketBuffers) -> None:
    """Set them on a listening socket: accepted ones inherit them, and TCP agrees on the scale of
    its window with a connection's first packet. The system may allow less, which is logged."""
    for option, wanted, limit in (
        (socket.SO_SNDBUF, sizes.send_bytes, "net.core.wmem_max"),
        (socket.SO_RCVBUF, sizes.receive_bytes, "net.core.rmem_max"),
    ):
        if wanted < 0:
            continue
        one.setsockopt(socket.SOL_SOCKET, option, wanted)
        # Linux shows twice the size: half is for its own bookkeeping.
        given = one.getsockopt(socket.SOL_SOCKET, option) // 2
        if given < wanted:
            log.warning("a socket buffer of %d bytes was asked for, the system gives %d: see %s",
                        wanted, given, limit)  # fmt: skip


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

    async def listen(
        self, host: str, port: int, factory: ProtocolFactory, buffers: SocketBuffers | None = None
    ) -> Server:
        """Bind and accept; a port in use is an error with the remedy."""
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(
                factory, host or None, port, backlog=BACKLOG, start_serving=False
            )
            for one in server.sockets:
                set_buffers(one, buffers or SocketBuffers())
            await server.start_serving()
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
