"""What our own client says of a cluster, beside librdkafka's administration."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from bus.client.admin.wire_admin import WireAdmin
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import OffsetAndMetadata, TopicPartition
from bus.client.wire import sync_client
from bus.client.wire.sync_client import SyncClient
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster, start_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOPICS = {"plain": {}, "kept": {"retention.ms": "1000000", "cleanup.policy": "compact"}}
PLACES = [TopicPartition("plain", number) for number in range(3)]
GROUPS = ["at-work", "empty"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        with (
            closing(Admin(_bus(running), client_id="test")) as admin,
            closing(Producer(_bus(running), client_id="test")) as producer,
        ):
            for topic, configs in TOPICS.items():
                admin.create_topic(topic, 3, configs, replication_factor=3)
            for number in range(30):
                producer.send("plain", b"record", key=str(number))
            producer.flush(30)
            for number, group in enumerate(GROUPS):
                admin.set_committed(group, {place: number + place.partition for place in PLACES})
        yield running


def _bus(cluster: RunningCluster) -> BusSettings:
    return BusSettings(bootstrap_servers=cluster.bootstrap)


def _controller(cluster: RunningCluster) -> int:
    with SyncClient.of(_bus(cluster), "test") as client:
        return int(client.request(ApiKey.METADATA, MetadataRequest(topics=[])).controller_id)


def _node_of(cluster: RunningCluster, pid: int) -> int:
    return next(number for number, node in cluster.nodes.items() if node.pid == pid)


def _answers(admin: Admin) -> list[object]:
    return [
        admin.existing([*TOPICS, "missing"]),
        admin.all_topic_configs(TOPICS),
        admin.all_topic_configs([]),
        admin.topic_configs("kept"),
        admin.topic_configs("plain", defaults=True),
        admin.broker_configs(2),
        admin.start_offsets(PLACES),
        admin.end_offsets(PLACES),
        admin.end_offsets([]),
        admin.groups(),
        {broker.broker_id for broker in admin.cluster().alive},
        *(admin.committed_offsets(group) for group in [*GROUPS, "missing"]),
    ]


def test_our_client_and_librdkafka_give_the_same_answers(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka is asked where our client cannot log in."""
    with closing(Admin(_bus(cluster), client_id="test")) as admin:
        ours = _answers(admin)

        def refuse(*_: object) -> None:
            raise BusError(ErrorCode.SECURITY_DISABLED, "GSSAPI")

        monkeypatch.setattr(SyncClient, "request", refuse)
        monkeypatch.setattr(SyncClient, "request_node", refuse)
        assert _answers(admin) == ours
    assert sum(ours[7].values()) == 30  # type: ignore[attr-defined]


def test_what_a_consumer_committed_beside_an_offset_is_read_as_it_wrote_it(
    cluster: RunningCluster,
) -> None:
    """Regression: librdkafka sends the end of its C string too; every position of a driver, which has
    the topic's id beside it, was taken for one of another topic."""
    bus, place = _bus(cluster), PLACES[0]
    with Consumer(bus, client_id="test", group="noted") as consumer:
        consumer.commit({place: 7}, {place: "a note"})
    with closing(WireAdmin(bus, "test", 10.0)) as wire:
        assert wire.committed_offsets("noted") == {place: OffsetAndMetadata(7, "a note")}


def test_an_unknown_topic_has_no_configuration(cluster: RunningCluster) -> None:
    with (
        closing(Admin(_bus(cluster), client_id="test")) as admin,
        pytest.raises(BusError) as caught,
    ):
        admin.topic_configs("missing")
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_dead_controller_is_asked_no_more(
    cluster: RunningCluster, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: librdkafka's administration connected to it without a pause, thousands of times
    in a second, or waited until it was back."""
    tried: list[object] = []
    connect = socket.create_connection

    def connected(address: tuple[str, int], timeout_s: float) -> socket.socket:
        tried.append(address)
        return connect(address, timeout_s)

    dead = cluster.nodes[_controller(cluster)]
    with closing(WireAdmin(_bus(cluster), "test", 3.0)) as admin:
        before = admin.existing(TOPICS)
        os.kill(dead.pid, how)
        try:
            monkeypatch.setattr(sync_client.socket, "create_connection", connected)
            for _ in range(50):
                assert admin.existing(TOPICS) == before
                assert admin.topic_configs(["kept"]).keys() == {"kept"}
            assert len(tried) <= len(cluster.nodes)
        finally:
            monkeypatch.undo()
            if how == signal.SIGSTOP:
                os.kill(dead.pid, signal.SIGCONT)
            else:
                cluster.restart(_node_of(cluster, dead.pid))
