"""`compression.type` of a topic: batches in another codec are recompressed, as Kafka's leader does.

It was listed, taken and ignored.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.config.views import BrokerConfig, TopicConfig
from broker.log.errors import LogError
from broker.log.log import Log
from bus.errors import ErrorCode
from bus.records.batch import HEADER_BYTES, check_crc, iter_batches, seal
from bus.records.compression import Compression
from bus.records.read import read_records
from deploy.servers.databus import RunningBroker

NOW_MS = 1_760_000_000_000
Batch = Callable[..., bytearray]
BROKER = BrokerConfig.from_mapping({"node.id": "1"})


def settings(**keys: str) -> TopicConfig:
    return TopicConfig.of(BROKER, {name.replace("_", "."): text for name, text in keys.items()})


@pytest.mark.parametrize("sent", list(Compression))
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_what_is_stored_is_in_the_topics_codec(
    make_log: Callable[..., Log], batch: Batch, sent: Compression, wanted: str
) -> None:
    """Records, producer and sequence stay as they were sent."""
    log = make_log()
    log.reconfigure(settings(compression_type=wanted))
    data = batch(5, size=300, compression=sent, producer_id=9, producer_epoch=0, base_sequence=0)
    before = [(r.key, r.value, r.timestamp_ms) for r in read_records(data)]
    info = log.append(data, leader_epoch=3, now_ms=NOW_MS)
    stored = bytes(log.read(0, 1 << 20).data)
    header = check_crc(stored)
    assert header.compression == (sent if wanted == "producer" else Compression.named(wanted))
    assert (header.base_offset, header.producer_id, header.base_sequence) == (0, 9, 0)
    assert [(r.key, r.value, r.timestamp_ms) for r in read_records(stored)] == before
    assert info.size_bytes == len(stored)
    log.append(data, leader_epoch=3, now_ms=NOW_MS)  # the producer sends it again
    assert log.end_offset == 5


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "1", "17"), ("zstd", "1", "19")]
)
def test_the_level_counts(
    make_log: Callable[..., Log], batch: Batch, codec: str, low: str, high: str
) -> None:
    sizes = []
    log = make_log()
    for level in (low, high):
        log.reconfigure(settings(compression_type=codec, **{f"compression_{codec}_level": level}))
        data = batch(200, size=37)
        sizes.append(log.append(data, leader_epoch=0, now_ms=NOW_MS).size_bytes)
    assert sizes[1] < sizes[0]


def test_a_batch_that_does_not_unpack_or_grows_too_large_is_refused_and_nothing_changes(
    make_log: Callable[..., Log], batch: Batch
) -> None:
    log = make_log()
    log.reconfigure(settings(compression_type="lz4"))
    damaged = batch(1, size=500, compression=Compression.GZIP)
    damaged[HEADER_BYTES:] = bytes(len(damaged) - HEADER_BYTES)
    seal(damaged, 0, len(damaged))
    with pytest.raises(LogError) as refused:
        log.append(damaged, leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    log.reconfigure(settings(compression_type="uncompressed", max_message_bytes="1000"))
    with pytest.raises(LogError) as refused:
        log.append(batch(1, size=5000, compression=4), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_real_producer_and_consumer_do_not_notice(
    shared_broker: RunningBroker, wanted: str
) -> None:
    """librdkafka sends lz4 and reads what the broker packed."""
    topic, at = f"packed-{wanted}", {"bootstrap.servers": shared_broker.bootstrap}
    made = NewTopic(topic, 1, 1, config={"compression.type": wanted})
    admin = AdminClient(at)
    admin.create_topics([made])[topic].result(30)
    producer = Producer({**at, "compression.type": "lz4", "enable.idempotence": True})
    values = [b"value %d " % number * 20 for number in range(100)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    reader = Consumer({**at, "group.id": "none", "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < len(values):
        message = reader.poll(30)
        assert message is not None
        assert message.error() is None
        found.append(message.value() or b"")
    reader.close()
    assert found == values
    [path] = (shared_broker.data_dir / "logs" / f"{topic}-0").glob("*.log")
    codecs = {header.compression for _, header in iter_batches(path.read_bytes())}
    assert codecs == {Compression.named(wanted)}
