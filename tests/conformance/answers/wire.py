"""Builds requests from fields, and sends them over one blocking connection that reads the answers.

In: an address, requests by field names. Out: decoded answers. Never: retries or negotiation: the
version is the requested one.
"""

from __future__ import annotations

import socket
import types
import typing
from collections import deque
from typing import Any

from msgspec import Struct

from bus.protocol.apis import api
from bus.protocol.frames import LENGTH, decode_response, encode_request

ANSWER_TIMEOUT_S = 15.0
"""A broker without an answer by then will not answer; Kafka's own waits in these rows are
shorter."""

TIMEOUT_MS = 10_000
"""With the protocol's default of 0 Kafka would answer REQUEST_TIMED_OUT to many changes that it
makes."""

CLIENT_ID = "answers"


class Closed(Exception):
    """The broker ended the connection instead of answering."""


def request_of(key: int, fields: typing.Mapping[str, Any]) -> Struct:
    """The request of an API with these fields; a missing timeout gets a sufficient default.

    Raises TypeError for an unknown field.
    """
    module = api(key).module
    [kind] = [getattr(module, name) for name in vars(module) if name == f"{_title(module)}Request"]
    patient = {"timeout_ms": TIMEOUT_MS} if "timeout_ms" in kind.__struct_fields__ else {}
    made: Struct = _filled(kind, {**patient, **fields})
    return made


def _title(module: types.ModuleType) -> str:
    return "".join(word.capitalize() for word in module.__name__.rpartition(".")[2].split("_"))


def _filled(kind: Any, value: Any) -> Any:
    """Converts `value` to `kind`: mappings become messages at any depth."""
    if value is None:
        return None
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(one for one in typing.get_args(kind) if one is not types.NoneType)
    if typing.get_origin(kind) is list:
        return [_filled(typing.get_args(kind)[0], one) for one in value]
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = typing.get_type_hints(kind)
        return kind(**{name: _filled(hints.get(name), one) for name, one in value.items()})
    return value


class KioConnection:
    """One client's connection. Invariant: `_asked` has the requests without answer, oldest
    first."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._asked: deque[tuple[int, int]] = deque()
        self._next_id = 1

    def send(self, key: int, version: int, request: Struct) -> None:
        """Sends a request; `receive` reads its answer. Raises Closed."""
        frame = b"".join(encode_request(key, version, self._next_id, CLIENT_ID, request))
        self._next_id += 1
        self._asked.append((key, version))
        try:
            self._socket.sendall(frame)
        except ConnectionError:
            raise Closed from None

    def receive(self) -> Struct:
        """Reads the answer to the oldest request. Raises Closed, TimeoutError."""
        key, version = self._asked.popleft()
        (length,) = LENGTH.unpack(self._exactly(LENGTH.size))
        _, message = decode_response(key, version, self._exactly(length))
        answer: Struct = message
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except ConnectionError:
                raise Closed from None
            if not more:
                raise Closed
            data += more
        return bytes(data)
