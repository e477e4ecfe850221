"""Quotas of clients on real brokers, under either controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from broker.metadata.image import ResourceType
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from deploy.errors import Unavailable
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster, start_cluster
from deploy.servers.zookeeper import start_ensemble
from tests.broker.quotas.quota_client import (
    CLIENT_ID,
    QuotaClient,
    first_wait_ms,
    produced_bytes,
    until,
)
from tests.rotation import drawn

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

Connect = Callable[..., QuotaClient]
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"
LIMIT = 10_000.0
SECOND_OVER = 110_000
"""Bytes that are ten seconds of the limit and a second more."""


@pytest.fixture(scope="module", params=drawn("client quotas", [KRAFT, ZOOKEEPER]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Two brokers."""
    folder = tmp_path_factory.mktemp("quotas")
    with ExitStack() as stack:
        address = None
        if request.param == ZOOKEEPER:
            try:
                address = stack.enter_context(start_ensemble(folder / "ensemble")).address
            except Unavailable as missing:
                pytest.skip(str(missing))
        yield stack.enter_context(
            start_cluster(folder, 2, request.param, {}, zookeeper_connect=address)
        )


@pytest.fixture
def connect(cluster: RunningCluster) -> Iterator[Connect]:
    """Clients, by name, at one broker or the other."""
    with ExitStack() as stack:

        def connected(client_id: str, broker: int = 0, source: str = "") -> QuotaClient:
            client = QuotaClient(cluster.brokers[broker].bootstrap, client_id, source)
            stack.callback(client.close)
            return client

        yield connected


def has_topic(client: QuotaClient, topic: str) -> bool:
    return client.produce(topic, 1).responses[0].partition_responses[0].error_code == 0


def made_topic(connect: Connect, topic: str) -> int:
    """A topic that one broker leads; which one."""
    connect("admin").create_topic(topic)
    found: list[int] = []

    def is_led() -> bool:
        found[:] = [number for number in (0, 1) if has_topic(connect("other", number), topic)]
        return bool(found)

    until(f"{topic} has a leader", is_led)
    return found[0]


def set_quota(connect: Connect, client_id: str, key: str, value: float) -> None:
    """Set, and known to both brokers."""
    connect("admin").set_quota(client_id, key, value)
    clients = [connect("admin", broker) for broker in (0, 1)]
    entity = ((CLIENT_ID, client_id),)
    until(
        "both brokers know the quota",
        lambda: all(
            client.described_quotas().get(entity, {}).get(key) == value for client in clients
        ),
    )


def test_a_producer_over_its_quota_waits_and_delays_nobody(connect: Connect) -> None:
    """It is told at once, and its connection is served no more for this time; another client is."""
    broker = made_topic(connect, "produced")
    camera, other = connect("camera", broker), connect("other", broker)
    set_quota(connect, "camera", PRODUCE, LIMIT)
    wait_ms = first_wait_ms(produced_bytes("camera", "produced", SECOND_OVER), LIMIT)
    began = time.monotonic()
    assert camera.produce("produced", SECOND_OVER).throttle_time_ms == wait_ms
    camera.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    for _ in range(20):
        assert other.produce("produced", 10).throttle_time_ms == 0
    camera.receive()
    assert time.monotonic() - began >= wait_ms / 1000


def test_a_consumer_over_its_quota_gets_nothing_until_it_has_waited(connect: Connect) -> None:
    """The empty response says how long; what was not sent does not count, and comes afterwards.
    Whoever fetches for a replica is exempt."""
    broker = made_topic(connect, "fetched")
    reader = connect("reader", broker)
    assert connect("other", broker).produce("fetched", SECOND_OVER).throttle_time_ms == 0
    assert connect("other", broker).produce("fetched", 50_000).throttle_time_ms == 0
    set_quota(connect, "reader", FETCH, LIMIT)
    last = connect("other", broker).fetch("fetched").responses[0].partitions[0].high_watermark - 1
    began = time.monotonic()
    answer = reader.fetch("fetched", offset=last - 1)
    assert (answer.responses, answer.error_code) == ([], 0)
    assert 1000 <= answer.throttle_time_ms < 1200
    answer = reader.fetch("fetched", offset=last)
    assert time.monotonic() - began >= 1.0
    assert answer.throttle_time_ms == 0
    assert len(answer.responses[0].partitions[0].records) > 50_000
    follower = reader.fetch("fetched", offset=0, replica_id=7)
    assert follower.throttle_time_ms == 0


def test_whoever_uses_too_much_of_the_loops_time_waits_for_one_window_at_most(
    connect: Connect,
) -> None:
    """Whatever the request; a fetch for a replica is exempt."""
    broker = made_topic(connect, "timed")
    busy = connect("busy", broker)
    set_quota(connect, "busy", "request_percentage", 0.00001)
    assert busy.fetch("timed", replica_id=7).throttle_time_ms == 0
    began = time.monotonic()
    assert busy.call(ApiKey.METADATA, 12, {"topics": []}).throttle_time_ms == 1000
    assert busy.call(ApiKey.FIND_COORDINATOR, 2, {"key": "g"}).throttle_time_ms == 1000
    assert time.monotonic() - began >= 1.0
    assert connect("other", broker).call(ApiKey.METADATA, 12, {"topics": []}).throttle_time_ms == 0


@pytest.mark.parametrize("broker", [0, 1])
def test_changes_of_the_cluster_are_refused_while_they_are_owed(
    connect: Connect, broker: int
) -> None:
    """Whichever broker is asked: one of the two is not the active controller. A version that does
    not know the refusal is served, and waits."""
    name = f"maker-{broker}"
    set_quota(connect, name, "controller_mutation_rate", 0.1)
    maker = connect(name, broker)

    def create(topic: str, partitions: int, version: int) -> tuple[int, int]:
        wanted = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
        made = connect(name, broker).call(
            ApiKey.CREATE_TOPICS, version, {"timeout_ms": 30_000, "topics": [wanted]}
        )
        return made.topics[0].error_code, made.throttle_time_ms

    assert create(f"{name}-a", 0, 7)[1] == 0  # refused for another reason: nothing is used
    assert create(f"{name}-a", 8, 7) == (0, 0)
    error, wait_ms = create(f"{name}-b", 1, 7)
    assert (error, 10_000 < wait_ms <= 69_000) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, True)
    error, wait_ms = create(f"{name}-c", 1, 5)
    assert (error, 10_000 < wait_ms <= 79_000) == (0, True)
    deleted = maker.call(ApiKey.DELETE_TOPICS, 5, {
        "topic_names": [f"{name}-a"], "timeout_ms": 30_000})  # fmt: skip
    assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    grown = connect(name, broker).call(ApiKey.CREATE_PARTITIONS, 3, {
        "topics": [{"name": f"{name}-a", "count": 9, "assignments": None}],
        "timeout_ms": 30_000, "validate_only": False})  # fmt: skip
    assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert grown.throttle_time_ms > 10_000


def test_an_address_that_connects_too_often_is_refused_after_a_moment(connect: Connect) -> None:
    """Another address is served meanwhile, and each of its connections is."""
    admin = connect("admin")
    entity = [("ip", "127.0.0.3")]
    assert admin.alter_quotas((entity, {"connection_creation_rate": 1.0})) == [0]
    until("the broker knows the quota", lambda: tuple(entity) in admin.described_quotas())
    served = [connect("c", 0, "127.0.0.3") for _ in range(10)]
    for client in served:
        assert client.call(ApiKey.METADATA, 12, {"topics": []}).throttle_time_ms == 0
    late = connect("c", 0, "127.0.0.3")
    for _ in range(20):
        connect("c", 0, "127.0.0.4").call(ApiKey.METADATA, 12, {"topics": []})
    with pytest.raises(ConnectionError):
        late.call(ApiKey.METADATA, 12, {"topics": []})
    assert admin.alter_quotas((entity, {"connection_creation_rate": None})) == [0]
    until("the quota is taken back", lambda: tuple(entity) not in admin.described_quotas())
    connect("c", 0, "127.0.0.3").call(ApiKey.METADATA, 12, {"topics": []})


BOUND = "max.connection.creation.rate"
SET, DELETE = 0, 1


def bound_connections(admin: QuotaClient, broker: int, key: str, value: str | None) -> int:
    """Of one broker, whose client it is, while it runs; the error code."""
    change = {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
    answer = admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [
        {"resource_type": ResourceType.BROKER, "resource_name": str(broker + 1), "configs": [change]},
    ], "validate_only": False})  # fmt: skip
    return answer.responses[0].error_code


@pytest.mark.parametrize("key", [BOUND, f"listener.name.plaintext.{BOUND}"])
def test_connections_beyond_a_brokers_bound_are_served_later(connect: Connect, key: str) -> None:
    """Set and taken back while it runs; those that are open notice nothing, other brokers neither."""
    admin = connect("admin")
    assert bound_connections(admin, 0, key, "0") == ErrorCode.INVALID_REQUEST
    assert bound_connections(admin, 0, key, "1") == 0

    def serve_s(broker: int) -> float:
        began = time.monotonic()
        client = connect("late", broker)
        client.call(ApiKey.METADATA, 12, {"topics": []})
        return time.monotonic() - began

    until("a connection has to wait", lambda: serve_s(0) >= 0.1)
    waiting = connect("waiting")
    waiting.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
    for client in (admin, connect("other", 1)):
        client.call(ApiKey.METADATA, 12, {"topics": []})
    waiting.receive()
    assert bound_connections(admin, 0, key, None) == 0
    until("no connection has to wait", lambda: serve_s(0) < 0.1)
