"""The broker on a disk that fills up while producers write, and then has room again."""

from __future__ import annotations

import contextlib
import os
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from kafka.errors import KafkaStorageError

from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.small_disk import ResizableDisk
from tests.own_disk import own_disk

pytestmark = pytest.mark.slow
TOPIC = "full"
SMALL_BYTES, LARGE_BYTES = 8 << 20, 48 << 20
VALUE_BYTES, BATCH_RECORDS = 2000, 20
PATIENT_MS, IMPATIENT_MS = 120_000, 4_000
BOUND_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ResizableDisk]:
    with own_disk(tmp_path / "disk", SMALL_BYTES) as mounted:
        yield mounted


@pytest.fixture
def broker(disk: ResizableDisk) -> Iterator[RunningBroker]:
    running = start_broker(
        disk.folder, {"log.segment.bytes": str(1 << 20), "metrics.port": "0"}
    )
    try:
        make_topic(running, TOPIC)
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


@dataclass
class RecordingProducer:
    """An idempotent producer with the result of each of its records."""

    bootstrap: str
    timeout_ms: int
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    failed: list[KafkaError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer({
            "bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 1,
            "message.timeout.ms": self.timeout_ms, "batch.num.messages": BATCH_RECORDS,
            "retry.backoff.max.ms": 200, "reconnect.backoff.max.ms": 200,
        })  # fmt: skip

    def send(self, records: int) -> None:
        for _ in range(records):
            self.producer.produce(TOPIC, os.urandom(VALUE_BYTES), on_delivery=self._on_delivery)
            self.producer.poll(0)

    def fill(self, disk: ResizableDisk) -> None:
        """Sends until the disk has no room for another batch and nothing is acknowledged."""
        deadline = time.monotonic() + BOUND_S
        known = -1
        while disk.free_bytes > BATCH_RECORDS * VALUE_BYTES or len(self.acknowledged) > known:
            known = len(self.acknowledged)
            self.send(100)
            self.producer.flush(1)
            assert time.monotonic() < deadline, "the disk does not fill up"

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error:
            self.failed.append(error)
        else:
            self.acknowledged[message.offset()] = message.value()


def at(broker: RunningBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


def make_topic(broker: RunningBroker, name: str) -> None:
    admin = AdminClient(at(broker))
    admin.create_topics([NewTopic(name, 1, 1)], request_timeout=10)[name].result(20)


def everything(broker: RunningBroker) -> dict[int, bytes]:
    """Reads the whole topic; records by offset."""
    consumer = Consumer({**at(broker), "group.id": "reader", "enable.auto.commit": False})
    _, end_offset = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + BOUND_S
    while len(found) < end_offset:
        assert time.monotonic() < deadline, f"{len(found)} of {end_offset} could be read"
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None
            found[message.offset()] = message.value()
    consumer.close()
    return found


def test_producers_get_kafkas_own_error_and_go_on_when_there_is_room(
    disk: ResizableDisk, broker: RunningBroker
) -> None:
    """A producer with a short timeout gets an error, one with a long timeout waits, the broker
    survives, nothing is lost."""
    patient = RecordingProducer(broker.bootstrap, PATIENT_MS)
    patient.fill(disk)
    assert_a_producer_without_retries_gets_an_error(broker)
    impatient = RecordingProducer(broker.bootstrap, IMPATIENT_MS)
    impatient.send(5)
    impatient.producer.flush(2 * IMPATIENT_MS / 1000)
    assert [error.code() for error in impatient.failed] == [KafkaError._MSG_TIMED_OUT] * 5
    assert_a_new_topic_is_answered(broker)
    assert everything(broker).items() >= patient.acknowledged.items()
    assert_it_shows(broker)

    disk.resize(LARGE_BYTES)
    assert patient.producer.flush(BOUND_S) == 0
    assert patient.failed == []
    make_topic(broker, "later")
    assert_nothing_is_lost_or_doubled(broker, patient)


def test_a_broker_killed_on_a_full_disk_has_everything_acknowledged_after_it(
    disk: ResizableDisk, broker: RunningBroker
) -> None:
    """The producer's pending records are stored once, after the disk has room and the broker
    runs."""
    patient = RecordingProducer(broker.bootstrap, PATIENT_MS)
    patient.fill(disk)
    broker.kill()
    disk.resize(LARGE_BYTES)
    again = broker.restart()
    try:
        assert patient.producer.flush(BOUND_S) == 0
        assert patient.failed == []
        assert_nothing_is_lost_or_doubled(again, patient)
    finally:
        again.stop()


def assert_it_shows(broker: RunningBroker) -> None:
    """The full disk shows in the metrics, and no tracebacks fill the rest of the disk."""
    url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
    with urllib.request.urlopen(url) as answer:
        page = answer.read().decode()
    figures = dict(line.rpartition(" ")[::2] for line in page.splitlines() if line[0] != "#")
    assert figures["kafka_log_logmanager_fulllogdirectorycount"] == "1.0"
    assert figures["kafka_server_replicamanager_offlinereplicacount"] == "0.0"
    [total] = [v for k, v in figures.items() if k.startswith("kafka_log_logmanager_logdirectoryt")]
    assert 0 < float(total) <= SMALL_BYTES
    assert "Traceback" not in broker.log_path.read_text()


def assert_a_producer_without_retries_gets_an_error(broker: RunningBroker) -> None:
    """It gets Kafka's own error as soon as the last free pages of the disk are used up."""
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, retries=0, acks="all", enable_idempotence=False
    )
    with pytest.raises(KafkaStorageError):
        for _ in range(SMALL_BYTES // VALUE_BYTES):
            producer.send(TOPIC, os.urandom(VALUE_BYTES)).get(10)
    producer.close()


def assert_a_new_topic_is_answered(broker: RunningBroker) -> None:
    """The metadata log is on the same disk: at worst that request gets an error."""
    with contextlib.suppress(KafkaException):
        make_topic(broker, "now")
    assert broker.process.poll() is None


def assert_nothing_is_lost_or_doubled(broker: RunningBroker, *senders: RecordingProducer) -> None:
    found = everything(broker)
    for sender in senders:
        assert len(sender.acknowledged) > SMALL_BYTES // 2 // VALUE_BYTES
        assert found.items() >= sender.acknowledged.items()
    assert max(Counter(found.values()).values()) == 1
