"""A real broker cleans real files: killed meanwhile, opened again, read by Apache Kafka."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.errors import Unavailable
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.kafka import launch_broker, start_kafka, started
from tests.broker.log.test_kafka_reads_our_files import dump
from tests.rotation import every_member_is_wanted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

WAIT_S = 60.0
KEYS = 100
ROUNDS = 20 if every_member_is_wanted() else 2
"""Kills; twenty where every member is wanted."""
PROPERTIES = {
    "log.cleaner.backoff.ms": "100",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.cleaner.dedupe.buffer.size": "4000000",
}
TABLE = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "40000",
    "min.cleanable.dirty.ratio": "0.05",
    "file.delete.delay.ms": "100",
}


class TableClient:
    """Writes a table and knows what it must hold."""

    def __init__(self) -> None:
        self.sent = 0
        self.newest: dict[bytes, int] = {}

    def make(self, broker: str) -> None:
        admin = AdminClient({"bootstrap.servers": broker})
        admin.create_topics([NewTopic("t", 1, 1, config=TABLE)])["t"].result(WAIT_S)

    def write(self, broker: str, count: int) -> None:
        """Records, all acknowledged."""
        producer = Producer({"bootstrap.servers": broker, "enable.idempotence": True, "linger.ms": 1})

        def on_stored(error: KafkaError | None, message: object) -> None:
            assert error is None, error

        for number in range(self.sent, self.sent + count):
            key = b"k%d" % (number % KEYS)
            producer.produce("t", b"%d" % number + b"." * 40, key=key, on_delivery=on_stored)
            self.newest[key] = number
            if number % 200 == 0:
                producer.flush(WAIT_S)
        assert producer.flush(WAIT_S) == 0
        self.sent += count

    def check(self, broker: str) -> int:
        """Read all; how many records there are."""
        consumer = Consumer(
            {
                "bootstrap.servers": broker,
                "group.id": "g",
                "enable.partition.eof": True,
                # Apache Kafka answers a fetch from one segment. librdkafka doubles this at each answer
                # without a record, and calls it an error where 2^30 is reached: from a megabyte after
                # ten segments in a row that hold one empty batch each.
                "max.partition.fetch.bytes": 1024,
            }
        )
        consumer.assign([TopicPartition("t", 0, 0)])
        found: dict[bytes, int] = {}
        last, count = -1, 0
        while (message := consumer.poll(WAIT_S)) is not None:
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF
                break
            assert message.offset() > last
            last, count = message.offset(), count + 1
            found[message.key()] = int(message.value().partition(b".")[0])
        consumer.close()
        assert found == self.newest
        return count


def checkpoint_of(broker: RunningBroker) -> int:
    path = broker.data_dir / "logs" / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines() if path.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith("t 0 ")), 0)


def until_cleaned(broker: RunningBroker, beyond: int) -> None:
    end = time.monotonic() + WAIT_S
    while checkpoint_of(broker) <= beyond:
        assert time.monotonic() < end, "nothing was cleaned"
        time.sleep(0.05)


def names(broker: RunningBroker) -> list[str]:
    return sorted(path.name for path in (broker.data_dir / "logs" / "t-0").iterdir())


@pytest.fixture
def running(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    """The broker, as its last process is."""
    made = [start_broker(tmp_path / "data", PROPERTIES)]
    yield made
    made[0].kill()


@pytest.mark.timeout(900)
def test_killed_at_any_moment_of_its_cleaning_it_loses_no_key(
    running: list[RunningBroker], dice: random.Random
) -> None:
    """Under load. What a pass had written and was not swapped in is gone after the start."""
    client = TableClient()
    client.make(running[0].bootstrap)
    for _ in range(ROUNDS):
        client.write(running[0].bootstrap, 6_000)
        time.sleep(dice.random() * 1.5)  # the moment is drawn, and nothing waits for it
        running[0].kill()
        running[0] = running[0].restart()
        assert not [one for one in names(running[0]) if one.endswith((".swap", ".replaces"))]
        client.check(running[0].bootstrap)
    client.write(running[0].bootstrap, 2_000)
    until_cleaned(running[0], client.sent - 2_500)
    assert client.check(running[0].bootstrap) < client.sent / 4
    assert running[0].stop() == 0
    assert not [one for one in names(running[0]) if one.endswith(".cleaned")]
    running[0] = running[0].restart()
    client.check(running[0].bootstrap)


def test_a_directory_that_was_never_cleaned_shrinks_while_it_serves(
    running: list[RunningBroker]
) -> None:
    """As every directory of a version before this one."""
    client, first = TableClient(), running[0]
    first.stop()
    off = start_broker(first.data_dir, PROPERTIES | {"log.cleaner.enable": "false"})
    running[0] = off
    client.make(off.bootstrap)
    client.write(off.bootstrap, 8_000)
    assert client.check(off.bootstrap) == client.sent
    off.stop()
    assert checkpoint_of(off) == 0
    running[0] = start_broker(first.data_dir, PROPERTIES)
    client.check(running[0].bootstrap)
    until_cleaned(running[0], 0)
    client.write(running[0].bootstrap, 100)
    assert client.check(running[0].bootstrap) < client.sent / 2


@pytest.mark.java
def test_apache_kafka_reads_and_opens_what_was_cleaned(
    running: list[RunningBroker], tmp_path: Path
) -> None:
    """Its dump tool every batch, its broker the files in the place of its own."""
    client = TableClient()
    client.make(running[0].bootstrap)
    client.write(running[0].bootstrap, 8_000)
    until_cleaned(running[0], 0)
    running[0].stop()
    ours = running[0].data_dir / "logs" / "t-0"
    lines = dump("--deep-iteration", "--files", ",".join(map(str, sorted(ours.glob("*.log")))))
    batches = [line for line in lines if line.startswith("baseOffset")]
    assert batches
    assert all("isvalid: true" in line for line in batches)
    indexes = ",".join(map(str, sorted([*ours.glob("*.index"), *ours.glob("*.timeindex")])))
    assert "Mismatches" not in "\n".join(dump("--index-sanity-check", "--files", indexes))
    folder = tmp_path / "kafka"
    try:
        kafka = start_kafka(folder, heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with kafka:
        client.make(kafka.address)
    [theirs] = folder.rglob("t-0")
    for path in ours.iterdir():
        if path.name != "partition.metadata":
            shutil.copy(path, theirs / path.name)
    shutil.copy(ours.parent / "cleaner-offset-checkpoint", theirs.parent)
    again = launch_broker(folder, kafka.port, "512m")
    with again.wait_until(lambda: started(again)):
        assert client.check(again.address) < client.sent
