"""Probes a broker: one connection, one ApiVersions request, with a short timeout.

A listener with TLS is only asked for the beginning of a handshake: a broker that is up answers it,
and no certificate is needed for that, on either side. What it shows is not believed.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import cast

from broker.clock.port import Clock
from broker.metadata.image import Endpoint
from broker.security.security_protocol import SecurityProtocol
from bus.client.wire.channel import ChannelLimits, PeerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.ports import Address, Connector
from bus.protocol.apis import ApiKey
from bus.protocol.generated.api_versions import ApiVersionsRequest
from bus.security.tls_session import TlsSession

PROBE_TIMEOUT_MS = 300
"""A live broker in the same cluster responds within milliseconds; with this limit a killed broker
is detected well within a second."""

CLIENT = "controller-probe"


async def is_reachable(network: Connector, clock: Clock, endpoint: Endpoint) -> bool:
    """Whether a broker serves at this endpoint now."""
    if SecurityProtocol(endpoint.security_protocol).has_tls:
        return await _answers_hello(network, clock, endpoint)
    channel = PeerChannel(
        network,
        clock,
        lambda: Address(endpoint.host, endpoint.port),
        client_id=CLIENT,
        name=f"probe of {endpoint.host}:{endpoint.port}",
        limits=ChannelLimits(setup_timeout_ms=PROBE_TIMEOUT_MS),
    )
    request = ApiVersionsRequest(client_software_name=CLIENT, client_software_version="1")
    try:
        await channel.request(ApiKey.API_VERSIONS, request, timeout_ms=PROBE_TIMEOUT_MS)
    except PeerError as error:
        return error.kind is PeerErrorKind.UNSUPPORTED_VERSION
    finally:
        channel.close()
    return True


class _TlsProbe(asyncio.Protocol):
    """Says hello, and reports whether anything was answered."""

    def __init__(self, hello: bytes) -> None:
        self._hello = hello
        self._transport: asyncio.Transport | None = None
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        self.end(answered=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.end(answered=False)

    def end(self, *, answered: bool) -> None:
        """Close; the first end counts."""
        if not self.answered.done():
            self.answered.set_result(answered)
        if self._transport is not None:
            self._transport.abort()


async def _answers_hello(network: Connector, clock: Clock, endpoint: Endpoint) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    session = TlsSession(context, endpoint.host)
    session.handshake()
    probe = _TlsProbe(session.to_send())

    async def dial() -> None:
        with suppress(OSError, ValueError, OverflowError):
            await network.connect(endpoint.host, endpoint.port, lambda: probe)
            return
        probe.end(answered=False)

    dialled = clock.spawn(dial(), name=f"probe of {endpoint.host}:{endpoint.port}")
    timer = clock.call_later(PROBE_TIMEOUT_MS / 1000, lambda: probe.end(answered=False))
    try:
        return await probe.answered
    finally:
        timer.cancel()
        dialled.cancel()
        probe.end(answered=False)
