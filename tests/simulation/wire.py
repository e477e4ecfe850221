"""A client's connection to one broker: the product's own exchange over a simulated network.

In: requests. Out: answers, or `WireError`. Never: retries, or what a request means.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, cast

from bus.client.wire.connection import ClientConnection
from bus.protocol.apis import ApiKey
from bus.protocol.wire import ProtocolError
from tests.simulation.network import ProcessNetwork

CONNECT_TIMEOUT_S = 3.0


class WireError(Exception):
    """No answer: it could not be sent, the connection ended or the time was over."""


class WireConnection(Protocol):
    """A client's connection, with any codec."""

    lost: bool

    async def ask(self, key: ApiKey, body: Any, *, timeout_s: float) -> Any: ...
    def send_unanswered(self, key: ApiKey, body: Any) -> None: ...
    def drop(self) -> None: ...


class OwnWire(asyncio.BufferedProtocol):
    """One connection. Invariant: `_waiting` has a future for every request without an answer."""

    def __init__(self, client_id: str) -> None:
        self._exchange = ClientConnection(client_id)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._transport: asyncio.Transport | None = None
        self.lost = False

    @classmethod
    async def open(cls, network: ProcessNetwork, host: str, port: int, client_id: str) -> OwnWire:
        """Connects and gets the broker's API versions."""
        wire = cls(client_id)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await network.connect(host, port, lambda: wire)
                for _ in range(2):
                    message = await wire._hello()
                    if wire._exchange.on_handshake(message) is None:
                        return wire
        except (OSError, TimeoutError) as error:
            wire.drop()
            raise WireError(f"{host}:{port}: {error or 'no connection in time'}") from None
        raise WireError(f"{host}:{port} speaks no ApiVersions that we know")

    async def _hello(self) -> Any:
        self._send(self._exchange.handshake())
        future = self._waiting[self._newest()] = asyncio.get_running_loop().create_future()
        return await future

    def _newest(self) -> int:
        return self._exchange._in_flight[-1][0]

    async def ask(
        self, key: ApiKey, body: object | Callable[[int], object], *, timeout_s: float
    ) -> Any:
        """Sends one request in the newest common version; returns its answer."""
        make = body if callable(body) else (lambda _: body)
        if self.lost:
            raise WireError("the connection is lost")
        try:
            correlation_id, chunks = self._exchange.send(key, make)
        except ProtocolError as error:
            raise WireError(str(error)) from None
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        self._send(chunks)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            self.drop()
            raise WireError(f"no answer to {key.name} in {timeout_s:g} s") from None
        except asyncio.CancelledError:
            self.drop()
            raise

    def send_unanswered(self, key: ApiKey, body: object) -> None:
        """Sends a request that gets no answer (acks=0)."""
        if self.lost:
            raise WireError("the connection is lost")
        _, chunks = self._exchange.send(key, lambda _: body)
        self._exchange.expect_no_response()
        self._send(chunks)

    def drop(self) -> None:
        """Closes the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
        self._fail("dropped")

    def _send(self, chunks: Any) -> None:
        transport = cast(asyncio.Transport, self._transport)
        transport.write(b"".join(chunks))

    # --- asyncio's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._exchange.writable()

    def buffer_updated(self, nbytes: int) -> None:
        for answer in self._exchange.receive(nbytes):
            future = self._waiting.pop(answer.correlation_id, None)
            if future is not None and not future.done():
                future.set_result(answer.message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "closed by the other side"))

    def _fail(self, text: str) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(WireError(text))
