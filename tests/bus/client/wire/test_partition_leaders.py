"""Where partitions end, asked while the leader of one of them dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from bus.client.admin import queries
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.records.batch import header_at
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster, start_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOPIC, PARTITIONS, RECORDS = "asked", 3, 5
PLACES = [(TOPIC, number) for number in range(PARTITIONS)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Each broker leads one partition, and every partition has records."""
    with start_cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        bus = BusSettings(bootstrap_servers=running.bootstrap)
        admin = Admin(bus, client_id="test")
        admin.create_topic(TOPIC, PARTITIONS, replication_factor=3)
        admin.close()
        producer = Producer(bus, client_id="test")
        for _, number in PLACES:
            for _ in range(RECORDS):
                producer.send(TOPIC, b"x", partition=number)
        assert producer.close() == 0
        yield running


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whom a client asks for offsets, in this order."""
    nodes: list[int] = []
    request_node = SyncClient.request_node

    def noted(client: SyncClient, node_id: int, api_key: int, body: object) -> object:
        if api_key == ApiKey.LIST_OFFSETS:
            nodes.append(node_id)
        return request_node(client, node_id, api_key, body)

    monkeypatch.setattr(SyncClient, "request_node", noted)
    return nodes


@pytest.fixture
def leaders(cluster: RunningCluster) -> Iterator[PartitionLeaders]:
    made = PartitionLeaders(BusSettings(bootstrap_servers=cluster.bootstrap), "test")
    yield made
    made.close()


def led_by(cluster: RunningCluster) -> dict[int, int]:
    """The leader of each partition."""
    with SyncClient(cluster.bootstrap, "test") as nodes:
        return {one.index: one.leader for one in queries.topics(nodes, [TOPIC])[0].partitions}


def test_each_leader_is_asked_once_for_all_that_it_leads(
    leaders: PartitionLeaders, asked: list[int]
) -> None:
    assert leaders.end_offsets(PLACES) == dict.fromkeys(PLACES, RECORDS)
    assert leaders.start_offsets(PLACES) == dict.fromkeys(PLACES, 0)
    assert sorted(asked) == sorted([1, 2, 3] * 2)
    assert leaders.failure is None


def test_a_fetch_begins_with_the_batch_that_contains_the_offset(
    leaders: PartitionLeaders,
) -> None:
    for place in PLACES:
        for offset in range(RECORDS):
            batches = leaders.fetch(place, offset, max_bytes=1)
            assert batches is not None
            header = header_at(batches)
            assert header.base_offset <= offset < header.end_offset
        assert not leaders.fetch(place, RECORDS, max_bytes=1)
        assert leaders.fetch(place, RECORDS + 1, max_bytes=1) is None
        assert leaders.failure is not None
        assert leaders.failure.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_topic_that_is_not_there_is_said(leaders: PartitionLeaders) -> None:
    """And what is there is answered."""
    found = leaders.end_offsets([PLACES[0], ("nowhere", 0)])
    assert found == {PLACES[0]: RECORDS}
    assert leaders.failure is not None
    assert leaders.failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_what_our_own_client_cannot_log_in_with_is_raised(cluster: RunningCluster) -> None:
    """Whoever asks has another client for that."""
    keys = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    bus = BusSettings(bootstrap_servers=cluster.bootstrap, librdkafka=keys)
    leaders = PartitionLeaders(bus, "test")
    with pytest.raises(BusError) as raised:
        leaders.end_offsets(PLACES)
    assert raised.value.code is ErrorCode.SECURITY_DISABLED
    leaders.close()


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_leader_that_is_away_is_asked_once_and_holds_up_nobody(
    cluster: RunningCluster, leaders: PartitionLeaders, asked: list[int], how: signal.Signals
) -> None:
    """The others' answers are there; its partitions are answered by the next leader, while the
    dead one stays dead. librdkafka's client waited for it to come back."""
    leader_of = led_by(cluster)
    victim = leader_of[0]
    assert len(leaders.end_offsets(PLACES)) == PARTITIONS
    os.kill(cluster.node(victim).pid, how)
    try:
        asked.clear()
        found = leaders.end_offsets(PLACES)
        assert found.keys() >= {(TOPIC, n) for n, leader in leader_of.items() if leader != victim}
        assert asked.count(victim) <= 1
        while len(found) < PARTITIONS:  # ends by the test's own time limit
            assert leaders.failure is not None
            asked.clear()
            found |= leaders.end_offsets([place for place in PLACES if place not in found])
            assert asked.count(victim) <= 1
        assert found == dict.fromkeys(PLACES, RECORDS)
        assert all(leaders.fetch(place, 0, max_bytes=1) for place in PLACES)
    finally:
        os.kill(cluster.node(victim).pid, signal.SIGCONT)
