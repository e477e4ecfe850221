"""Quotas of clients on real brokers, under either controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

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
PRODUCE = "producer_byte_rate"
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
