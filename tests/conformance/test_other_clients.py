"""kafka-python, aiokafka and kcat, unmodified: clients of other authors and versions."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

NewTopic = Callable[..., str]
KCAT = next((name for name in ("kcat", "kafkacat") if shutil.which(name)), None)


@pytest.mark.parametrize("codec", [None, "gzip", "lz4", "zstd"])
def test_kafka_python_produces_and_reads_by_assignment(
    bootstrap: str, new_topic: NewTopic, codec: str | None
) -> None:
    """Covers every compression whose library is installed, and offsets by time."""
    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, acks="all")
    sent = [
        producer.send(topic, b"value %d" % n, key=b"k", timestamp_ms=1000 + n, partition=0)
        for n in range(50)
    ]
    assert [future.get(20).offset for future in sent] == list(range(50))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=10_000)
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    found = [next(consumer).value for _ in range(50)]
    assert found == [b"value %d" % n for n in range(50)]
    assert consumer.offsets_for_times({place: 1030})[place].offset == 30
    consumer.close()


def test_kafka_python_consumes_in_a_group(
    bootstrap: str, new_topic: NewTopic, group_id: str
) -> None:
    """The next consumer continues at the committed offsets."""
    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for n in range(10):
        producer.send(topic, b"%d" % n).get(20)
    producer.close()
    settings = {
        "bootstrap_servers": bootstrap, "group_id": group_id, "auto_offset_reset": "earliest",
        "consumer_timeout_ms": 15_000, "enable_auto_commit": False,
    }
    first = KafkaConsumer(topic, max_poll_records=1, **settings)
    assert [next(first).value for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    first.commit()
    first.close()
    second = KafkaConsumer(topic, **settings)
    assert next(second).value == b"4"
    second.close()


@pytest.mark.parametrize("idempotent", [False, True])
def test_aiokafka_produces_and_consumes_in_a_group(
    bootstrap: str, new_topic: NewTopic, group_id: str, idempotent: bool
) -> None:
    """It uses the oldest protocol versions of all these clients."""
    topic = new_topic(2)

    async def story() -> list[bytes]:
        async with AIOKafkaProducer(
            bootstrap_servers=bootstrap, enable_idempotence=idempotent, compression_type="lz4"
        ) as producer:
            for n in range(20):
                await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
        async with AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group_id, auto_offset_reset="earliest"
        ) as consumer:
            found = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(20)]
            await consumer.commit()
            return found

    assert sorted(asyncio.run(story()), key=int) == [b"%d" % n for n in range(20)]


@pytest.mark.skipif(KCAT is None, reason="needs kcat; install it (Debian: apt-get install kcat)")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_kcat_produces_and_consumes(bootstrap: str, new_topic: NewTopic, codec: str) -> None:
    """Its librdkafka 2.0.2 compresses only because Produce is advertised from version 0."""
    topic = new_topic()
    words = [str(KCAT), "-b", bootstrap, "-t", topic]
    lines = "\n".join(f"line {n}" for n in range(100)) + "\n"
    subprocess.run([*words, "-P", "-z", codec], input=lines, text=True, check=True, timeout=30)
    read = subprocess.run(
        [*words, "-C", "-e", "-q", "-o", "beginning"],
        capture_output=True, text=True, check=True, timeout=30,
    )
    assert read.stdout == lines
