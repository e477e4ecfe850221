"""Envelope (58).

Behaviour: a request that a broker forwards for its client, handled as if that client had sent it:
with its principal and its address. The inner response is returned as bytes. Only forwarded APIs are
accepted inside; a node that is not the active controller responds with NOT_CONTROLLER, also when it
lost that role while the request waited, so that the broker retries.

Versions: 0.
"""

from __future__ import annotations

from ipaddress import ip_address

from broker.handlers.connection_control import Chunks, EnvelopeConnection
from broker.handlers.context import RequestContext
from broker.handlers.registry import SERVED
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from broker.security.principal_data import decode_principal
from broker.security.session import Session
from bus.errors import CloseConnection, ErrorCode
from bus.protocol.apis import APIS
from bus.protocol.frames import LENGTH, request_header
from bus.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from bus.protocol.wire import ProtocolError


def handle(request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse | None:
    """Unpack, check, hand to the dispatcher of the controller's side."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not context.services.control_plane.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    frame = memoryview(request.request_data)
    error = _checked(frame)
    if error:
        return EnvelopeResponse(error_code=error)
    try:
        session = _session(request, context)
    except (ProtocolError, ValueError):
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    answered = False

    def answer(response: EnvelopeResponse) -> None:
        nonlocal answered
        if not answered:
            answered = True
            context.reply(response)

    def fill(chunks: Chunks) -> None:
        answer(EnvelopeResponse(response_data=b"".join(chunks)[LENGTH.size :]))

    connection = EnvelopeConnection(
        session, lambda error: answer(EnvelopeResponse(error_code=error))
    )
    try:
        context.services.forwarding.dispatch_envelope(frame, connection, fill)
    except (CloseConnection, ProtocolError):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    return None


def _checked(frame: memoryview) -> ErrorCode:
    """Whether the frame in the envelope is a request that may be forwarded."""
    try:
        header, _ = request_header(frame)
    except ProtocolError:
        return ErrorCode.INVALID_REQUEST
    served = SERVED.get(header.api_key)
    if served is None or not served.forwarded:
        return ErrorCode.INVALID_REQUEST
    if not APIS[header.api_key].has(header.api_version):
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


def _session(request: EnvelopeRequest, context: RequestContext) -> Session:
    return Session(
        host=str(ip_address(request.client_host_address)),
        listener=context.session.listener,
        principal=decode_principal(request.request_principal or b""),
    )
