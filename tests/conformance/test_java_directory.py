"""A directory that Apache Kafka 4.4 wrote, broker and quorum in one, opens under our program.

Kafka's tool takes back the features that are not served here, before Kafka stops: what they stand
for may lie in the logs.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bus.protocol.apis import APIS, ApiKey
from bus.protocol.generated.api_versions import ApiVersionsRequest
from deploy.errors import Unavailable
from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker
from deploy.servers.kafka import run_tool, start_kafka
from tests.broker.handlers.test_every_version import FrameSocket

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(240)]
WAIT_S = 60.0
RECORDS = 10
NOT_SERVED = ("group.version", "share.version", "streams.version", "transaction.version")


@pytest.fixture
def directory(tmp_path: Path, taken_back: tuple[str, ...]) -> Path:
    """Of a Kafka that has stopped: a topic with records, a group's position, and without the
    features that were taken back."""
    try:
        server = start_kafka(tmp_path / "kafka", heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        admin = AdminClient({"bootstrap.servers": server.address})
        wanted = NewTopic("kept", 2, 1, config={"retention.ms": "-1"})
        admin.create_topics([wanted])["kept"].result(WAIT_S)
        write(server.address, 0)
        commit(server.address, 3)
        for feature in taken_back:
            take_back(server.address, feature, tmp_path)
    return tmp_path / "kafka" / "data"


def take_back(bootstrap: str, feature: str, folder: Path) -> None:
    """kafka-features downgrade."""
    words = ["--bootstrap-server", bootstrap, "downgrade", "--feature", f"{feature}=0"]
    done = run_tool("kafka-features", words, folder=folder)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def write(bootstrap: str, first: int) -> None:
    """Records by an idempotent producer, into both partitions in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(first, first + RECORDS):
        producer.produce("kept", b"%d" % number, partition=number % 2)
    assert producer.flush(WAIT_S) == 0


def commit(bootstrap: str, offset: int) -> None:
    """Asked again while the coordinator is being made."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    place, end = TopicPartition("kept", 0, offset), time.monotonic() + WAIT_S
    while True:
        try:
            reader.commit(offsets=[place], asynchronous=False)
            break
        except KafkaException:
            assert time.monotonic() < end
    reader.close()


def content(bootstrap: str) -> tuple[list[int], int]:
    """The ends of both partitions; the group's position."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    places = [TopicPartition("kept", index) for index in (0, 1)]
    ends = [reader.get_watermark_offsets(place, timeout=WAIT_S)[1] for place in places]
    [committed] = reader.committed(places[:1], timeout=WAIT_S)
    reader.close()
    return ends, committed.offset


def finalized(running: RunningBroker) -> dict[str, int]:
    """The features in the answer to ApiVersions."""
    wire, version = FrameSocket(running.bootstrap), APIS[ApiKey.API_VERSIONS].latest
    asked = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = wire.ask(ApiKey.API_VERSIONS, version, asked)
    wire.close()
    return {one.name: one.max_version_level for one in answer.finalized_features}


@pytest.mark.parametrize("taken_back", [NOT_SERVED[1:]])
def test_a_feature_that_is_not_served_keeps_it_shut(directory: Path, tmp_path: Path) -> None:
    """It says so."""
    with pytest.raises(BrokerStartError, match="does not know the feature levels"):
        start_broker(tmp_path / "ours", {"log.dirs": str(directory), "node.id": "1"})


@pytest.mark.parametrize("taken_back", [NOT_SERVED])
def test_it_opens_and_lives_on(directory: Path, tmp_path: Path) -> None:
    """At Kafka's level; after a kill, too."""
    running = start_broker(tmp_path / "ours", {"log.dirs": str(directory), "node.id": "1"})
    try:
        assert content(running.bootstrap) == ([5, 5], 3)
        levels = finalized(running)
        assert levels["metadata.version"] == 33
        assert not levels.keys() & set(NOT_SERVED)
        write(running.bootstrap, RECORDS)
        commit(running.bootstrap, 7)
        running.kill()
        running = running.restart()
        assert content(running.bootstrap) == ([10, 10], 7)
    finally:
        running.stop()
