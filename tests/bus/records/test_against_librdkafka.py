"""Record batches between us and librdkafka, both ways, all compressions, through our broker."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import decode_response, encode_request
from bus.protocol.generated import fetch, produce
from bus.records.batch import only_batch
from bus.records.build import build_batch
from bus.records.compression import Compression
from bus.records.read import read_all
from bus.records.record import Record
from bus.settings import BusSettings

pytestmark = pytest.mark.slow

PRODUCE_VERSION, FETCH_VERSION = 9, 12  # the last with topic names instead of ids
RECORDS = [
    Record(b"k" * 50, b"v" * 5000, [("schema", b"vehicle/1"), ("none", None)], 1_700_000_000_000),
    Record(None, b"w" * 300, [], 1_700_000_000_001),
    Record(b"", b"", [], 1_700_000_000_002),
]


def ask(bus: BusSettings, key: int, version: int, request: Any) -> Any:
    """One request over a connection of its own, by our codec."""
    host, port = bus.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"".join(encode_request(key, version, 7, "test", request)))
        stream = connection.makefile("rb")
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    correlation_id, response = decode_response(key, version, frame)
    assert correlation_id == 7
    return response


@pytest.fixture(params=list(Compression), ids=lambda codec: codec.name.lower())
def codec(request: pytest.FixtureRequest) -> Compression:
    """Each compression."""
    codec: Compression = request.param
    return codec


def test_librdkafka_reads_our_batches(bus: BusSettings, codec: Compression) -> None:
    topic = f"ours-{codec.name.lower()}"
    Admin(bus, client_id="test").create_topic(topic, 1)
    data = produce.PartitionProduceData(0, build_batch(RECORDS, compression=codec))
    topics = [produce.TopicProduceData(topic, partition_data=[data])]
    request = produce.ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
    answer = ask(bus, ApiKey.PRODUCE, PRODUCE_VERSION, request)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    read = []
    deadline = time.monotonic() + 20
    with Consumer(bus, client_id="test", overrides={"check.crcs": True}) as consumer:
        consumer.assign({TopicPartition(topic, 0): BEGINNING})
        while len(read) < len(RECORDS) and time.monotonic() < deadline:
            read += consumer.poll(10, 0.5)
    assert [(r.key, r.value, list(r.headers), r.timestamp_ms) for r in read] == [
        (r.key, r.value, r.headers, r.timestamp_ms) for r in RECORDS
    ]


def test_we_read_the_batches_of_librdkafka(bus: BusSettings, codec: Compression) -> None:
    topic = f"theirs-{codec.name.lower()}"
    Admin(bus, client_id="test").create_topic(topic, 1)
    kind = "none" if codec is Compression.NONE else codec.name.lower()
    producer = Producer(bus, client_id="test", overrides={"compression.type": kind})
    for r in RECORDS:
        headers = [(name, value) for name, value in r.headers]
        producer.send(
            topic, r.value, key=r.key, headers=headers, timestamp_ms=r.timestamp_ms, partition=0
        )
    assert producer.close() == 0
    partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [fetch.FetchTopic(topic, partitions=[partition])]
    request = fetch.FetchRequest(max_wait_ms=1000, min_bytes=1, topics=topics)
    answer = ask(bus, ApiKey.FETCH, FETCH_VERSION, request)
    records = memoryview(answer.responses[0].partitions[0].records)
    read = list(read_all(records))
    assert {header.compression for header, _ in read} == {codec}
    assert only_batch(records[: read[0][0].size_bytes]).producer_id >= 0
    assert [record for _, record in read] == [r._replace(offset=n) for n, r in enumerate(RECORDS)]
