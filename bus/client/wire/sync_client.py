"""A blocking client of a cluster's nodes, for tools and the console's threads.

In: bootstrap servers; requests as generated messages. Out: responses as generated messages.
Core: `bus.client.wire.connection.ClientConnection`; here are only sockets and the question whom to
ask. Raises BusError: NETWORK_EXCEPTION when no node can be reached, UNSUPPORTED_VERSION when none
serves what was asked. Never: an event loop, a background thread, a retry of what a cluster refused.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Any

import msgspec

from bus.client.wire.connection import ClientConnection, UnsupportedVersion
from bus.client.wire.ports import Address, addresses
from bus.client.wire.sasl import LoginRefused, renewal_of
from bus.client.wire.security import NO_SECURITY, WireSecurity, wire_security
from bus.errors import BusError, ErrorCode
from bus.limits import (
    CLIENT_CONNECT_TIMEOUT_MS,
    CLIENT_CONTROLLER_ATTEMPTS,
    CLIENT_LEADER_TIMEOUT_MS,
    CLIENT_REQUEST_TIMEOUT_MS,
)
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.wire import Buffer, ProtocolError, RequestMessage, ResponseT
from bus.settings import BusSettings

Body = RequestMessage[ResponseT] | Callable[[int], RequestMessage[ResponseT]]
"""A request, or what makes it for the version that both ends know."""
NO_KEYS: Mapping[str, str] = MappingProxyType({})


class SyncConnection:
    """One connection to one node: a request, its answer, the next request."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        security: WireSecurity = NO_SECURITY,
        connect_timeout_ms: int = CLIENT_CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = CLIENT_REQUEST_TIMEOUT_MS,
    ) -> None:
        self.address = address
        self._connection = ClientConnection(client_id, login=security.login)
        try:
            if security.login is not None and security.login.tokens is not None:
                security.login.tokens.prepare()
            self._socket = _connected(address, security, connect_timeout_ms / 1000)
        except LoginRefused as error:
            raise BusError(error.code, f"{address}: {error.detail}") from None
        except OSError as error:
            raise self._connection_error(error) from error
        try:
            if security.login is not None:
                self._connection.log_in_with(security.login.prepared(address.host))
            chunks: list[Buffer] | None = self._connection.handshake()
            while chunks is not None:
                hello = self._connection.decode(self._round_trip(chunks))
                chunks = self._connection.on_handshake(hello.message)
            self._socket.settimeout(request_timeout_ms / 1000)
            self._renew_at_s = renewal_of(self._connection.session_ms, time.monotonic())
        except LoginRefused as error:
            self.close()
            raise BusError(error.code, f"{address}: {error.detail}") from None
        except (OSError, ProtocolError) as error:
            self.close()
            raise self._connection_error(error) from error

    @property
    def is_due(self) -> bool:
        """Whether its session ends soon: another connection is to take its place."""
        return time.monotonic() >= self._renew_at_s

    def supports(self, api_key: int) -> bool:
        """Whether the node serves this API in a version that we know."""
        try:
            self._connection.version_of(api_key)
        except UnsupportedVersion:
            return False
        return True

    def request(self, api_key: int, body: Body[ResponseT]) -> ResponseT:
        """The answer to one request."""
        answer: ResponseT = self.decode(self.request_frame(api_key, body))
        return answer

    def request_frame(self, api_key: int, body: Body[ResponseT]) -> memoryview:
        """The whole answer to one request as it came, for `decode`, before the next one."""
        make = body if callable(body) else lambda version: body
        try:
            _, chunks = self._connection.send(api_key, make)
            return self._round_trip(chunks)
        except UnsupportedVersion as error:
            raise BusError(error.code, f"{self.address}: {error.detail}") from error
        except (OSError, ProtocolError) as error:
            self.close()
            raise self._connection_error(error) from error

    def decode(self, frame: memoryview) -> Any:
        """The message in a frame of `request_frame`."""
        try:
            return self._connection.decode(frame).message
        except ProtocolError as error:
            self.close()
            raise self._connection_error(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _round_trip(self, chunks: list[Buffer]) -> memoryview:
        for chunk in chunks:
            self._socket.sendall(chunk)
        while True:
            size = self._socket.recv_into(self._connection.writable())
            if size == 0:
                raise ConnectionResetError("the node closed the connection")
            for frame in self._connection.receive_frames(size):
                return frame

    def _connection_error(self, error: Exception) -> BusError:
        code = (
            ErrorCode.REQUEST_TIMED_OUT
            if isinstance(error, TimeoutError)
            else ErrorCode.NETWORK_EXCEPTION
        )
        return BusError(code, f"{self.address}: {error}")


def _connected(address: Address, security: WireSecurity, timeout_s: float) -> socket.socket:
    """Raises OSError."""
    found = socket.create_connection((address.host, address.port), timeout_s)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if security.tls is None:
        return found
    return security.tls.wrap_socket(found, server_hostname=address.host)


class SyncClient:
    """A cluster: any node, a certain node, or the one that takes administrative requests."""

    def __init__(
        self,
        bootstrap_servers: str,
        client_id: str,
        *,
        librdkafka: Mapping[str, str] = NO_KEYS,
        **timeouts: int,
    ) -> None:
        """`librdkafka`: as in BusSettings. Keys that are not known here, and files that cannot be
        read, fail each request with BusError SECURITY_DISABLED."""
        self._librdkafka = librdkafka
        self._security: WireSecurity | None = None
        self._bootstrap = addresses(bootstrap_servers)
        self._client_id = client_id
        self._timeouts = timeouts
        self._addresses: dict[int, Address] = {}
        self._controller_id = -1
        self._connections: dict[Address, SyncConnection] = {}
        self._silent: set[Address] = set()  # where nobody answered last time

    @classmethod
    def of(cls, bus: BusSettings, client_id: str, **timeouts: int) -> SyncClient:
        """Reaches the brokers as all our clients do."""
        return cls(bus.bootstrap_servers, client_id, librdkafka=bus.librdkafka, **timeouts)

    @classmethod
    def with_short_timeouts(cls, bus: BusSettings, client_id: str) -> SyncClient:
        """For who asks another broker where one does not answer soon."""
        limit = CLIENT_LEADER_TIMEOUT_MS
        return cls.of(bus, client_id, connect_timeout_ms=limit, request_timeout_ms=limit)

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def request(self, api_key: int, body: Body[ResponseT]) -> ResponseT:
        """The answer of the first node that can be reached."""
        failure: BusError | None = None
        for address in self._candidates():
            try:
                answer = self._connection_to(address).request(api_key, body)
            except BusError as error:
                if error.code not in _UNREACHABLE:
                    raise
                self._disconnect(address)
                failure = error
            else:
                self._silent.discard(address)
                return answer
        raise failure or BusError(ErrorCode.NETWORK_EXCEPTION, "no address was given")

    def supports(self, api_key: int) -> bool:
        """Whether the node that answers serves this API."""
        self._refresh_metadata()
        return any(connection.supports(api_key) for connection in self._connections.values())

    def request_node(self, node_id: int, api_key: int, body: Body[ResponseT]) -> ResponseT:
        """The answer of a certain broker; BROKER_NOT_AVAILABLE if the cluster has none of this id
        or it does not answer."""
        if node_id not in self._addresses:
            self._refresh_metadata()
        address = self._addresses.get(node_id)
        if address is None:
            raise BusError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {node_id} alive"
            )
        try:
            return self._connection_to(address).request(api_key, body)
        except BusError as error:
            if error.code in _UNREACHABLE:
                self._disconnect(address)
                self._addresses.pop(node_id, None)  # it may come back on another one
                detail = f"broker {node_id} at {error.detail}"
                raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, detail) from error
            raise

    def request_controller(self, api_key: int, body: Body[ResponseT]) -> ResponseT:
        """The answer of the broker that takes administrative requests, asked again while an
        election moves the controller (NOT_CONTROLLER), CLIENT_CONTROLLER_ATTEMPTS times."""
        answer = self._answer_of_controller(api_key, body)
        for _ in range(CLIENT_CONTROLLER_ATTEMPTS - 1):
            if not any(code == ErrorCode.NOT_CONTROLLER for code in _codes(answer)):
                break
            answer = self._answer_of_controller(api_key, body)
        return answer

    def _answer_of_controller(self, api_key: int, body: Body[ResponseT]) -> ResponseT:
        self._refresh_metadata()
        if self._controller_id in self._addresses:
            return self.request_node(self._controller_id, api_key, body)
        return self.request(api_key, body)

    def open(self, address: Address) -> SyncConnection:
        """A connection that is the caller's, to a node that may be none of `bootstrap_servers`; it
        logs in as the others do. Raises BusError."""
        if self._security is None:
            self._security = wire_security(self._librdkafka)
        return SyncConnection(
            address, self._client_id, security=self._security, **self._timeouts
        )

    def close(self) -> None:
        """Close all connections but those of `open`."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _refresh_metadata(self) -> None:
        answer = self.request(ApiKey.METADATA, MetadataRequest(allow_auto_topic_creation=False))
        self._addresses = {
            broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers
        }
        self._controller_id = answer.controller_id

    def _candidates(self) -> list[Address]:
        """Open connections first, then every known address, then the bootstrap servers; those last
        that did not answer, so that a broker that hangs is not waited for with each request."""
        everything = dict.fromkeys(
            [*self._connections, *self._addresses.values(), *self._bootstrap]
        )
        self._silent &= everything.keys()
        return sorted(everything, key=self._silent.__contains__)

    def _connection_to(self, address: Address) -> SyncConnection:
        found = self._connections.get(address)
        if found is not None and found.is_due:
            found.close()
            found = None
        if found is None:
            found = self._connections[address] = self.open(address)
        return found

    def _disconnect(self, address: Address) -> None:
        self._silent.add(address)
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()


_UNREACHABLE = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)


def _codes(answer: msgspec.Struct) -> Iterator[int]:
    """Every error code of an answer, those of its parts included."""
    if hasattr(answer, "error_code"):
        yield answer.error_code
    for name in answer.__struct_fields__:
        part = getattr(answer, name)
        if isinstance(part, list):
            for one in part:
                if isinstance(one, msgspec.Struct):
                    yield from _codes(one)
