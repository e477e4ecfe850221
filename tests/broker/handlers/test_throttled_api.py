"""What a client is told for given bytes at given times, at the dispatcher, by a clock of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from broker.handlers.connection_control import EnvelopeConnection, NoConnection
from broker.handlers.dispatch import Dispatcher
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import SERVED
from broker.metrics.registry import Metrics
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.quota_rate import QuotaWindows
from broker.security.principal import Principal
from broker.security.session import Session
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from bus.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from bus.protocol.generated.produce import ProduceRequest, ProduceResponse
from tests.broker.handlers.test_context import MutedConnection

WINDOWS = QuotaWindows(11, 1000)
RESPONSES = {
    ApiKey.PRODUCE: ProduceResponse(),
    ApiKey.HEARTBEAT: HeartbeatResponse(),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochResponse(),
}
ANN = Principal("User", "ann")


class ClockedDispatcher:
    """A dispatcher whose handlers take a time and answer at once, or when asked to."""

    def __init__(self, kind: ListenerType = ListenerType.BROKER) -> None:
        self.now_s = 0.0
        self.cost_s = 0.0
        self.later = False
        self.replies: list[Callable[[], None]] = []
        self.quotas = ClientQuotas(
            WINDOWS, WINDOWS, lambda throttle: None, lambda *who: None, frozenset({"MIRROR"})
        )
        services = cast(Any, self)
        self.clock = services
        self.dispatcher = Dispatcher(services, Metrics(), kind)
        self.quotas.on_limited.append(self.dispatcher.forget_handlers)
        self.client_quotas = self.quotas

    def monotonic(self) -> float:
        return self.now_s

    def only(self, needs: object) -> ClockedDispatcher:
        return self

    def handle(self, key: int, request: object, context: Any) -> object | None:
        self.now_s += self.cost_s
        if self.later:
            self.replies.append(lambda: context.reply(RESPONSES[ApiKey(key)]))
            return None
        return RESPONSES[ApiKey(key)]

    def limit(self, **values: float) -> None:
        """The quotas of the user ann; none without."""
        self.quotas.follow({(("user", "ann"),): values} if values else {})

    def send(
        self, key: int, version: int, request: Any, connection: NoConnection, size_bytes: int = 0
    ) -> list[Any]:
        """A frame of this size; the responses so far."""
        frame = b"".join(encode_request(key, version, 1, "c", request))[4:]
        frame += bytes(max(size_bytes - len(frame), 0))  # bytes behind a request are ignored
        sent: list[Any] = []

        def answered(chunks: Any) -> None:
            sent.append(decode_response(key, version, b"".join(chunks)[4:])[1])

        self.dispatcher.dispatch(memoryview(frame), connection, answered)
        return sent


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> ClockedDispatcher:
    one = ClockedDispatcher()
    monkeypatch.setattr(
        "broker.handlers.dispatch.load_handler",
        lambda key: lambda request, context: one.handle(key, request, context),
    )
    return one


def client(listener: str = "PLAINTEXT") -> MutedConnection:
    connection = MutedConnection()
    connection.session = Session("10.0.0.1", listener, principal=ANN)
    return connection


def produce(served: ClockedDispatcher, connection: NoConnection, size_bytes: int) -> int:
    (response,) = served.send(ApiKey.PRODUCE, 9, ProduceRequest(acks=1), connection, size_bytes)
    return int(response.throttle_time_ms)


def test_a_producer_is_told_to_wait_for_what_it_sent_by_the_second(served: ClockedDispatcher) -> None:
    """1000 bytes a second: ten seconds of it are free, then what is too much is waited for; eleven
    seconds after its last use nothing of a sample counts."""
    served.limit(producer_byte_rate=1000.0)
    connection = client()
    told = []
    for now_s, size_bytes in ((0, 4000), (0.5, 6000), (1.5, 1000), (2, 5000), (13, 11_000)):
        served.now_s = now_s
        told.append(produce(served, connection, size_bytes))
    assert told == [0, 0, 500, 6000, 1000]
    assert connection.muted_ms == [500, 6000, 1000]


def test_without_a_quota_decoder_and_handler_stand_alone(served: ClockedDispatcher) -> None:
    """No request pays for what is not limited; a quota counts from the next request on, and no
    more after it is taken back."""
    connection = client()
    plain = [produce(served, connection, 1 << 20), served.dispatcher._handlers[0, 9].handle]
    served.limit(producer_byte_rate=1000.0)
    assert produce(served, connection, 20_000) == 10_000
    served.limit(consumer_byte_rate=1000.0)
    assert produce(served, connection, 1 << 20) == 0
    assert [type(one) for one in plain] == [int, type(lambda: None)]
    assert type(served.dispatcher._handlers[0, 9].handle) is type(lambda: None)


def test_time_counts_until_the_handler_has_answered(served: ClockedDispatcher) -> None:
    """10 % of the loop: a second of it in ten."""
    served.limit(request_percentage=10.0)
    connection = client()
    served.cost_s = 1.0
    (response,) = served.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(), connection)
    assert response.throttle_time_ms == 0
    served.cost_s = 0.05
    (response,) = served.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(), connection)
    assert (response.throttle_time_ms, connection.muted_ms) == (450, [450])


def test_time_in_which_an_answer_waits_for_something_else_does_not_count(served: ClockedDispatcher) -> None:
    """The answer says later what its handler used."""
    served.limit(request_percentage=1.0)
    connection, served.later, served.cost_s = client(), True, 0.2
    sent = served.send(ApiKey.HEARTBEAT, 4, HeartbeatRequest(), connection)
    assert (sent, connection.muted_ms) == ([], [1000])
    served.now_s += 3600
    for reply in served.replies:
        reply()
    assert [one.throttle_time_ms for one in sent] == [1000]
    assert connection.muted_ms == [1000]


def test_replicas_and_exempt_listeners_use_what_they_need(served: ClockedDispatcher) -> None:
    served.limit(request_percentage=0.001, producer_byte_rate=1.0)
    served.cost_s = 1.0
    key, of_replica = ApiKey.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest(replica_id=2)
    for connection, request in ((client(), of_replica), (client("MIRROR"), OffsetForLeaderEpochRequest())):
        (response,) = served.send(key, 4, request, connection)
        assert (response.throttle_time_ms, connection.muted_ms) == (0, [])
    assert produce(served, client("MIRROR"), 1 << 20) == 0
    assert produce(served, client(), 1 << 20) > 0


@pytest.mark.parametrize("kind", [ListenerType.CONTROLLER, ListenerType.BROKER | ListenerType.MIRROR])
def test_listeners_of_controllers_and_of_the_mirror_have_no_meters(
    kind: ListenerType, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ClockedDispatcher(kind)
    monkeypatch.setattr(
        "broker.handlers.dispatch.load_handler",
        lambda key: lambda request, context: one.handle(key, request, context),
    )
    one.limit(request_percentage=0.001, producer_byte_rate=1.0)
    for key in SERVED:
        assert one.dispatcher._metered(key, decode, handle) == (decode, handle)


def decode(frame: memoryview, offset: int) -> tuple[object, int]:
    raise AssertionError


def handle(request: object, context: object) -> object:
    raise AssertionError


def test_a_forwarded_request_mutes_no_broker() -> None:
    connection = EnvelopeConnection(Session("10.0.0.1", principal=ANN), lambda error: None)
    connection.mute(1000)
    assert connection.session.throttled_until == 0
