"""Commits of a consumer, to a coordinator that stands still in the middle of one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.errors import BusError
from bus.limits import CLIENT_CLOSE_TIMEOUT_MS
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(90)]

PLACE = TopicPartition(DATA_VEHICLE, 0)
LIMIT_S = 0.5
MORE_S = 2.0  # what a busy machine may add to a limit


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path)
    try:
        admin = Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="test")
        admin.ensure_topics([TOPICS[DATA_VEHICLE]])
        admin.close()
        yield running
    finally:
        os.kill(running.pid, signal.SIGCONT)
        running.kill()


@pytest.fixture
def consumer(broker: RunningBroker) -> Consumer:
    """With a first commit, so that it knows its coordinator. `close` it."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    consumer = Consumer(bus, client_id="test", group="test", timeout_s=LIMIT_S)
    deadline = time.monotonic() + 20
    while not is_committed(consumer, 1):
        assert time.monotonic() < deadline
    return consumer


def is_committed(consumer: Consumer, offset: int) -> bool:
    """Whether a commit is answered in time."""
    with contextlib.suppress(BusError):
        consumer.commit({PLACE: offset})
        return True
    return False


def test_a_commit_without_an_answer_ends_and_none_overtakes_it(
    broker: RunningBroker, consumer: Consumer
) -> None:
    """It once returned when the broker was back, be it a day later."""
    os.kill(broker.pid, signal.SIGSTOP)
    for offset in (2, 3):
        begun_s = time.monotonic()
        with pytest.raises(BusError, match="is the coordinator away"):
            consumer.commit({PLACE: offset})
        assert time.monotonic() - begun_s < LIMIT_S + MORE_S
    os.kill(broker.pid, signal.SIGCONT)
    deadline = time.monotonic() + 20
    while not is_committed(consumer, 4):
        assert time.monotonic() < deadline
    assert consumer.committed([PLACE]) == {PLACE: 4}
    consumer.close()


def test_a_poll_goes_on_while_a_commit_has_no_answer(
    broker: RunningBroker, consumer: Consumer
) -> None:
    """Regression: confluent-kafka lets the calls of a consumer wait for each other, and the commit
    was a blocking one in a thread of its own."""
    os.kill(broker.pid, signal.SIGSTOP)
    answer = consumer.begin_commit({PLACE: 2})
    assert answer is not None
    assert consumer.poll(10, 0.1) == []
    assert consumer.begin_commit({PLACE: 3}) is None
    assert not answer.done()
    os.kill(broker.pid, signal.SIGCONT)
    while not answer.done():
        consumer.poll(10, 0.1)
    assert answer.result() is None
    assert consumer.committed([PLACE]) == {PLACE: 2}
    consumer.close()


def test_what_comes_while_a_commit_is_waited_for_is_polled_next(
    broker: RunningBroker, consumer: Consumer
) -> None:
    """Once and in order."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Producer(bus, client_id="test")) as producer:
        for number in range(500):
            producer.send(PLACE.topic, b"x", partition=PLACE.partition, key=str(number))
        producer.flush(30)
        consumer.assign({PLACE: 0})
        read: list[int] = []
        while len(read) < 500:
            is_committed(consumer, len(read) + 1)
            read += [record.offset for record in consumer.poll(7, 0.1)]
    assert read == list(range(500))
    consumer.close()


def test_a_consumer_closes_while_a_commit_has_no_answer(
    broker: RunningBroker, consumer: Consumer
) -> None:
    """librdkafka closes no consumer before its commits have ended: whoever stops goes on."""
    os.kill(broker.pid, signal.SIGSTOP)
    assert not is_committed(consumer, 2)
    begun_s = time.monotonic()
    consumer.close()
    assert time.monotonic() - begun_s < CLIENT_CLOSE_TIMEOUT_MS / 1000 + MORE_S
