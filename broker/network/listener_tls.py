"""TLS of one listener: which certificate it shows, and what its clients' certificates make of them.

In: connections in their handshake. Out: sessions with a principal; counts of what succeeded and
failed. Never: a certificate's file.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Protocol, cast

from broker.clock.port import TimerHandle
from broker.metrics.registry import Meter
from broker.network.connection import Connection
from broker.network.limits import READ_BUFFER_BYTES
from broker.network.tls import TlsTransport
from broker.network.turns import ServiceClass, Turns, TurnTaker
from broker.security.principal import Principal
from bus.security.tls_session import TlsSession


class TlsServer(Protocol):
    """What the settings say."""

    @property
    def context(self) -> ssl.SSLContext:
        """Of the next connection."""

    @property
    def suites(self) -> frozenset[str]:
        """Of TLS 1.3 those that may be spoken."""

    def principal_of(self, certificate: bytes | None) -> Principal:
        """Whose certificate (DER) it is. Raises CloseConnection where the rules name nobody."""


class TlsListener(Protocol):
    """The part of a listener that is needed here."""

    turns: Turns
    first_class: ServiceClass

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` once, after this time."""

    def log_client(self, text: str, *words: object) -> None:
        """Log a line about a client, at a limited rate."""


class ListenerTls:
    """Implements `TlsHost` for all connections of a listener."""

    def __init__(
        self, server: TlsServer, listener: TlsListener, succeeded: Meter, failed: Meter
    ) -> None:
        self._server, self._listener = server, listener
        self._succeeded, self._failed = succeeded, failed
        self.call_later = listener.call_later
        self.cipher_buffer = memoryview(bytearray(READ_BUFFER_BYTES))

    def wrap(self, connection: Connection) -> TlsTransport:
        """What the loop is given for a new connection."""
        session = TlsSession(self._server.context, suites=self._server.suites)
        return TlsTransport(connection, session, self)

    def queue_handshake(self, transport: TurnTaker) -> None:
        """Behind every request that is there, about one step in a round: a thousand clients that
        come at once delay no other for longer than one of them."""
        self._listener.turns.wait_busy(self._listener.first_class, transport)

    def on_established(self, transport: TlsTransport) -> None:
        """Without SASL the client is known from now on."""
        connection = cast(Connection, transport.protocol)
        session = connection.session
        if not session.protocol.has_sasl:
            session.principal = self._server.principal_of(transport.session.peer_certificate)
            connection.on_authenticated()
        self._succeeded.mark()

    def on_failed(self, transport: TlsTransport, reason: str) -> None:
        """One line, and a count of those whose handshake it was."""
        connection = cast(Connection, transport.protocol)
        if not transport.is_established:
            self._failed.mark()
        self._listener.log_client("closing connection from %s: %s", connection.host, reason)
