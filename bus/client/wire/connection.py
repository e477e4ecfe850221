"""One connection to a broker as values: requests to bytes, bytes to responses.

In: requests, and what the socket delivered. Out: chunks to send, and answers by correlation id.
Never: sockets, clocks or retries. Peer links, the mirror and tools put a transport around it.

A connection begins with ApiVersions (`handshake`, KIP-35), and with a login where it has one
(KIP-43, KIP-152); every request then goes in the newest version that both ends know. A broker
answers the requests of one connection one after another, so the answers' correlation ids must come
in the order of the requests: anything else is a fault of the other side.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from bus.client.wire.sasl import LoginRefused, SaslExchange, SaslLogin
from bus.errors import ErrorCode
from bus.limits import MAX_FRAME_BYTES
from bus.protocol.apis import ApiKey, api
from bus.protocol.frames import LENGTH, decode_response, encode_request
from bus.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from bus.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from bus.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from bus.protocol.wire import Buffer, ProtocolError

READ_BUFFER_BYTES = 64 * 1024
"""What one read may bring of small answers; a large answer is read into a buffer of its size."""

SOFTWARE_NAME = "surveillance-data-bus"
SOFTWARE_VERSION = "1"

_MAX_CORRELATION_ID = (1 << 31) - 1


class UnsupportedVersion(ProtocolError):
    """The other side serves no version of this API that we know."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.UNSUPPORTED_VERSION)


class ClientResponse(NamedTuple):
    """One response and the request it belongs to."""

    correlation_id: int
    api_key: int
    api_version: int
    message: Any


class FrameAssembler:
    """Frames out of a stream, for a transport that writes into a buffer it borrows.

    Invariant: a frame handed out owns its memory; the lent buffer may be written again.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._small = memoryview(bytearray(READ_BUFFER_BYTES))
        self._into = self._small
        self._end = 0

    def writable(self) -> memoryview:
        """The buffer the socket may write into next; never empty."""
        return self._into[self._end :]

    def received(self, size: int) -> list[memoryview]:
        """`size` bytes were written into what `writable` lent: the frames that are whole now,
        without their lengths. Raises ProtocolError for what cannot be a Kafka stream."""
        self._end += size
        if self._into is not self._small:
            return self._large_frame()
        frames: list[memoryview] = []
        at = 0
        while (length := self._length_at(at)) is not None:
            start = at + LENGTH.size
            if self._end - start < length:
                break
            frames.append(memoryview(bytes(self._small[start : start + length])))
            at = start + length
            if at == self._end:  # mostly: one answer, and all of it
                self._end = 0
                return frames
        self._compact(at)
        return frames

    def _large_frame(self) -> list[memoryview]:
        if self._end < len(self._into):
            return []
        frame = self._into
        self._into, self._end = self._small, 0
        return [frame]

    def _length_at(self, at: int) -> int | None:
        if self._end - at < LENGTH.size:
            return None
        length: int = LENGTH.unpack_from(self._small, at)[0]
        if not 0 < length <= self._max_frame_bytes:
            raise ProtocolError(f"frame length {length} is not in 1..{self._max_frame_bytes}")
        return length

    def _compact(self, at: int) -> None:
        """Move what is left to where it can grow to a whole frame."""
        rest = self._end - at
        length = self._length_at(at)
        if length is not None and LENGTH.size + length > len(self._small):
            # A large frame gets memory of its own, without its length, and is read in place.
            have = rest - LENGTH.size
            own = memoryview(bytearray(length))
            own[:have] = self._small[at + LENGTH.size : self._end]
            self._into, self._end = own, have
            return
        if at and rest:
            self._small[:rest] = bytes(self._small[at : self._end])
        self._end = rest


class ClientConnection:
    """Requests and answers of one connection, first in, first out.

    Invariant: `_in_flight` holds what was sent and not yet answered, oldest first.
    Life: create, `handshake`, answers to `on_handshake` until it gives None, then `send` and
    `receive` until the connection ends.
    """

    def __init__(
        self,
        client_id: str,
        max_frame_bytes: int = MAX_FRAME_BYTES,
        login: SaslLogin | None = None,
    ) -> None:
        self._client_id = client_id
        self._login = login
        self._exchange: SaslExchange | None = None
        self._assembler = FrameAssembler(max_frame_bytes)
        self._in_flight: deque[tuple[int, int, int]] = deque()
        self._next_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        self._negotiated: dict[tuple[int, int | None], int] = {}
        self.session_ms = 0
        """How long the login counts, from its last answer on; 0: as long as the connection."""

    def log_in_with(self, login: SaslLogin) -> None:
        """Another login than at first, before the handshake."""
        self._login = login

    @property
    def ready(self) -> bool:
        """Whether the other side has said what it serves."""
        return self._versions is not None

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """What the other side serves, both ends inclusive; empty before the handshake."""
        return self._versions or {}

    @property
    def in_flight(self) -> int:
        """Requests not yet answered."""
        return len(self._in_flight)

    def handshake(self, version: int | None = None) -> list[Buffer]:
        """The first request: which versions does the other side serve?"""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        newest = api(ApiKey.API_VERSIONS).latest
        return self._frame(ApiKey.API_VERSIONS, newest if version is None else version, request)[1]

    def version_of(self, api_key: int, max_version: int | None = None) -> int:
        """The newest version of an API that both ends have. Raises `UnsupportedVersion`."""
        settled = self._negotiated.get((api_key, max_version))
        if settled is not None:
            return settled
        info = api(api_key)
        low, high = self.versions.get(api_key, (0, -1))
        highest = min(high, info.latest if max_version is None else max_version)
        if highest < max(low, info.first_version):
            raise UnsupportedVersion(
                f"{info.name}: they have {low}..{high}, we {info.first_version}..{info.latest}"
            )
        self._negotiated[api_key, max_version] = highest
        return highest

    def send(
        self, api_key: int, make_body: Callable[[int], object], max_version: int | None = None
    ) -> tuple[int, list[Buffer]]:
        """A request in the negotiated version: its correlation id and the chunks to send."""
        version = self.version_of(api_key, max_version)
        return self._frame(api_key, version, make_body(version))

    def expect_no_response(self) -> None:
        """Forget the last request: it gets no answer (acks=0)."""
        self._in_flight.pop()

    def writable(self) -> memoryview:
        """Where the socket may write next."""
        return self._assembler.writable()

    def receive(self, size: int) -> list[ClientResponse]:
        """`size` bytes came: the answers that are whole now. Raises ProtocolError."""
        return [self.decode(frame) for frame in self._assembler.received(size)]

    def receive_frames(self, size: int) -> list[memoryview]:
        """As `receive`, for callers that decode later: each frame then goes to `answer`, in this
        order."""
        return self._assembler.received(size)

    def feed(self, data: Buffer) -> list[ClientResponse]:
        """As `receive`, for a transport that brings its own memory."""
        answers: list[ClientResponse] = []
        left = memoryview(data)
        while len(left):
            into = self.writable()
            size = min(len(into), len(left))
            into[:size] = left[:size]
            answers += self.receive(size)
            left = left[size:]
        return answers

    def on_handshake(self, message: object) -> list[Buffer] | None:
        """An answer before the first request. None: requests may follow; else chunks of what
        follows: another handshake, in a version that the other side knows (KIP-511), or a step of
        the login. Raises `UnsupportedVersion`, `LoginRefused`, ProtocolError."""
        match message:
            case ApiVersionsResponse():
                return self._on_versions(message)
            case SaslHandshakeResponse():
                return self._on_mechanism(message)
            case SaslAuthenticateResponse():
                return self._on_token(message)
        raise ProtocolError(f"{type(message).__name__} came before the first request")

    def _on_versions(self, message: ApiVersionsResponse) -> list[Buffer] | None:
        if message.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = [one for one in message.api_keys if one.api_key == ApiKey.API_VERSIONS]
            version = spoken[0].max_version if spoken else 0
            if version >= api(ApiKey.API_VERSIONS).latest:
                raise UnsupportedVersion("no version of ApiVersions is known to both ends")
            return self.handshake(version)
        if message.error_code:
            raise ProtocolError(f"ApiVersions was answered with error {message.error_code}")
        self._negotiated.clear()
        self._versions = {
            one.api_key: (one.min_version, one.max_version) for one in message.api_keys
        }
        if self._login is None:
            return None
        asked = SaslHandshakeRequest(self._login.mechanism)
        return self.send(ApiKey.SASL_HANDSHAKE, lambda _: asked)[1]

    def _on_mechanism(self, message: SaslHandshakeResponse) -> list[Buffer] | None:
        login = cast(SaslLogin, self._login)
        if message.error_code:
            offered = ", ".join(message.mechanisms) or "none"
            name = ErrorCode.of(message.error_code).name
            raise LoginRefused(
                f"{name}: {login.mechanism} is not offered at this listener, these are: {offered}"
            )
        self._exchange = login.begin()
        return self._token(self._exchange.first())

    def _on_token(self, message: SaslAuthenticateResponse) -> list[Buffer] | None:
        login, exchange = cast(SaslLogin, self._login), cast(SaslExchange, self._exchange)
        if message.error_code:
            why = message.error_message or ErrorCode.of(message.error_code).name
            raise LoginRefused(f"user {login.user!r} is not let in with {login.mechanism}: {why}")
        token = exchange.answer(message.auth_bytes)
        if token is None:
            self.session_ms = message.session_lifetime_ms
            return None
        return self._token(token)

    def _token(self, token: bytes) -> list[Buffer]:
        return self.send(ApiKey.SASL_AUTHENTICATE, lambda _: SaslAuthenticateRequest(token))[1]

    def _frame(self, key: int, version: int, body: object) -> tuple[int, list[Buffer]]:
        correlation_id = self._next_id
        chunks = encode_request(key, version, correlation_id, self._client_id, body)
        self._next_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        self._in_flight.append((correlation_id, key, version))
        return correlation_id, chunks

    def decode(self, frame: memoryview) -> ClientResponse:
        """The response in a frame of `receive_frames`. Raises ProtocolError."""
        if not self._in_flight:
            raise ProtocolError("an answer came without a request")
        expected, key, version = self._in_flight.popleft()
        correlation_id, message = decode_response(key, version, frame)
        if correlation_id != expected:
            raise ProtocolError(f"answer {correlation_id} came where {expected} was due")
        return ClientResponse(correlation_id, key, version, message)
