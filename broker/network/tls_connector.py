"""Connections to others, over TLS.

In: another connector, the context of the moment. Out: a `Connector`. Never: a connection to a
server whose certificate is not accepted; its protocol is told that it was lost, and why is logged.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from broker.clock.port import TimerHandle
from broker.network.client_log import ClientLog
from broker.network.limits import READ_BUFFER_BYTES
from broker.network.tls import TlsTransport
from broker.network.turns import TurnTaker
from bus.client.wire.ports import Connector
from bus.security.tls_session import TlsSession


class TlsConnector:
    """Implements `Connector` and `TlsHost`."""

    def __init__(
        self,
        network: Connector,
        context: Callable[[], ssl.SSLContext],
        call_later: Callable[[float, Callable[[], None]], TimerHandle],
        client_log: ClientLog,
    ) -> None:
        self._network, self._context = network, context
        self.call_later = call_later
        self._log = client_log
        self.cipher_buffer = memoryview(bytearray(READ_BUFFER_BYTES))

    async def connect(
        self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Open a connection; the handshake goes on afterwards. Raises `OSError`."""

        def wrapped() -> asyncio.BaseProtocol:
            protocol = factory()
            assert isinstance(protocol, asyncio.BufferedProtocol)
            return TlsTransport(protocol, TlsSession(self._context(), host), self)

        return await self._network.connect(host, port, wrapped)

    def queue_handshake(self, transport: TurnTaker) -> None:
        """There are few of them, and they are our own."""
        self.call_later(0, lambda: transport.run_turn(0.0))

    def on_established(self, transport: TlsTransport) -> None:
        """The certificate was accepted, and has the name that was asked for."""

    def on_failed(self, transport: TlsTransport, reason: str) -> None:
        """An operator has to look at one of the two certificates."""
        peer = transport.get_extra_info("peername") or ("", 0)
        self._log.warning("TLS with %s:%s failed: %s", peer[0], peer[1], reason)
