"""A real broker whose device answers no fsync: only what waits for the device waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from slow_fsync import CannotTrace, check_strace, slow_fsync

from deploy.servers.databus import RunningBroker, start_broker

pytestmark = pytest.mark.slow
STALL_MS = 120_000  # longer than the rounds take; it ends with the block
ROUNDS = 20
BOUND_S = 60.0
FORCED, FREE = "forced", "free"
PROPERTIES = {
    "metadata.max.idle.interval.ms": "0",  # a quorum of one writes nothing without changes
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.segment.bytes": str(1 << 20),
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    try:
        check_strace()
    except CannotTrace as why:
        pytest.skip(str(why))
    running = start_broker(tmp_path, PROPERTIES)
    try:
        yield running
    finally:
        running.stop()


def make_topics(admin: AdminClient) -> None:
    made = admin.create_topics(
        [NewTopic(FORCED, 1, config={"flush.messages": "1"}), NewTopic(FREE, 1)]
    )
    for done in made.values():
        done.result(BOUND_S)


def producer(bootstrap: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})


def read(consumer: Consumer) -> Message:
    message = consumer.poll(BOUND_S)
    assert message is not None
    assert message.error() is None
    return message


def test_a_stalled_device_holds_up_only_what_waits_for_it(broker: RunningBroker) -> None:
    """While one acknowledgement waits for its flush, other partitions are written and read, segments
    roll, checkpoints are written, Metadata is answered and a member stays in its group."""
    bootstrap = broker.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(admin)
    revoked: list[object] = []
    member = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "session.timeout.ms": 6000,
         "heartbeat.interval.ms": 500, "auto.offset.reset": "earliest",
         "enable.auto.commit": False}
    )  # fmt: skip
    member.subscribe([FREE], on_revoke=lambda _, partitions: revoked.append(partitions))
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    reader.assign([TopicPartition(FREE, 0, 0)])
    free, forced = producer(bootstrap), producer(bootstrap)
    free.produce(FREE, b"first")
    forced.produce(FORCED, b"first")
    assert (free.flush(BOUND_S), forced.flush(BOUND_S)) == (0, 0)
    assert read(member).value() == read(reader).value() == b"first"

    acknowledged: list[KafkaError | None] = []
    with slow_fsync(broker.pid, STALL_MS):
        forced.produce(FORCED, b"slow", on_delivery=lambda error, _: acknowledged.append(error))
        for number in range(ROUNDS):
            value = b"%d" % number + bytes(100_000)
            free.produce(FREE, value)
            assert free.flush(BOUND_S) == 0
            assert read(reader).value() == read(member).value() == value
            assert FREE in admin.list_topics().topics
            forced.poll(0)
        assert acknowledged == [], "acknowledged before its flush"
    assert forced.flush(BOUND_S) == 0
    assert acknowledged == [None]
    assert revoked == []
    member.close()
    reader.close()
