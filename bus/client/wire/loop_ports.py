"""The ports of a channel on the running event loop; the broker's clock stands on this one.

In: addresses, socket buffer sizes, TLS. Out: connections, time. Never: listening.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from typing import Any

from bus.runtime import tasks


class LoopClock:
    """Implements `bus.client.wire.ports.ChannelClock`."""

    def __init__(self, randomness: random.Random | None = None) -> None:
        self._random = randomness or random.SystemRandom()

    @property
    def random(self) -> random.Random:
        """The system's random numbers, or those that were given."""
        return self._random

    monotonic = staticmethod(time.monotonic)
    """The function itself: a broker reads the clock four times a request."""

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up other tasks."""
        await asyncio.sleep(seconds)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run a coroutine beside the caller; an error of it ends the process."""
        return tasks.spawn(coroutine, name=name)

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` once after `delay_s` seconds."""
        return asyncio.get_running_loop().call_later(delay_s, callback)


class LoopConnector:
    """Implements `bus.client.wire.ports.Connector`.

    Buffer sizes are set before the connection is made, since TCP agrees on its window scale then;
    0 leaves them to the kernel, which adapts them up to net.ipv4.tcp_rmem and tcp_wmem.
    """

    def __init__(
        self,
        send_buffer_bytes: int = 0,
        receive_buffer_bytes: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._sizes = {
            option: size
            for option, size in (
                (socket.SO_SNDBUF, send_buffer_bytes),
                (socket.SO_RCVBUF, receive_buffer_bytes),
            )
            if size
        }

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        if not self._sizes:
            return await loop.create_connection(factory, host, port, ssl=self._tls)
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        error: OSError = OSError(f"{host} has no address")
        for family, kind, protocol, _, address in found:
            try:
                own = await self._connected(socket.socket(family, kind, protocol), address)
                name = host if self._tls is not None else None
                return await loop.create_connection(
                    factory, sock=own, ssl=self._tls, server_hostname=name
                )
            except OSError as failure:
                error = failure
        raise error

    async def _connected(self, own: socket.socket, address: Any) -> socket.socket:
        try:
            own.setblocking(False)
            for option, size in self._sizes.items():
                own.setsockopt(socket.SOL_SOCKET, option, size)
            await asyncio.get_running_loop().sock_connect(own, address)
        except BaseException:
            own.close()
            raise
        return own
