"""Quotas of clients beside Apache Kafka 4.4: who uses the same is told to wait for the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from bus.protocol.apis import ApiKey
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.kafka import run_tool, start_kafka
from tests.broker.quotas.quota_client import (
    DEADLINE_S,
    QuotaClient,
    first_wait_ms,
    produced_bytes,
    until,
)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

LIMIT = 10_000.0
TOPIC = "limited"
SERVERS = ("ours", "kafka")
PRODUCE, FETCH = "producer_byte_rate", "consumer_byte_rate"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    running = start_broker(tmp_path_factory.mktemp("ours"), {"group.initial.rebalance.delay.ms": "0"})
    try:
        yield with_topic(running.bootstrap)
    finally:
        running.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        server = start_kafka(tmp_path_factory.mktemp("kafka"), heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield with_topic(server.address)


def with_topic(address: str) -> str:
    with closing(QuotaClient(address, "admin")) as admin:
        admin.create_topic(TOPIC)
        until("the topic has a leader", lambda: not error_of(admin.produce(TOPIC, 1)))
        admin.produce(TOPIC, 90_000)
    return address


def error_of(produced: Any) -> int:
    return int(produced.responses[0].partition_responses[0].error_code)


def limit(admin: QuotaClient, client_id: str, key: str, value: float) -> None:
    """Set; what the newest metadata say counts from then on."""
    admin.set_quota(client_id, key, value)
    entity = (("client-id", client_id),)
    until("the quota is known", lambda: admin.described_quotas().get(entity, {}).get(key) == value)


def produced(admin: QuotaClient, connect: Callable[[str], QuotaClient]) -> list[object]:
    limit(admin, "sends", PRODUCE, LIMIT)
    limit(admin, "sends more", PRODUCE, LIMIT)
    return [connect(name).produce(TOPIC, size).throttle_time_ms
            for name, size in (("sends", 90_000), ("sends more", 150_000))]  # fmt: skip


def fetched(admin: QuotaClient, connect: Callable[[str], QuotaClient]) -> list[object]:
    limit(admin, "reads", FETCH, 5_000.0)
    limit(admin, "reads more", FETCH, 50_000.0)
    answer = connect("reads").fetch(TOPIC, 1)
    enough = connect("reads more").fetch(TOPIC, 0)
    return [answer.throttle_time_ms, answer.responses, enough.throttle_time_ms,
            len(enough.responses[0].partitions[0].records) > 0]  # fmt: skip


def asked(admin: QuotaClient, connect: Callable[[str], QuotaClient]) -> list[object]:
    limit(admin, "asks", "request_percentage", 0.0001)
    return [connect("asks").call(ApiKey.METADATA, 12, {"topics": []}).throttle_time_ms]


def changed(admin: QuotaClient, connect: Callable[[str], QuotaClient]) -> list[object]:
    limit(admin, "makes", "controller_mutation_rate", 0.02)
    said: list[object] = []
    for number, (partitions, version) in enumerate(((3, 5), (1, 7), (1, 7), (2, 5))):
        made = connect("makes").call(ApiKey.CREATE_TOPICS, version, {"timeout_ms": 30_000, "topics": [
            {"name": f"made-{number}", "num_partitions": partitions, "replication_factor": 1}]})  # fmt: skip
        topic = made.topics[0]
        # Tokens come in by the second: rounded to ten of them, which is a fifth of one.
        said.append((topic.error_code, topic.error_message, round(made.throttle_time_ms / 10_000)))
    return said


def pair(admin: QuotaClient, connect: Callable[[str], QuotaClient]) -> list[object]:
    """The user's own quota counts before the client id's."""
    limit(admin, "paired", PRODUCE, 1.0)
    assert admin.alter_quotas(([("user", "ANONYMOUS")], {PRODUCE: 1e9})) == [0]
    entity = (("user", "ANONYMOUS"),)
    until("the quota is known", lambda: entity in admin.described_quotas())
    told: list[object] = []
    until("the user's counts", lambda: not told.append(
        connect("paired").produce(TOPIC, 1).throttle_time_ms) and told[-1] == 0)  # fmt: skip
    assert admin.alter_quotas((list(entity), {PRODUCE: None})) == [0]
    return told[-1:]


@pytest.mark.parametrize("story", [produced, fetched, asked, changed, pair])
def test_who_uses_the_same_waits_for_the_same_time_as_at_kafka(
    story: Callable[[QuotaClient, Callable[[str], QuotaClient]], list[object]], ours: str, kafka: str
) -> None:
    said = []
    for address in (ours, kafka):
        opened: list[QuotaClient] = []

        def connect(client_id: str, address: str = address, opened: list[QuotaClient] = opened) -> QuotaClient:
            opened.append(QuotaClient(address, client_id))
            return opened[-1]

        try:
            said.append(story(connect("admin"), connect))
        finally:
            for client in opened:
                client.close()
    assert said[0] == said[1]


def test_the_wait_is_what_the_bytes_come_to(ours: str) -> None:
    """The same sum as in the comparison, so that it compares more than two zeros."""
    with closing(QuotaClient(ours, "sums")) as client:
        limit(client, "sums", PRODUCE, LIMIT)
        wait_ms = client.produce(TOPIC, 120_000).throttle_time_ms
    assert wait_ms == first_wait_ms(produced_bytes("sums", TOPIC, 120_000), LIMIT) > 2000


@pytest.mark.parametrize("name", SERVERS)
def test_kafkas_tool_sets_a_quota_and_librdkafka_is_told_to_wait(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(name)
    done = run_tool(
        "kafka-configs",
        ["--bootstrap-server", address, "--alter", "--add-config", f"{PRODUCE}=20000",
         "--entity-type", "clients", "--entity-name", "librdkafka-camera"], folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    with closing(QuotaClient(address, "admin")) as admin:
        entity = (("client-id", "librdkafka-camera"),)
        until("the quota is known", lambda: entity in admin.described_quotas())
    told: list[float] = []
    producer = Producer({
        "bootstrap.servers": address, "client.id": "librdkafka-camera", "linger.ms": 0,
        "throttle_cb": lambda event: told.append(event.throttle_time),
    })  # fmt: skip
    for _ in range(6):
        producer.produce(TOPIC, bytes(50_000))
        assert producer.flush(DEADLINE_S) == 0
    assert max(told) > 1.0
