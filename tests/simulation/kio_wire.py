"""A connection that frames and reads messages with `kio`.

In: kio's requests. Out: kio's responses, or `WireError`. Never: retries, negotiation, or the
product's codec.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import struct
from functools import cache
from typing import Any, cast

from kio import index
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

from tests.simulation.network import ProcessNetwork
from tests.simulation.wire import CONNECT_TIMEOUT_S, WireError

READ_BYTES = 1 << 16
_LENGTH = struct.Struct(">i")


@cache
def _reader(api_key: int, version: int) -> tuple[Any, Any]:
    """The readers of an answer's header and body."""
    response = index.load_response_schema(api_key, version)
    return entity_reader(response.__header_schema__), entity_reader(response)


class KioWire(asyncio.BufferedProtocol):
    """One connection. Invariant: `_waiting` has a future for every request without an answer."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Any], int, int]] = {}
        self._transport: asyncio.Transport | None = None
        self._room = bytearray(READ_BYTES)
        self._unread = bytearray()
        self.lost = False

    @classmethod
    async def open(cls, network: ProcessNetwork, host: str, port: int, client_id: str) -> KioWire:
        """Connect."""
        wire = cls(client_id)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await network.connect(host, port, lambda: wire)
        except (OSError, TimeoutError) as error:
            wire.drop()
            raise WireError(f"{host}:{port}: {error or 'no connection in time'}") from None
        return wire

    async def ask(self, key: int, body: Any, *, timeout_s: float) -> Any:
        """Sends one request in the version of its class; returns its answer."""
        number = self._send(body)
        future = asyncio.get_running_loop().create_future()
        self._waiting[number] = future, int(body.__api_key__), int(body.__version__)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            self.drop()
            raise WireError(f"no answer to {type(body).__name__} in {timeout_s:g} s") from None
        except asyncio.CancelledError:
            self.drop()
            raise

    def send_unanswered(self, key: int, body: Any) -> None:
        """Sends a request that gets no answer (acks=0)."""
        self._send(body)

    def _send(self, body: Any) -> int:
        if self.lost:
            raise WireError("the connection is lost")
        number = next(self._numbers)
        header = body.__header_schema__(
            request_api_key=i16(body.__api_key__),
            request_api_version=i16(body.__version__),
            correlation_id=i32(number),
            client_id=self._client_id,
        )
        with io.BytesIO() as out:
            entity_writer(type(header))(out, header)
            entity_writer(type(body))(out, body)
            frame = out.getvalue()
        cast(asyncio.Transport, self._transport).write(_LENGTH.pack(len(frame)) + frame)
        return number

    def drop(self) -> None:
        """Closes the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
        self._fail("dropped")

    # --- asyncio's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._room)

    def buffer_updated(self, nbytes: int) -> None:
        self._unread += memoryview(self._room)[:nbytes]
        while len(self._unread) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._unread)
            end = _LENGTH.size + size
            if len(self._unread) < end:
                return
            frame = bytes(self._unread[_LENGTH.size : end])
            del self._unread[:end]
            self._answered(frame)

    def _answered(self, frame: bytes) -> None:
        (number,) = _LENGTH.unpack_from(frame)
        future, api_key, version = self._waiting.pop(number)
        read_header, read_body = _reader(api_key, version)
        _, size = read_header(frame, 0)
        answer, length = read_body(frame, size)
        if size + length != len(frame):
            raise ValueError(f"{len(frame) - size - length} bytes behind the answer to {api_key}")
        if not future.done():
            future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(str(exc or "closed by the other side"))

    def _fail(self, text: str) -> None:
        self.lost = True
        waiting, self._waiting = self._waiting, {}
        for future, _, _ in waiting.values():
            if not future.done():
                future.set_exception(WireError(text))
