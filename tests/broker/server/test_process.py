"""A broker as a process: clean stops, kill -9, restarts, operators' mistakes."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.settings import SettingError, split
from deploy.servers.databus import PROJECT_ROOT, RunningBroker, start_broker

READ_TIMEOUT_S = 60  # a machine under load reads a hundred thousand records slowly
MOST_WAITING = 10_000
"""Records on their way: a client that holds 100,000 takes no more."""


def produce(bootstrap: str, topic: str, values: list[bytes]) -> list[tuple[int, bytes]]:
    """Offsets and values that were acknowledged by all in-sync replicas."""
    acknowledged: list[tuple[int, bytes]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is None:
            acknowledged.append((message.offset(), message.value()))

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 1}
    producer = Producer({**settings, "message.timeout.ms": 20_000})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        producer.poll(0)
    producer.flush(20)
    return acknowledged


def read_all(bootstrap: str, topic: str, count: int) -> dict[int, bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + READ_TIMEOUT_S
    while time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                found[message.offset()] = message.value()
        if len(found) >= count:
            break
    consumer.close()
    return found


@pytest.mark.slow
def test_sigterm_ends_cleanly_and_everything_is_there_again(broker: RunningBroker) -> None:
    """Status 0, a clean-shutdown file, the same cluster, topics, ids and records."""
    acknowledged = produce(broker.bootstrap, "t", [b"%d" % n for n in range(100)])
    assert len(acknowledged) == 100
    assert broker.stop() == 0
    assert (broker.data_dir / "logs" / ".kafka_cleanshutdown").exists()
    again = broker.restart()
    try:
        assert again.cluster_id == broker.cluster_id
        assert read_all(again.bootstrap, "t", 100) == dict(acknowledged)
    finally:
        again.stop()


@pytest.mark.slow
def test_kill_9_while_producing_loses_nothing_that_was_acknowledged(
    broker: RunningBroker,
) -> None:
    """Over three runs every acknowledged record is at its offset, once."""
    expected: dict[int, bytes] = {}
    running = broker
    for life in range(3):
        acknowledged: list[tuple[int, bytes]] = []

        def on_delivery(
            error: KafkaError | None,
            message: Message,
            heard: list[tuple[int, bytes]] = acknowledged,
        ) -> None:
            if error is None:
                heard.append((message.offset(), message.value()))

        producer = Producer(
            {"bootstrap.servers": running.bootstrap, "acks": "all", "linger.ms": 0,
             "message.timeout.ms": 1500, "socket.timeout.ms": 1000}
        )
        number = 0
        while len(acknowledged) < 500:
            producer.produce("t", b"%d-%d" % (life, number), partition=0, on_delivery=on_delivery)
            number += 1
            producer.poll(0 if number - len(acknowledged) < MOST_WAITING else 0.05)
        running.kill()
        producer.flush(3)
        expected |= dict(acknowledged)
        running = running.restart()
    try:
        found = read_all(running.bootstrap, "t", max(expected) + 1)
        lost = {offset for offset, value in expected.items() if found.get(offset) != value}
        assert not lost
    finally:
        running.stop()


@pytest.mark.slow
def test_committed_offsets_and_groups_survive_kill_9(broker: RunningBroker) -> None:
    """They are records like any other."""
    produce(broker.bootstrap, "t", [b"x"] * 10)
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "g"}
    place = TopicPartition("t", 0, 7, metadata="my note")
    consumer = Consumer(settings)
    consumer.commit(offsets=[place], asynchronous=False)
    consumer.close()
    broker.kill()
    again = broker.restart()
    try:
        consumer = Consumer(settings)
        held = consumer.committed([TopicPartition("t", 0)], timeout=10)[0]
        consumer.close()
        assert (held.offset, held.metadata) == (7, "my note")
    finally:
        again.stop()


@pytest.mark.slow
def test_deleted_topics_stay_deleted_and_a_new_one_of_the_name_is_another(
    broker: RunningBroker,
) -> None:
    """Another id, no old records."""
    produce(broker.bootstrap, "t", [b"old"])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["t"])["t"].result(10)
    produce(broker.bootstrap, "t", [b"new"])
    assert read_all(broker.bootstrap, "t", 1) == {0: b"new"}


def test_metrics_are_served_in_prometheus_text(shared_broker: RunningBroker) -> None:
    """With Kafka's names."""
    AdminClient({"bootstrap.servers": shared_broker.bootstrap}).list_topics(timeout=10)
    address = f"http://127.0.0.1:{shared_broker.metrics_port}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    assert "kafka_server_replicamanager_partitioncount" in text
    assert 'kafka_network_requestmetrics_requests_total{request="Metadata"' in text


def _run(data_dir: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "broker.server", "--data-dir", str(data_dir)]
    for override in overrides:
        words += ["--override", override]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, cwd=PROJECT_ROOT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("num.partitions=many", "num.partitions"),
        ("listeners=SSL://:0", "a listener with TLS needs a certificate"),
        ("metrics.port=x", "metrics.port is not a number"),
    ],
)
def test_an_operators_mistake_is_one_sentence_and_status_1(
    tmp_path: Path, override: str, sentence: str
) -> None:
    """Not a stack trace."""
    result = _run(tmp_path, override)
    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_data_directory_in_use_or_of_another_broker_is_refused(
    shared_broker: RunningBroker,
) -> None:
    """Nothing is overwritten."""
    result = _run(shared_broker.data_dir / "logs", "listeners=PLAINTEXT://127.0.0.1:0")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr


def test_our_own_keys_are_taken_apart_from_kafkas() -> None:
    """And checked."""
    kafka, ours = split({"num.partitions": "3", "site.number": "7", "metrics.port": "0"})
    assert kafka == {"num.partitions": "3", "site.number": "7"}  # DescribeConfigs shows it
    assert (ours.site_number, ours.metrics_port) == (7, 0)
    with pytest.raises(SettingError):
        split({"site.number": "256"})


@pytest.mark.slow
def test_a_restart_with_the_same_data_needs_no_other_settings(tmp_path: Path) -> None:
    """The second start continues; node and cluster ids are read from the directory."""
    first = start_broker(tmp_path)
    first.stop()
    second = start_broker(tmp_path)
    second.stop()
    assert second.cluster_id == first.cluster_id
