"""Blocking conversations with the nodes of a cluster, for tools and the console's threads.

In: bootstrap servers; requests as generated messages. Out: responses as generated messages.
Core: `bus.client.raw.Exchange`; here are only sockets and the question whom to ask. Raises
BusError: NETWORK_EXCEPTION when nobody can be reached, UNSUPPORTED_VERSION when nobody serves what
was asked. Never: an event loop, a background thread, a retry of what a cluster refused.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import msgspec

from bus.client.raw import Exchange, Unsupported
from bus.errors import BusError, ErrorCode
from bus.limits import (
    CLIENT_CONNECT_TIMEOUT_MS,
    CLIENT_CONTROLLER_ATTEMPTS,
    CLIENT_REQUEST_TIMEOUT_MS,
)
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.wire import Buffer, ProtocolError

Address = tuple[str, int]
Body = object | Callable[[int], object]


class NodeConnection:
    """One connection to one node: a request, its answer, the next request."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        connect_timeout_ms: int = CLIENT_CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = CLIENT_REQUEST_TIMEOUT_MS,
    ) -> None:
        self.address = address
        self._exchange = Exchange(client_id)
        try:
            self._socket = socket.create_connection(address, connect_timeout_ms / 1000)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            chunks: list[Buffer] | None = self._exchange.hello()
            while chunks is not None:
                hello = self._exchange.answer(self._frame(chunks))
                chunks = self._exchange.took_hello(hello.message)
            self._socket.settimeout(request_timeout_ms / 1000)
        except OSError as error:
            raise self._lost(error) from error

    def can(self, api_key: int) -> bool:
        """Whether the node serves this API in a version that we know."""
        try:
            self._exchange.version_of(api_key)
        except Unsupported:
            return False
        return True

    def ask(self, api_key: int, body: Body) -> Any:
        """The answer to one request."""
        return self.understand(self.ask_frame(api_key, body))

    def ask_frame(self, api_key: int, body: Body) -> memoryview:
        """The whole answer to one request as it came, for `understand`, before the next one."""
        make = body if callable(body) else lambda version: body
        try:
            _, chunks = self._exchange.ask(api_key, make)
            return self._frame(chunks)
        except Unsupported as error:
            raise BusError(error.code, f"{_name(self.address)}: {error.detail}") from error
        except (OSError, ProtocolError) as error:
            self.close()
            raise self._lost(error) from error

    def understand(self, frame: memoryview) -> Any:
        """The answer that `ask_frame` has brought."""
        try:
            return self._exchange.answer(frame).message
        except ProtocolError as error:
            self.close()
            raise self._lost(error) from error

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _frame(self, chunks: list[Buffer]) -> memoryview:
        for chunk in chunks:
            self._socket.sendall(chunk)
        while True:
            size = self._socket.recv_into(self._exchange.writable())
            if size == 0:
                raise ConnectionResetError("the node closed the connection")
            for frame in self._exchange.receive_frames(size):
                return frame

    def _lost(self, error: Exception) -> BusError:
        code = (
            ErrorCode.REQUEST_TIMED_OUT
            if isinstance(error, TimeoutError)
            else ErrorCode.NETWORK_EXCEPTION
        )
        return BusError(code, f"{_name(self.address)}: {error}")


class Nodes:
    """A cluster: any node, a certain node, or the one that takes administrative requests."""

    def __init__(self, bootstrap_servers: str, client_id: str, **timeouts: int) -> None:
        self._bootstrap = addresses(bootstrap_servers)
        self._client_id = client_id
        self._timeouts = timeouts
        self._known: dict[int, Address] = {}
        self._controller_id = -1
        self._open: dict[Address, NodeConnection] = {}

    def __enter__(self) -> Nodes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, api_key: int, body: Body) -> Any:
        """The answer of the first node that can be reached."""
        failure: BusError | None = None
        for address in self._candidates():
            try:
                return self._at(address).ask(api_key, body)
            except BusError as error:
                if error.code not in _UNREACHED:
                    raise
                self._forget(address)
                failure = error
        raise failure or BusError(ErrorCode.NETWORK_EXCEPTION, "no address was given")

    def can(self, api_key: int) -> bool:
        """Whether the node that answers serves this API."""
        self._learn()
        return any(connection.can(api_key) for connection in self._open.values())

    def ask_node(self, node_id: int, api_key: int, body: Body) -> Any:
        """The answer of a certain broker; BROKER_NOT_AVAILABLE if the cluster has none of this id
        or it does not answer."""
        if node_id not in self._known:
            self._learn()
        address = self._known.get(node_id)
        if address is None:
            raise BusError(
                ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster has no broker {node_id} alive"
            )
        try:
            return self._at(address).ask(api_key, body)
        except BusError as error:
            if error.code in _UNREACHED:
                self._forget(address)
                detail = f"broker {node_id} at {error.detail}"
                raise BusError(ErrorCode.BROKER_NOT_AVAILABLE, detail) from error
            raise

    def ask_controller(self, api_key: int, body: Body) -> Any:
        """The answer of the broker that takes administrative requests, asked again while an
        election moves the controller (NOT_CONTROLLER), CLIENT_CONTROLLER_ATTEMPTS times."""
        answer: Any = None
        for _ in range(CLIENT_CONTROLLER_ATTEMPTS):
            self._learn()
            if self._controller_id in self._known:
                answer = self.ask_node(self._controller_id, api_key, body)
            else:
                answer = self.ask(api_key, body)
            if not any(code == ErrorCode.NOT_CONTROLLER for code in _codes(answer)):
                break
        return answer

    def close(self) -> None:
        """Hang up everywhere."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()

    def _learn(self) -> None:
        answer = self.ask(ApiKey.METADATA, MetadataRequest(allow_auto_topic_creation=False))
        self._known = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._controller_id = answer.controller_id

    def _candidates(self) -> list[Address]:
        """Open connections first, then every known address, then the bootstrap servers."""
        everybody = [*self._open, *self._known.values(), *self._bootstrap]
        return list(dict.fromkeys(everybody))

    def _at(self, address: Address) -> NodeConnection:
        found = self._open.get(address)
        if found is None:
            found = self._open[address] = NodeConnection(
                address, self._client_id, **self._timeouts
            )
        return found

    def _forget(self, address: Address) -> None:
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close()


_UNREACHED = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)


def addresses(bootstrap_servers: str) -> list[Address]:
    """`host:port,host:port`, also with [IPv6]. Raises BusError for what is no address."""
    found = []
    for word in filter(None, (part.strip() for part in bootstrap_servers.split(","))):
        host, colon, port = word.rpartition(":")
        if not colon or not port.isdecimal():
            raise BusError(ErrorCode.INVALID_REQUEST, f"{word!r} is not host:port")
        found.append((host.strip("[]"), int(port)))
    return found


def _name(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _codes(answer: Any) -> Iterator[int]:
    """Every error code of an answer, those of its parts included."""
    with contextlib.suppress(AttributeError):
        yield answer.error_code
    for name in answer.__struct_fields__:
        part = getattr(answer, name)
        if isinstance(part, list):
            for one in part:
                if isinstance(one, msgspec.Struct):
                    yield from _codes(one)
