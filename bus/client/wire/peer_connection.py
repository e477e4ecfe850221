"""One TCP connection to a peer: `bus.client.wire.connection.ClientConnection` with a transport
around it.

In: requests. Out: answers, by future. Never: reconnecting; a lost connection is never used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from bus.client.wire.connection import ClientConnection, ClientResponse
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.client.wire.limits import IO_BUFFER_BYTES
from bus.client.wire.sasl import LoginRefused, SaslLogin
from bus.protocol.wire import Buffer, ProtocolError


class PeerConnection(asyncio.BufferedProtocol):
    """One connection and the requests on it.

    Invariant: `_waiting` has one future per request of the exchange that is not answered yet.
    `handshake` is done once the other side has said what it serves and has let us in, or why it
    never will.
    """

    def __init__(
        self,
        client_id: str,
        on_lost: Callable[[PeerConnection], None],
        login: SaslLogin | None = None,
    ) -> None:
        self._connection = ClientConnection(client_id, login=login)
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self.handshake: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.dropped_by_us = False

    # -- asyncio's side -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=IO_BUFFER_BYTES)
        if self.dropped_by_us:
            self._transport.abort()
            return
        self._waiting.append(self.handshake)
        self._transport.writelines(self._connection.handshake())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the event loop may write."""
        return self._connection.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Decodes what has arrived."""
        try:
            for answer in self._connection.receive(nbytes):
                self._on_response(answer)
        except LoginRefused as error:
            self.fail(PeerError(PeerErrorKind.NOT_LET_IN, error.detail))
            self.drop()
        except ProtocolError as error:
            self.fail(PeerError(PeerErrorKind.DISCONNECTED, f"the answer makes no sense: {error}"))
            self.drop()

    def eof_received(self) -> bool:
        """The other side has closed: the transport closes too."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails the waiting requests."""
        self._transport = None
        reason = f": {exc}" if exc is not None else ""
        self.fail(PeerError(PeerErrorKind.DISCONNECTED, f"the connection was lost{reason}"))
        self._on_lost(self)

    def log_in_with(self, login: SaslLogin) -> None:
        """Before the connection is made."""
        self._connection.log_in_with(login)

    # -- our side -------------------------------------------------------------------

    @property
    def open(self) -> bool:
        """Whether a request may be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def session_ms(self) -> int:
        """How long its login counts; 0: as long as it stands."""
        return self._connection.session_ms

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return self._connection.in_flight

    def send(
        self, api_key: int, make_body: Callable[[int], object], max_version: int | None
    ) -> asyncio.Future[Any]:
        """Send a request now. Raises PeerError (UNSUPPORTED_VERSION, DISCONNECTED)."""
        if self._transport is None or self._transport.is_closing():
            raise PeerError(PeerErrorKind.DISCONNECTED, "the connection was lost")
        try:
            _, chunks = self._connection.send(api_key, make_body, max_version)
        except ProtocolError as error:
            raise PeerError(PeerErrorKind.UNSUPPORTED_VERSION, str(error)) from error
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._write(chunks)
        return answer

    def drop(self) -> None:
        """Close now; waiting requests fail with DISCONNECTED."""
        self.dropped_by_us = True
        if self._transport is not None:
            self._transport.abort()

    def _write(self, chunks: list[Buffer]) -> None:
        transport = cast(asyncio.Transport, self._transport)
        if len(chunks) == 1:
            transport.write(chunks[0])
        else:
            transport.writelines(chunks)

    def _on_response(self, answer: ClientResponse) -> None:
        waiting = self._waiting.popleft()
        if waiting is self.handshake:
            again = self._connection.on_handshake(answer.message)
            if again is not None:
                self._waiting.append(self.handshake)
                self._write(again)
                return
        if not waiting.done():
            waiting.set_result(answer.message)

    def fail(self, error: PeerError) -> None:
        """Fails every waiting request with this error."""
        waiting, self._waiting = self._waiting, deque()
        for one in (*waiting, self.handshake):
            if not one.done():
                one.set_exception(error)
                one.exception()  # marked as retrieved: its waiter may be gone
