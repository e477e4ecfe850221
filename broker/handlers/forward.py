"""Forwards requests for the controller from a broker that is not the active one (KIP-590).

The client gets the active controller's response unchanged. The broker decides nothing: it sends
the request in an Envelope that names the client's principal and address.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from ipaddress import ip_address

from broker.clock.port import Clock, TaskHandle
from broker.handlers.context import RequestContext
from broker.handlers.registry import Handle
from broker.handlers.services import ForwardableRequest
from broker.peer.controller_channel import ControllerChannel
from bus.client.wire.errors import PeerError, PeerErrorKind
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import LENGTH, decode_response, encode_request

log = logging.getLogger("broker.handlers")

_WITH_QUOTA = frozenset(
    {ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS}
)
"""What the controller may answer with a time to wait, for which this broker mutes its client."""

MAX_FORWARDED = 512
"""Requests under way at a time. Administrators' requests are few; a client in a loop must not fill
the broker with waiting tasks and gets a retriable error."""


def or_forward(handle: Handle, key: int) -> Handle:
    """`handle` where this node is the active controller, forwarding elsewhere."""

    def handle_or_forward(request: object, context: RequestContext) -> object | None:
        if context.services.control_plane.controller.is_active:
            return handle(request, context)
        context.services.forwarding.forward(key, request, context)
        return None

    return handle_or_forward


class ForwardingManager:
    """Forwards requests to the active controller.

    Invariant: each request is answered exactly once, by the controller or with an error.
    """

    def __init__(
        self, clock: Clock, link: ControllerChannel, timeout_ms: Callable[[], int]
    ) -> None:
        self._clock = clock
        self._link = link
        self._timeout_ms = timeout_ms
        self._tasks: dict[int, TaskHandle] = {}
        self._next = 0

    def forward(self, key: int, request: object, context: ForwardableRequest) -> None:
        """Forward `request`; the client gets the controller's response."""
        if len(self._tasks) >= MAX_FORWARDED:
            context.reply_error(key, request, ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            return
        number = self._next = self._next + 1
        self._tasks[number] = self._clock.spawn(
            self._forward(number, key, request, context), name="forwarded request"
        )

    def stop(self) -> None:
        """Cancel all requests under way."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _forward(
        self, number: int, key: int, request: object, context: ForwardableRequest
    ) -> None:
        try:
            answer = await self._link.request(
                ApiKey.ENVELOPE, _envelope(key, request, context), timeout_ms=self._timeout_ms()
            )
        except PeerError as error:
            context.reply_error(key, request, _as_error_code(error))
        except Exception:  # what a client sent cannot be put into an envelope
            log.exception("a request of %s cannot be forwarded", context.session.host)
            context.reply_error(key, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if answer.error_code or answer.response_data is None:
                context.reply_error(key, request, ErrorCode.of(answer.error_code))
            else:
                data = answer.response_data
                if key in _WITH_QUOTA:
                    _, response = decode_response(key, context.api_version, data)
                    context.throttle(response.throttle_time_ms)
                context.reply_frame((LENGTH.pack(len(data)), data))
        finally:
            self._tasks.pop(number, None)


def _envelope(key: int, request: object, context: ForwardableRequest) -> object:
    # Imported at the first use: a broker that is alone never forwards.
    from broker.security.principal_data import encode_principal
    from bus.protocol.generated.envelope import EnvelopeRequest

    chunks = encode_request(
        key, context.api_version, context.correlation_id, context.client_id, request
    )
    return EnvelopeRequest(
        request_data=b"".join(chunks)[LENGTH.size :],
        request_principal=encode_principal(context.session.principal),
        client_host_address=ip_address(context.session.host).packed,
    )


def _as_error_code(error: PeerError) -> ErrorCode:
    if error.kind is PeerErrorKind.UNSUPPORTED_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.REQUEST_TIMED_OUT
