"""Decodes a frame, calls the API's handler and encodes its response.

In: one frame, its connection, where the response goes. Out: the response, now or later.
Never: sockets. Raises `CloseConnection` or the codec's `ProtocolError` for what cannot be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from broker.handlers.connection_control import Chunks, ConnectionControl, NoConnection
from broker.handlers.context import RequestContext
from broker.handlers.forward import or_forward
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import SERVED, Handle, is_served, load_handler, version_range
from broker.handlers.services import Services
from broker.handlers.throttled_api import THROTTLED_KINDS, Decode, ThrottledApi
from broker.metrics.registry import Histogram, Meter, Metrics
from broker.security.principal import THIS_NODE
from broker.security.session import AuthenticationState, Session
from bus.errors import CloseConnection
from bus.protocol.apis import APIS, ApiKey
from bus.protocol.frames import LENGTH, encode_response, request_header

API_VERSIONS = ApiKey.API_VERSIONS
AUTHENTICATED = AuthenticationState.AUTHENTICATED
LOCALHOST = "127.0.0.1"
NO_BROKER = -1
_OF_CLIENTS = frozenset({"broker", "mirror"})
"""Listeners of the tables where others than brokers and controllers send requests."""


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """One API in one version, ready to be called."""

    decode: Callable[[memoryview, int], tuple[object, int]]
    handle: Handle
    encode: Callable[[int, Any], Chunks]
    services: Services
    """Those planes that its row names."""
    requests: Meter
    total_time_ms: Histogram


class EncodeOnce:
    """The encoder of an API whose handler returns the same object repeatedly: only the correlation
    id, which begins a response after its length, is new."""

    def __init__(self, key: int, version: int) -> None:
        self._key, self._version = key, version
        self._response: object = None
        self._length = self._rest = b""

    def __call__(self, correlation_id: int, response: object) -> Chunks:
        if response is not self._response:
            frame = b"".join(encode_response(self._key, self._version, 0, response))
            self._length, self._rest = frame[: LENGTH.size], frame[2 * LENGTH.size :]
            self._response = response
        return (self._length + LENGTH.pack(correlation_id) + self._rest,)


class Dispatcher:
    """Finds the handler of a request; handlers are created on their first use.

    One per type of listener: which APIs it does not serve, and which it forwards to the active
    controller, is decided when the handler is created and costs a request nothing.
    """

    def __init__(
        self,
        services: Services,
        metrics: Metrics,
        listener_type: ListenerType = ListenerType.BROKER,
    ) -> None:
        self._services = services
        self._metrics = metrics
        self._listener_type = listener_type
        self._now = services.clock.monotonic
        self._handlers: dict[tuple[int, int], ApiHandler] = {}

    def dispatch(
        self,
        frame: memoryview,
        connection: ConnectionControl,
        set_response: Callable[[Chunks], None],
    ) -> None:
        """Handle one request. Bytes after its body are ignored, as Kafka does: librdkafka sends a
        few after some Metadata requests."""
        header, offset = request_header(frame)
        key, version = header.api_key, header.api_version
        session = connection.session
        if session.state is not AUTHENTICATED and not session.serves(key):
            raise CloseConnection(f"API {key} came before the client's authentication")
        session.client_id = header.client_id
        handler = self._handlers.get((key, version)) or self._resolve(key, version)
        if handler is None:
            set_response(self._unknown_api_versions(header.correlation_id))
            return
        handler.requests.count += 1
        request, _ = handler.decode(frame, offset)
        context = RequestContext(
            handler.services, connection, self._listener_type, version, header.correlation_id,
            header.client_id, handler.encode, self._timed(handler.total_time_ms, set_response),
        )
        response = handler.handle(request, context)
        if response is not None:
            context.reply(response)

    def _timed(
        self, total_time_ms: Histogram, set_response: Callable[[Chunks], None]
    ) -> Callable[[Chunks], None]:
        """Measure until the response is ready, waiting included; costs about half a microsecond."""
        now = self._now
        began = now()

        def filled(chunks: Chunks) -> None:
            total_time_ms.update((now() - began) * 1000)
            set_response(chunks)

        return filled

    def forget_handlers(self) -> None:
        """Create them again at their next request: another kind of quota is in force."""
        self._handlers.clear()

    def _resolve(self, key: int, version: int) -> ApiHandler | None:
        """Create the handler; None for a version of ApiVersions that we do not know."""
        if not is_served(key, self._listener_type):
            raise CloseConnection(f"API {key} is not served here")
        low, high = version_range(key)
        if not low <= version <= high:
            if key == API_VERSIONS:
                return None
            raise CloseConnection(f"{APIS[key].name} version {version} is not in {low}-{high}")
        decode, handle = self._metered(
            key, APIS[key].request_decoder(version), self._load_handler(key)
        )
        handler = ApiHandler(
            decode=decode,
            handle=handle,
            encode=(
                EncodeOnce(key, version)
                if key == API_VERSIONS
                else partial(encode_response, key, version)
            ),
            services=self._services.only(SERVED[key].needs),
            requests=self._metrics.meter(
                "RequestMetrics", "RequestsPerSec", request=APIS[key].name, version=str(version)
            ),
            total_time_ms=self._metrics.histogram(
                "RequestMetrics", "TotalTimeMs", request=APIS[key].name
            ),
        )
        self._handlers[key, version] = handler
        return handler

    def call(self, key: int, body: Any) -> asyncio.Future[Any]:
        """A request of this process to itself, in the newest version and without encoding."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def fill(chunks: Any) -> None:
            if not answer.done():
                answer.set_result(chunks)

        session = Session(LOCALHOST, principal=THIS_NODE)
        context = RequestContext(
            self._services.only(SERVED[key].needs), NoConnection(session),
            self._listener_type,
            APIS[key].latest, 0, None, lambda _, body: body, fill,
        )  # fmt: skip
        response = load_handler(key)(body, context)
        if response is not None:
            context.reply(response)
        return answer

    def _load_handler(self, key: int) -> Handle:
        handle = load_handler(key)
        served = SERVED[key]
        if not _OF_CLIENTS.intersection(APIS[key].listeners):
            handle = _as_broker(handle)
        if (
            served.forwarded
            and not served.decides_forwarding
            and self._listener_type is not ListenerType.CONTROLLER
        ):
            return or_forward(handle, key)
        return handle

    def _metered(self, key: int, decode: Decode, handle: Handle) -> tuple[Decode, Handle]:
        """Decoder and handler, which count against quotas while there are some: what clients send
        to brokers does, and nothing of a mirror or a controller."""
        limited = self._services.client_quotas.limited
        if (
            not limited & THROTTLED_KINDS
            or self._listener_type & (ListenerType.CONTROLLER | ListenerType.MIRROR)
            or not _OF_CLIENTS.intersection(APIS[key].listeners)
        ):
            return decode, handle
        metered = ThrottledApi(key, decode, handle, limited, self._now)
        return metered.decode, metered.handle

    def _unknown_api_versions(self, correlation_id: int) -> Chunks:
        """A client newer than this broker gets the served versions in version 0 (KIP-511)."""
        from broker.handlers.k18_api_versions import unsupported

        return encode_response(API_VERSIONS, 0, correlation_id, unsupported())


def _as_broker(handle: Handle) -> Handle:
    """Only brokers and controllers send this: their connections wait for no client's turn."""

    def handle_as_broker(request: object, context: RequestContext) -> object | None:
        context.connection.mark_as_broker(NO_BROKER, 0)
        return handle(request, context)

    return handle_as_broker
