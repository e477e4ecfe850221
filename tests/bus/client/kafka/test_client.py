"""The applications' client against our own broker."""

from __future__ import annotations

import threading
import time

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.errors import DeliveryError, QueueFull
from bus.client.kafka.producer import AsyncProducer, DeliveryReport, Producer, RecordMetadata
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.topics import (
    CONTROL_REGISTER,
    DATA_VEHICLE,
    DAY_MS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings

NOWHERE = BusSettings(bootstrap_servers="127.0.0.1:1")
WAIT_S = 20.0


@pytest.fixture(scope="module")
def admin(bus: BusSettings) -> Admin:
    """An administration client of a running broker."""
    admin = Admin(bus, client_id="test-admin")
    admin.wait_until_up(WAIT_S)
    return admin


def poll_all(consumer: Consumer, count: int) -> list[ConsumedRecord]:
    """Polls that many records, in bounded time."""
    polled: list[ConsumedRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(polled) < count and time.monotonic() < deadline:
        polled += consumer.poll(count - len(polled), 0.5)
    return polled


def test_the_topics_of_the_contract_are_created_once(admin: Admin) -> None:
    assert set(admin.ensure_topics(TOPICS.values())) == TOPICS.keys()
    assert admin.ensure_topics(TOPICS.values()) == []
    for topic in TOPICS.values():
        view = admin.describe_topic(topic.name)
        assert len(view.partitions) == topic.partitions
        assert topic.configs.items() <= view.configs.items()


def test_a_topic_of_an_earlier_contract_gets_what_was_added_and_keeps_what_was_set(
    admin: Admin,
) -> None:
    """Once: a table of before had segments of a gigabyte, of which the active one is never
    cleaned."""
    admin.ensure_topics([TOPICS[DATA_VEHICLE]])
    for name in (STATE_WATCHLIST, CONTROL_REGISTER):
        if name in admin.topic_names():
            admin.delete_topic(name)
    admin.create_topic(STATE_WATCHLIST, 1, {"cleanup.policy": "compact"})
    admin.create_topic(CONTROL_REGISTER, 1, {"cleanup.policy": "compact", "segment.bytes": "2097152"})
    topics = [TOPICS[CONTROL_REGISTER], TOPICS[STATE_WATCHLIST], TOPICS[DATA_VEHICLE]]
    assert admin.add_configs(topics) == [CONTROL_REGISTER, STATE_WATCHLIST]
    for name, segment_bytes in ((CONTROL_REGISTER, "2097152"), (STATE_WATCHLIST, "4194304")):
        found = admin.topic_configs(name)
        assert found["segment.bytes"] == segment_bytes
        assert found["min.compaction.lag.ms"] == found["max.compaction.lag.ms"] == "86400000"
        assert "retention.ms" not in found, "of what an earlier contract had nothing is changed"
    assert admin.add_configs(topics) == []


def test_every_compacted_topic_says_which_keys_stay_and_in_small_segments() -> None:
    """A segment that is written to is never cleaned."""
    tables = [topic for topic in TOPICS.values() if topic.compacted]
    assert tables
    for topic in tables:
        assert topic.live_keys is not None
        assert all((topic.live_keys.what, topic.live_keys.bound, topic.live_keys.removed_by))
        assert "compact" in topic.configs["cleanup.policy"].split(",")
        assert topic.configs["segment.bytes"] == str(4 << 20)
        assert int(topic.configs["max.compaction.lag.ms"]) <= DAY_MS


@pytest.mark.parametrize("at_ms", [-(1 << 62), -(1 << 63) // 1000 - 1])
def test_a_time_that_spark_cannot_hold_is_refused_to_its_sender(
    bus: BusSettings, admin: Admin, at_ms: int
) -> None:
    """Regression: one such record on a data topic ended every start of the streams for a week,
    since Spark stops reading the topic before our code sees the record. Old times are accepted."""
    admin.ensure_topics(TOPICS.values())
    producer = Producer(bus, client_id="test")
    outcomes: list[DeliveryReport] = []
    for at in (at_ms, 1):
        producer.send(DATA_VEHICLE, b"{}", timestamp_ms=at, on_delivery=outcomes.append)
        producer.flush(WAIT_S)
    producer.close()
    refused, accepted = outcomes
    assert isinstance(refused, DeliveryError)
    assert refused.code is ErrorCode.INVALID_TIMESTAMP
    assert isinstance(accepted, RecordMetadata)


def test_a_topic_that_is_not_there_is_not_made_by_looking(admin: Admin) -> None:
    with pytest.raises(BusError) as raised:
        admin.describe_topic("never-made")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert "never-made" not in admin.topic_names()


def test_a_second_topic_of_a_name_is_refused(admin: Admin) -> None:
    admin.create_topic("twice", 1)
    with pytest.raises(BusError) as raised:
        admin.create_topic("twice", 1)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_what_is_sent_is_delivered_and_read_with_all_it_carried(
    bus: BusSettings, admin: Admin
) -> None:
    admin.create_topic("carried", 1)
    outcomes: list[DeliveryReport] = []
    producer = Producer(bus, client_id="test")
    producer.send(
        "carried",
        "粤B·12345",
        key="k",
        headers=[("schema", b"vehicle/1"), ("none", None)],
        timestamp_ms=1_700_000_000_123,
        on_delivery=outcomes.append,
    )
    producer.send("carried", None, key=b"tombstone", on_delivery=outcomes.append)
    assert producer.close() == 0
    assert [(o.partition, o.offset) for o in outcomes if isinstance(o, RecordMetadata)] == [
        (0, 0),
        (0, 1),
    ]
    with Consumer(bus, client_id="test") as consumer:
        consumer.assign({TopicPartition("carried", 0): BEGINNING})
        first, second = poll_all(consumer, 2)
    assert first[:6] == ("carried", 0, 0, 1_700_000_000_123, b"k", "粤B·12345".encode())
    assert first.headers == [("schema", b"vehicle/1"), ("none", None)]
    assert first.header("schema") == b"vehicle/1"
    assert (second.key, second.value) == (b"tombstone", None)


def test_one_key_goes_where_java_would_send_it(bus: BusSettings, admin: Admin) -> None:
    """Numbers from Java's murmur2 partitioner over 7 partitions."""
    admin.create_topic("keyed", 7)
    outcomes: list[DeliveryReport] = []
    producer = Producer(bus, client_id="test")
    keys = ["京A12345", "粤B67890", "device-17"]
    for key in keys:
        producer.send("keyed", "v", key=key, on_delivery=outcomes.append)
    producer.close()
    expected = [(_murmur2(key.encode()) & 0x7FFFFFFF) % 7 for key in keys]
    places = [o.partition for o in sorted(outcomes, key=_by_offset) if isinstance(o, RecordMetadata)]
    assert sorted(places) == sorted(expected)


def _by_offset(outcome: DeliveryReport) -> int:
    assert isinstance(outcome, RecordMetadata)
    return outcome.offset


def _murmur2(data: bytes) -> int:
    """Kafka's variant (seed 0x9747b28c), as an unsigned number."""
    mixer, h = 0x5BD1E995, (0x9747B28C ^ len(data)) & 0xFFFFFFFF
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * mixer & 0xFFFFFFFF
        h = h * mixer & 0xFFFFFFFF ^ (k ^ k >> 24) * mixer & 0xFFFFFFFF
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * mixer & 0xFFFFFFFF
    h = (h ^ h >> 13) * mixer & 0xFFFFFFFF
    return h ^ h >> 15


async def test_an_awaited_record_is_on_the_bus(bus: BusSettings, admin: Admin) -> None:
    admin.create_topic("awaited", 1)
    producer = AsyncProducer(bus, client_id="test-async")
    delivery = await producer.produce("awaited", b"first")
    queued = [await producer.enqueue("awaited", str(n)) for n in range(1000)]
    offsets = [(await future).offset for future in queued]
    assert delivery.offset == 0
    assert offsets == list(range(1, 1001))
    assert await producer.close() == 0


async def test_a_record_to_no_topic_fails_with_its_reason(bus: BusSettings, admin: Admin) -> None:
    producer = AsyncProducer(bus, client_id="test-lost", overrides={"message.timeout.ms": 1500})
    with pytest.raises(DeliveryError) as raised:
        await producer.produce("no such topic!", b"lost")
    assert raised.value.topic == "no such topic!"
    await producer.close(0)


def test_a_bus_that_is_away_is_an_error_in_bounded_time() -> None:
    outcomes: list[DeliveryReport] = []
    overrides = {"message.timeout.ms": 300, "queue.buffering.max.messages": 2}
    producer = Producer(NOWHERE, client_id="test-away", overrides=overrides)
    producer.send("data.vehicle", b"1", on_delivery=outcomes.append)
    producer.send("data.vehicle", b"2", on_delivery=outcomes.append)
    assert not producer.try_send("data.vehicle", b"3")
    with pytest.raises(QueueFull):
        producer.send("data.vehicle", b"3", wait_s=0.05)
    assert producer.close() == 0
    assert [type(outcome) for outcome in outcomes] == [DeliveryError, DeliveryError]
    with pytest.raises(BusError) as raised:
        Admin(NOWHERE, client_id="test-away").wait_until_up(0.3)
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION


def test_callbacks_come_although_nobody_waits(bus: BusSettings, admin: Admin) -> None:
    admin.create_topic("unwaited", 1)
    arrived = threading.Event()
    producer = Producer(bus, client_id="test")
    producer.send("unwaited", b"v", on_delivery=lambda _: arrived.set())
    assert arrived.wait(WAIT_S)
    producer.close()


def test_offsets_are_found_by_time_and_by_their_bounds(bus: BusSettings, admin: Admin) -> None:
    admin.create_topic("timed", 1)
    producer = Producer(bus, client_id="test")
    for n in range(10):
        producer.send("timed", str(n), timestamp_ms=1_700_000_000_000 + 1000 * n)
        producer.flush()
    producer.close()
    place = TopicPartition("timed", 0)
    with Consumer(bus, client_id="test") as consumer:
        assert consumer.partitions_of("timed") == [place]
        assert consumer.bounds(place) == (0, 10)
        assert consumer.offsets_at([place], 1_700_000_004_001) == {place: 5}
        consumer.assign({place: 5})
        assert [record.offset for record in poll_all(consumer, 5)] == [5, 6, 7, 8, 9]
        assert consumer.positions() == {place: 10}
        deadline = time.monotonic() + WAIT_S
        while not consumer.at_end and time.monotonic() < deadline:
            consumer.poll(1, 0.2)
        assert consumer.at_end


def test_a_group_commits_goes_on_and_is_described(bus: BusSettings, admin: Admin) -> None:
    admin.create_topic("grouped", 2)
    producer = Producer(bus, client_id="test")
    for n in range(10):
        producer.send("grouped", str(n), partition=n % 2)
    producer.close()
    places = [TopicPartition("grouped", 0), TopicPartition("grouped", 1)]
    with Consumer(bus, client_id="member-1", group="readers") as consumer:
        consumer.subscribe(["grouped"])
        assert len(poll_all(consumer, 10)) == 10
        consumer.commit({places[0]: 5, places[1]: 3})
        assert consumer.committed(places) == {places[0]: 5, places[1]: 3}
        view = admin.describe_group("readers")
    assert [member.client_id for member in view.members] == ["member-1"]
    assert set(view.members[0].assignment) == set(places)
    assert view.lag == {places[0]: 0, places[1]: 2}
    assert "readers" in admin.groups()
    with Consumer(bus, client_id="member-2", group="readers") as consumer:
        consumer.subscribe(["grouped"])
        assert [(r.partition, r.offset) for r in poll_all(consumer, 2)] == [(1, 3), (1, 4)]


def test_a_deleted_topic_is_gone(admin: Admin) -> None:
    admin.create_topic("short-lived", 1)
    admin.delete_topic("short-lived")
    assert "short-lived" not in admin.topic_names()
    with pytest.raises(BusError) as raised:
        admin.delete_topic("short-lived")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_record_nobody_awaits_any_more_disturbs_no_other() -> None:
    producer = AsyncProducer(
        NOWHERE, client_id="test-cancelled", overrides={"message.timeout.ms": 200}
    )
    given_up = await producer.enqueue("data.vehicle", b"1")
    given_up.cancel()
    with pytest.raises(DeliveryError):
        await producer.produce("data.vehicle", b"2")
    assert given_up.cancelled()
    await producer.close(0)
