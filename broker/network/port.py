"""The network port: how the broker listens and connects, real or simulated.

In: addresses and protocol factories. Out: servers and transports.
Never: Kafka semantics. The real side is `real.py`; the simulation brings its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from broker.security.key_stores import KeyStore, TrustStore

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class SocketBuffers(NamedTuple):
    """The system's buffers of each accepted connection, in bytes; -1: as the system tunes them."""

    send_bytes: int = -1
    receive_bytes: int = -1


@dataclass(frozen=True, slots=True)
class TlsKeys:
    """What one side of TLS is made of. `ciphers`: OpenSSL's names for TLS 1.2, empty for its own
    choice. Without `trust_store` nobody's certificate is asked for, or the system's authorities
    are trusted."""

    key_store: KeyStore | None
    trust_store: TrustStore | None
    versions: tuple[str, ...]
    ciphers: tuple[str, ...] = ()
    client_auth: str = "none"
    checks_name: bool = True
    suites: frozenset[str] = frozenset()
    """Of TLS 1.3 those that a server may speak; empty: all."""


class TlsPort(Protocol):
    """OpenSSL, and the files of keys and certificates."""

    def read(self, path: str) -> bytes:
        """Raises `KeyStoreError`."""

    def stamp(self, path: str) -> tuple[int, ...]:
        """Another one whenever the file is another one; empty where there is none."""

    def server_context(self, material: TlsKeys) -> ssl.SSLContext:
        """For connections of clients. Raises `KeyStoreError`."""

    def client_context(self, material: TlsKeys) -> ssl.SSLContext:
        """For connections to others. Raises `KeyStoreError`."""

    def connect(
        self,
        context: ssl.SSLContext,
        address: tuple[str, int],
        server_name: str,
        timeout_s: float | None,
    ) -> ssl.SSLSocket:
        """A blocking connection, for a library with threads of its own. Raises OSError."""


class HttpsUnavailable(Exception):
    """A document cannot be fetched; the text is for an operator."""


class HttpsPort(Protocol):
    """Documents of other services."""

    async def fetch(self, url: str, context: ssl.SSLContext) -> bytes:
        """Never holds the loop. Bounded in time and size. Raises `HttpsUnavailable`."""


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
