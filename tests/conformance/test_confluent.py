"""confluent-kafka (librdkafka), unmodified."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    OffsetSpec,
    ResourceType,
)

NewTopic = Callable[..., str]
WAIT_S = 20.0


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: object) -> list[Message]:
    heard: list[Message] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        heard.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1} | settings)
    for number, value in enumerate(values):
        producer.produce(
            topic, value, key=b"k%d" % number, partition=0, timestamp=1_000_000 + number,
            headers=[("h", b"1"), ("empty", None)], on_delivery=on_delivery,
        )
    assert producer.flush(WAIT_S) == 0
    return heard


def consume(consumer: Consumer, count: int) -> list[Message]:
    found: list[Message] = []
    end = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < end:
        for message in consumer.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


def read(bootstrap: str, topic: str, count: int, offset: int = 0) -> list[Message]:
    """Reads from an offset: librdkafka needs half a second to find the log's start."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, 0, offset)])
    try:
        return consume(consumer, count)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_compression_come_back_as_they_were_sent(
    bootstrap: str, new_topic: NewTopic, codec: str
) -> None:
    """Key, value, headers, timestamp and offset are unchanged."""
    topic = new_topic()
    values = [b"value %d " % number * 20 for number in range(200)]
    produce(bootstrap, topic, values, **{"compression.type": codec})
    found = read(bootstrap, topic, 200)
    assert [message.value() for message in found] == values
    assert [message.offset() for message in found] == list(range(200))
    assert found[7].key() == b"k7"
    assert found[7].headers() == [("h", b"1"), ("empty", None)]
    assert found[7].timestamp()[1] == 1_000_007


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(bootstrap: str, new_topic: NewTopic, acks: str) -> None:
    """With acks=0 nothing is reported, but everything arrives."""
    topic = new_topic()
    produce(bootstrap, topic, [b"x"] * 50, acks=acks)
    assert len(read(bootstrap, topic, 50)) == 50


def test_an_idempotent_producer(bootstrap: str, new_topic: NewTopic) -> None:
    """Every value is stored once, in the order sent."""
    topic = new_topic()
    values = [b"%d" % number for number in range(1000)]
    produce(bootstrap, topic, values, **{"enable.idempotence": True})
    assert [message.value() for message in read(bootstrap, topic, 1000)] == values


def test_reading_from_the_middle_and_beyond_the_end(bootstrap: str, new_topic: NewTopic) -> None:
    """Reads at an offset inside a batch; an offset that does not exist is reset."""
    topic = new_topic()
    produce(bootstrap, topic, [b"%d" % n for n in range(100)], **{"linger.ms": 100})
    assert read(bootstrap, topic, 1, offset=57)[0].value() == b"57"
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "u", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, 0, 5000)])
    assert consume(consumer, 1)[0].offset() == 0
    consumer.close()


def test_offsets_by_time_and_watermarks(
    bootstrap: str, admin: AdminClient, new_topic: NewTopic
) -> None:
    """Finds the first record at or after a time, none after the last; earliest, latest, largest."""
    topic = new_topic()
    produce(bootstrap, topic, [b"x"] * 100)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "u"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_S) == (0, 100)
    asked = [TopicPartition(topic, 0, 1_000_042)]
    assert consumer.offsets_for_times(asked, WAIT_S)[0].offset == 42
    asked = [TopicPartition(topic, 0, 2_000_000)]
    assert consumer.offsets_for_times(asked, WAIT_S)[0].offset == -1
    consumer.close()
    place = TopicPartition(topic, 0)
    largest = admin.list_offsets({place: OffsetSpec.max_timestamp()})[place].result(WAIT_S)
    assert largest.offset == 99


def test_a_group_shares_partitions_and_takes_over_what_a_member_leaves(
    bootstrap: str, new_topic: NewTopic, group_id: str
) -> None:
    """Covers join, sync, heartbeat, commit and rebalance; the offsets are kept."""
    topic = new_topic(4)
    settings = {
        "bootstrap.servers": bootstrap, "group.id": group_id, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "heartbeat.interval.ms": 200, "session.timeout.ms": 6000,
    }
    first, second = Consumer(settings), Consumer(settings)
    first.subscribe([topic])
    _poll_until(lambda: len(first.assignment()) == 4, first)
    second.subscribe([topic])
    _poll_until(
        lambda: (len(first.assignment()), len(second.assignment())) == (2, 2), first, second
    )
    kept = {(place.topic, place.partition) for place in first.assignment()}
    other = {(place.topic, place.partition) for place in second.assignment()}
    assert not kept & other
    produce(bootstrap, topic, [b"x"] * 10)
    holder = first if (topic, 0) in kept else second
    assert len(consume(holder, 10)) == 10
    holder.commit(offsets=[TopicPartition(topic, 0, 10, metadata="note")], asynchronous=False)
    holder.close()
    left = second if holder is first else first
    _poll_until(lambda: len(left.assignment()) == 4, left)
    held = left.committed([TopicPartition(topic, 0)], timeout=WAIT_S)[0]
    assert (held.offset, held.metadata) == (10, "note")
    left.close()


def _until(condition: Callable[[], bool]) -> None:
    """Waits: Apache Kafka answers an administrator before every broker knows the change."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "the change did not show"
        time.sleep(0.05)


def _poll_until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "the group did not settle"
        for consumer in consumers:
            consumer.poll(0.05)


def test_a_compacted_topic_refuses_records_without_a_key(
    bootstrap: str, new_topic: NewTopic
) -> None:
    """The cleaner could never remove them."""
    topic = new_topic(cleanup_policy="compact")
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v", key=b"k", on_delivery=lambda e, _: e and errors.append(e.code()))
    producer.flush(WAIT_S)
    producer.produce(topic, b"v", on_delivery=lambda e, _: e and errors.append(e.code()))
    producer.flush(WAIT_S)
    assert errors == [KafkaError.INVALID_RECORD]


def test_a_batch_larger_than_the_topic_allows_is_refused(
    bootstrap: str, new_topic: NewTopic
) -> None:
    """max.message.bytes limits it; the error is MESSAGE_TOO_LARGE."""
    topic = new_topic(max_message_bytes="1000")
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, b"v" * 5000, on_delivery=lambda e, _: e and errors.append(e.code()))
    producer.flush(WAIT_S)
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]


def test_an_unknown_topic_is_made_for_a_producer(bootstrap: str, group_id: str) -> None:
    """Covers auto.create.topics.enable."""
    topic = f"made-{group_id}"
    assert len(produce(bootstrap, topic, [b"x"])) == 1
    assert len(read(bootstrap, topic, 1)) == 1


def test_administration(bootstrap: str, admin: AdminClient, new_topic: NewTopic) -> None:
    """Covers create, grow, configure, describe and delete."""
    topic = new_topic(2, retention_ms="60000")
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WAIT_S)
    _until(lambda: len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 5)
    resource = ConfigResource(
        ResourceType.TOPIC, topic,
        incremental_configs=[
            ConfigEntry(
                "segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    plain = ConfigResource(ResourceType.TOPIC, topic)

    def value(key: str) -> str:
        return str(admin.describe_configs([plain])[plain].result(WAIT_S)[key].value)

    _until(lambda: value("segment.bytes") == "2000000")
    found = admin.describe_configs([plain])[plain].result(WAIT_S)
    assert found["retention.ms"].value == "60000"
    assert found["cleanup.policy"].is_default
    admin.delete_topics([topic])[topic].result(WAIT_S)
    _until(lambda: topic not in admin.list_topics(timeout=WAIT_S).topics)
    with pytest.raises(KafkaException):
        admin.create_partitions([NewPartitions(topic, 6)])[topic].result(WAIT_S)


def test_deleted_records_can_no_longer_be_read(
    bootstrap: str, admin: AdminClient, new_topic: NewTopic
) -> None:
    """DeleteRecords moves the low watermark."""
    topic = new_topic()
    produce(bootstrap, topic, [b"%d" % n for n in range(20)])
    place = TopicPartition(topic, 0, 15)
    result = admin.delete_records([place])[place].result(WAIT_S)
    assert result.low_watermark == 15
    assert read(bootstrap, topic, 1, offset=OFFSET_BEGINNING)[0].offset() == 15


def test_groups_are_listed_described_and_deleted(
    bootstrap: str, admin: AdminClient, new_topic: NewTopic, group_id: str
) -> None:
    """Operators can list, describe and delete groups."""
    topic = new_topic()
    settings = {"bootstrap.servers": bootstrap, "group.id": group_id}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    _poll_until(lambda: len(consumer.assignment()) == 1, consumer)
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert group_id in {group.group_id for group in listed.valid}
    described = admin.describe_consumer_groups([group_id])[group_id].result(WAIT_S)
    assert described.state.name == "STABLE"
    assert len(described.members) == 1
    assert described.members[0].assignment.topic_partitions[0].topic == topic
    with pytest.raises(KafkaException) as caught:
        admin.delete_consumer_groups([group_id])[group_id].result(WAIT_S)
    assert caught.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    consumer.close()
    admin.delete_consumer_groups([group_id])[group_id].result(WAIT_S)
    listed = admin.list_consumer_groups().result(WAIT_S)
    assert group_id not in {group.group_id for group in listed.valid}
