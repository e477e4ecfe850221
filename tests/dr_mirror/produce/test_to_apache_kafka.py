"""Apache Kafka 4.4 as the target: ordinary appends, in transactions with their positions."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.errors import Unavailable
from deploy.servers.kafka import start_kafka
from deploy.servers.process import JavaServer, class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import mirror_maker_jars
from tests.dr_mirror.copy.test_from_apache_kafka import create, producer, read_committed, send
from tests.dr_mirror.two_sites import MirrorProcess, SiteReader, wait_until

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

CODECS = ("none", "gzip", "lz4", "zstd", "snappy")
KILLS = 2
PARTITIONS = 4


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaServer]:
    try:
        server = start_kafka(tmp_path_factory.mktemp("target"), heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    with server:
        yield server


@pytest.fixture
def mirror(tmp_path: Path, apache_kafka: JavaServer, target: JavaServer) -> Iterator[MirrorProcess]:
    process = MirrorProcess(
        tmp_path / "mirror", apache_kafka.address, target.address, {"mirror.target_api": "produce"}
    ).start()
    try:
        yield process
    finally:
        process.kill()


def values_of(bootstrap: str, topic: str) -> list[bytes | None]:
    return [value for _, _, value in read_committed(bootstrap, topic)]


def wait_for(mirror: MirrorProcess, bootstrap: str, topic: str, wanted: list[bytes]) -> None:
    """A read_committed consumer at the target gets these records, in this order."""
    wait_until(lambda: _is_there(bootstrap, topic), topic)
    try:
        wait_until(lambda: values_of(bootstrap, topic) == wanted, f"{topic} is at the target", 30)
    except AssertionError:
        found = values_of(bootstrap, topic)
        raise AssertionError(
            f"{found} {mirror.status()} {mirror.log.read_text()[-3000:]}"
        ) from None


def test_a_read_committed_consumer_gets_what_it_got_at_the_source(
    mirror: MirrorProcess, apache_kafka: JavaServer, target: JavaServer
):
    """Committed, aborted and open transactions, every codec, and a time that the broker gave."""
    bootstrap, topic = apache_kafka.address, "data.ordinary"
    create(bootstrap, topic)
    one, two, left_open = (
        producer(bootstrap, f"ordinary-{name}") for name in ("one", "two", "open")
    )
    one.begin_transaction()
    two.begin_transaction()
    send(one, topic, b"committed 1", b"committed 2")
    send(two, topic, b"aborted 1")
    for codec in CODECS:
        send(producer(bootstrap, **{"compression.type": codec}), topic, codec.encode())
    two.abort_transaction(30)
    one.commit_transaction(30)
    create(bootstrap, "data.stamped", message_timestamp_type="LogAppendTime")
    send(producer(bootstrap), "data.stamped", b"stamped")
    wanted = [b"committed 1", b"committed 2", *(codec.encode() for codec in CODECS)]
    wait_for(mirror, target.address, topic, wanted)
    left_open.begin_transaction()
    send(left_open, topic, b"open")
    send(producer(bootstrap), topic, b"behind")
    left_open.commit_transaction(30)
    wait_for(mirror, target.address, topic, [*wanted, b"open", b"behind"])
    wait_for(mirror, target.address, "data.stamped", [b"stamped"])
    wait_until(lambda: mirror.status().rebuilt_batches == 1, "the stamped batch is counted")


@pytest.mark.rotates("records and offsets at an ordinary target")
def test_without_transactions_there_is_no_marker_to_wait_for(
    mirror: MirrorProcess, apache_kafka: JavaServer, target: JavaServer
):
    """At least once, as a setting says; what was aborted at the source does not come either."""
    bootstrap, topic = apache_kafka.address, "data.sooner"
    mirror.kill()
    mirror.settings["mirror.target_transactions"] = "false"
    mirror.start()
    create(bootstrap, topic)
    aborting = producer(bootstrap, "sooner")
    aborting.begin_transaction()
    send(aborting, topic, b"aborted")
    aborting.abort_transaction(30)
    wanted = [b"%d" % number for number in range(50)]
    for value in wanted:
        send(producer(bootstrap), topic, value)
    wait_for(mirror, target.address, topic, wanted)
    assert SiteReader(target.address).ends(topic, 0) == (0, len(wanted)), "no marker is among them"


@pytest.mark.rotates("records and offsets at an ordinary target")
def test_the_newest_record_of_each_key_of_a_compacted_topic_comes(
    mirror: MirrorProcess, apache_kafka: JavaServer, target: JavaServer
):
    """Batches in which the cleaner left holes are unpacked and counted."""
    bootstrap, topic = apache_kafka.address, "data.cleaned"
    mirror.kill()
    create(
        bootstrap, topic, cleanup_policy="compact", segment_bytes="1048576", segment_ms="100",
        min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="200",
    )  # fmt: skip
    writer, reader = producer(bootstrap, **{"batch.num.messages": 3}), SiteReader(bootstrap)
    for number in range(30):
        writer.produce(topic, f"{number}", f"{number % 7}")
    assert writer.flush(30) == 0
    wait_until(lambda: _tick(writer, topic) and has_holes(reader, topic), "the source compacts", 90)
    newest = {key: value for _, key, value in read_committed(bootstrap, topic)}
    mirror.start()
    wait_until(
        lambda: {key: value for _, key, value in read_committed(target.address, topic)} == newest
        if _is_there(target.address, topic) else False,
        "the newest of each key are there",
    )  # fmt: skip
    wait_until(lambda: mirror.status().rebuilt_batches > 0, "rebuilt batches are counted")


def has_holes(reader: SiteReader, topic: str) -> bool:
    """Whether a batch holds fewer records than offsets, but some."""
    for _, _, raw in reader.batches(topic, 0):  # without the four bytes of the leader epoch
        delta, count = (int.from_bytes(raw[at : at + 4], "big") for at in (19, 53))
        if 0 < count <= delta:
            return True
    return False


def _tick(writer: Producer, topic: str) -> bool:
    """One more record, so that the active segment rolls and the cleaner has something to clean."""
    writer.produce(topic, b"tick", b"6")
    return writer.flush(30) == 0


def _is_there(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics


class NumberingProducer:
    """Sends 0, 1, 2 … to each partition of a topic, until it is stopped."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = producer(
            bootstrap, **{"enable.idempotence": True, "compression.type": "lz4"}
        )
        self._topic = topic
        self._stopping = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        while not self._stopping.wait(0.002):
            for partition in range(PARTITIONS):
                self._producer.produce(self._topic, b"%d" % self.sent, partition=partition)
            self.sent += 1
            self._producer.poll(0)  # reports that nobody takes would fill the queue
        assert self._producer.flush(60) == 0

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()


def test_after_kills_of_the_mirror_every_record_is_at_the_target_once_and_in_its_order(
    mirror: MirrorProcess, apache_kafka: JavaServer, target: JavaServer, dice: random.Random
):
    """Positions are committed with the records, so a kill in a transaction takes both or none; and
    of two mirrors at once the older one is fenced."""
    topic, reader = "data.killed", SiteReader(target.address)
    admin = AdminClient({"bootstrap.servers": apache_kafka.address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    numbers = NumberingProducer(apache_kafka.address, topic)
    seen = 0
    try:
        for _ in range(KILLS):
            wait_until(
                lambda before=seen: _end(reader, topic) > before, "records come to the target"
            )
            time.sleep(dice.random() * 0.3)  # the moment of the kill is what is drawn
            mirror.kill()
            seen = _end(reader, topic)
            killed = mirror.status().generation
            mirror.start()
        # of two that start at once either may be the newer one: the first must have begun
        wait_until(lambda: mirror.status().generation > killed, "the older one has begun")
        second = replace(mirror, folder=mirror.folder / "second", process=None).start()
        try:
            wait_until(lambda: mirror.state_of(topic) == "fenced", "the older one stops", 150)
        finally:
            second.kill()
        mirror.kill()
        mirror.start()
    finally:
        numbers.stop()
    wanted = [b"%d" % number for number in range(numbers.sent)]
    for partition in range(PARTITIONS):
        wait_until(
            lambda at=partition: _last(target.address, topic, at) == wanted[-1], "the last is there"
        )
        assert _values(target.address, topic, partition) == wanted


def _end(reader: SiteReader, topic: str) -> int:
    return reader.ends(topic, 0)[1]


def _values(bootstrap: str, topic: str, partition: int) -> list[bytes]:
    """What a read_committed consumer gets."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": "read", "isolation.level": "read_committed",
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            consumer.close()
            return found
        found.append(message.value())


def _last(bootstrap: str, topic: str, partition: int) -> bytes:
    return (_values(bootstrap, topic, partition) or [b""])[-1]


@pytest.mark.rotates("records and offsets at an ordinary target")
def test_the_client_of_mirrormaker_translates_a_groups_offsets(
    mirror: MirrorProcess, apache_kafka: JavaServer, target: JavaServer
):
    """Behind aborted records, which the target does not have; the group itself is there too."""
    bootstrap, topic = apache_kafka.address, "data.translated"
    create(bootstrap, topic)
    aborting = producer(bootstrap, "translated")
    aborting.begin_transaction()
    send(aborting, topic, b"aborted 1", b"aborted 2")
    aborting.abort_transaction(30)
    send(producer(bootstrap), topic, b"0", b"1", b"2", b"3")
    wait_for(mirror, target.address, topic, [b"0", b"1", b"2", b"3"])
    places = {value: offset for offset, _, value in read_committed(target.address, topic)}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "translated"})
    of_two = next(offset for offset, _, value in read_committed(bootstrap, topic) if value == b"2")
    place = TopicPartition(topic, 0, of_two)
    wait_until(lambda: _is_committed(consumer, place), "the group is committed at the source")
    consumer.close()
    at_target = Consumer({"bootstrap.servers": target.address, "group.id": "translated"})
    wait_until(
        lambda: _committed(at_target, topic) == places[b"2"], "the group is committed at the target"
    )
    at_target.close()
    wanted = f"{topic} 0 {places[b'2']}"
    wait_until(
        lambda: wanted in _translated(target.address, "translated"), "the checkpoint is written"
    )


def _is_committed(consumer: Consumer, place: TopicPartition) -> bool:
    """False while the coordinator is still being made."""
    try:
        consumer.commit(offsets=[place], asynchronous=False)
    except KafkaException:
        return False
    return True


def _committed(consumer: Consumer, topic: str) -> int:
    """-1 while the coordinator is still being made."""
    try:
        return consumer.committed([TopicPartition(topic, 0)], 10)[0].offset
    except KafkaException:
        return -1


def _translated(bootstrap: str, group: str) -> list[str]:
    program = Path(__file__).parent / "java" / "TranslateOffsets.java"
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(mirror_maker_jars()), str(program), bootstrap, "A",
         group],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
