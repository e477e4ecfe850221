"""What every handler gets from its context: the client's session, permission, throttling."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, cast

import pytest

import broker
from broker.clock.real import RealClock
from broker.handlers.connection_control import EnvelopeConnection, NoConnection
from broker.handlers.context import RequestContext
from broker.handlers.dispatch import Dispatcher, EncodeOnce
from broker.handlers.listener_type import ListenerType
from broker.metrics.registry import Metrics
from broker.security.principal import Principal
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import Session
from bus.errors import CloseConnection, ErrorCode
from bus.protocol.apis import APIS
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from bus.protocol.generated.heartbeat import HeartbeatResponse
from bus.protocol.generated.metadata import MetadataRequest
from bus.protocol.generated.vote import VoteResponse


class MutedConnection(NoConnection):
    """Remembers for how long it was muted."""

    def __init__(self) -> None:
        super().__init__(Session("10.0.0.1"))
        self.muted_ms: list[int] = []

    def mute(self, throttle_time_ms: int) -> None:
        self.muted_ms.append(throttle_time_ms)


def context_of(connection: NoConnection, encode: Any, sent: list[Any]) -> RequestContext:
    services = cast(Any, None)
    return RequestContext(
        services, connection, ListenerType.BROKER, 4, 7, "c", encode, sent.append
    )


def test_a_throttled_request_is_answered_with_the_time_and_its_connection_is_muted() -> None:
    """Of several throttles the longest counts, in the response and for the connection."""
    connection, sent = MutedConnection(), []
    context = context_of(connection, lambda _, response: response, sent)
    for throttle_time_ms in (0, 200, 100, 300):
        context.throttle(throttle_time_ms)
    context.reply(HeartbeatResponse(error_code=3))
    assert sent == [HeartbeatResponse(error_code=3, throttle_time_ms=300)]
    assert connection.muted_ms == [200, 300]


def test_a_response_without_the_field_is_sent_as_it_is() -> None:
    connection, sent = MutedConnection(), []
    context = context_of(connection, lambda _, response: response, sent)
    context.throttle(200)
    context.reply(VoteResponse())
    assert sent == [VoteResponse()]
    assert connection.muted_ms == [200]


def test_a_throttled_client_does_not_throttle_those_who_get_the_same_object() -> None:
    """ApiVersions returns one object to all; its bytes are kept."""
    shared, sent = ApiVersionsResponse(), []
    encode = EncodeOnce(18, 4)
    contexts = [context_of(MutedConnection(), encode, sent) for _ in range(3)]
    contexts[1].throttle(200)
    for context in contexts:
        context.reply(shared)
    times = [decode_response(18, 4, b"".join(one)[4:])[1].throttle_time_ms for one in sent]
    assert times == [0, 200, 0]


def test_nothing_else_sets_the_time_of_a_throttle() -> None:
    """`reply` is the one place: a handler that set it would mute nobody."""
    found = []
    for path in Path(broker.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "throttle_time_ms":
                found.append(path.name)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found += [path.name] * (node.attr == "throttle_time_ms")
    assert found == ["context.py"]


def test_a_context_names_the_principal_of_the_present_authentication() -> None:
    """A request that waits while its client authenticates again goes on as the new principal."""
    connection = MutedConnection()
    context = context_of(connection, None, [])
    connection.session.principal = Principal("User", "bob")
    assert context.session.principal == Principal("User", "bob")


def test_what_cannot_be_answered_in_an_envelope_is_refused_to_its_broker() -> None:
    refused: list[ErrorCode] = []
    connection = EnvelopeConnection(Session("10.0.0.1"), refused.append)

    def encode(correlation_id: int, response: object) -> Any:
        raise ValueError(response)

    context_of(connection, encode, []).reply(HeartbeatResponse())
    context_of(connection, encode, []).reply_error(19, None, ErrorCode.NOT_CONTROLLER)
    assert refused == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER]


@pytest.mark.parametrize("protocol", [one for one in SecurityProtocol if one.has_sasl])
def test_no_handler_is_called_before_the_client_is_authenticated(
    protocol: SecurityProtocol,
) -> None:
    """Not even decoded: the connection is closed, and ApiVersions in an unknown version, with
    which every client may begin, is answered."""
    services: Any = type("NoServices", (), {"clock": RealClock()})()
    dispatcher = Dispatcher(services, Metrics(), ListenerType.BROKER)
    connection = NoConnection(Session("10.0.0.1", "OUTSIDE", protocol))
    sent: list[Any] = []
    for key in APIS:
        if not connection.session.serves(key):
            head = b"".join(encode_request(3, 9, 1, "c", MetadataRequest()))[4:]
            frame = key.to_bytes(2, "big") + head[2:]
            with pytest.raises(CloseConnection, match="before the client's authentication"):
                dispatcher.dispatch(memoryview(frame), connection, sent.append)
    frame = bytearray(b"".join(encode_request(18, 4, 1, "c", ApiVersionsRequest())))[4:]
    frame[2:4] = (99).to_bytes(2, "big")
    dispatcher.dispatch(memoryview(frame), connection, sent.append)
    assert len(sent) == 1
