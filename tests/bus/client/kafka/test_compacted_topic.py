"""A compacted topic followed beside a real broker: changes, a topic made anew, brokers that go."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from bus.client.compacted_state import Change, KeyedValues, struct_change
from bus.client.kafka.admin import Admin
from bus.client.kafka.compacted_topic import (
    CatchUpTimeout,
    CompactedTopic,
    TopicMissing,
)
from bus.client.kafka.producer import Producer
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker

pytestmark = pytest.mark.slow

TOPIC, WITHIN_S = "facts", 60.0


class Number(msgspec.Struct, frozen=True):
    number: int


Numbers = KeyedValues[Number]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path)
    make(running)
    yield running
    running.stop()


def make(broker: RunningBroker, *, anew: bool = False) -> None:
    with closing(Admin(settings(broker), client_id="test")) as admin:
        if anew:
            admin.delete_topic(TOPIC)
        admin.create_topic(TOPIC, 1)


def settings(broker: RunningBroker) -> BusSettings:
    return BusSettings(bootstrap_servers=broker.bootstrap)


def put(broker: RunningBroker, **said: int | None) -> None:
    producer = Producer(settings(broker), client_id="test")
    for key, number in said.items():
        value = None if number is None else msgspec.json.encode(Number(number))
        producer.send(TOPIC, value, key=key)
    assert producer.close() == 0


def numbers(topic: CompactedTopic[Numbers]) -> dict[str, int]:
    return {key: one.number for key, one in topic.state.values.items()}


def strict(broker: RunningBroker) -> CompactedTopic[Numbers]:
    bus = settings(broker)
    leaders = PartitionLeaders(bus, "test-ends")
    return CompactedTopic(
        bus, TOPIC, lambda: KeyedValues(struct_change(Number)), client_id="test", leaders=leaders
    )


def follow_until(topic: CompactedTopic[Numbers], what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline, numbers(topic)
        topic.follow(0.05)


def test_what_was_acknowledged_before_the_question_is_known_after_it(broker: RunningBroker) -> None:
    """Drawn puts and tombstones against a dict; also with the topic made anew in between."""
    draw, model = random.Random(7), dict[str, int]()
    with strict(broker) as topic:
        for turn in range(12):
            if turn in (5, 9):
                make(broker, anew=True)
                model.clear()
            said = {draw.choice("abcdef"): draw.choice([None, turn, -turn]) for _ in range(3)}
            put(broker, **said)
            model |= {key: one for key, one in said.items() if one is not None}
            model = {key: one for key, one in model.items() if said.get(key, 0) is not None}
            topic.catch_up()
            assert numbers(topic) == model
        assert topic.generation == 2


def test_a_follower_hears_of_each_change_and_knows_when_it_has_all(broker: RunningBroker) -> None:
    heard: list[Change[Number]] = []
    put(broker, a=1, b=2, c=3)
    with CompactedTopic(
        settings(broker), TOPIC, lambda: KeyedValues(struct_change(Number), heard.append),
        client_id="test", first_offsets=None,
    ) as topic:  # fmt: skip
        assert (topic.is_whole, numbers(topic)) == (False, {})
        follow_until(topic, lambda: topic.is_whole)
        assert numbers(topic) == {"a": 1, "b": 2, "c": 3}
        put(broker, b=None, c=4)
        follow_until(topic, lambda: len(heard) == 5)
        assert numbers(topic) == {"a": 1, "c": 4}
        assert heard[3:] == [Change("b", None), Change("c", Number(4))]


def test_an_empty_topic_is_whole_at_once_and_the_former_one_holds_till_the_new_one_is_read(
    broker: RunningBroker,
) -> None:
    with CompactedTopic(
        settings(broker), TOPIC, lambda: KeyedValues(struct_change(Number)),
        client_id="test", first_offsets=None,
    ) as topic:  # fmt: skip
        follow_until(topic, lambda: topic.is_at_end)
        put(broker, a=1)
        follow_until(topic, lambda: numbers(topic) == {"a": 1})
        make(broker, anew=True)
        seen = []
        follow_until(topic, lambda: seen.append(numbers(topic)) or topic.generation == 1)
        assert seen[-1] == {}
        assert set(map(str, seen[:-1])) == {str({"a": 1})}


def test_the_end_is_reached_also_where_no_record_stands_just_below_it(
    broker: RunningBroker,
) -> None:
    """As behind what a compaction leaves, or the mark of a transaction: a position that only records
    move would never come there. Here nothing stands below the end at all."""
    with CompactedTopic(
        settings(broker), TOPIC, lambda: KeyedValues(struct_change(Number)),
        client_id="test", first_offsets=None,
    ) as topic:  # fmt: skip
        topic.catch_up()
        assert topic.is_whole
        put(broker, a=1)
        topic.catch_up()
        assert numbers(topic) == {"a": 1}


def test_a_bus_that_is_away_is_said_within_the_bound_and_what_was_read_stays(
    broker: RunningBroker,
) -> None:
    put(broker, a=1)
    bus = settings(broker)
    with CompactedTopic(
        bus, TOPIC, lambda: KeyedValues(struct_change(Number)), client_id="test", timeout_s=0.2,
        leaders=PartitionLeaders(bus, "test-ends"),
    ) as topic:  # fmt: skip
        deadline = time.monotonic() + WITHIN_S
        while not topic.is_whole:
            assert time.monotonic() < deadline
            try:
                topic.catch_up()
            except CatchUpTimeout:
                continue  # a slow machine
        broker.kill()
        with pytest.raises(CatchUpTimeout, match=TOPIC):
            topic.catch_up()
        assert numbers(topic) == {"a": 1}


def test_a_topic_that_is_not_there_is_said_to_be_missing_brokers_that_are_not_are_not(
    broker: RunningBroker,
) -> None:
    def opened(bus: BusSettings, topic: str) -> CompactedTopic[Numbers]:
        return CompactedTopic(
            bus, topic, lambda: KeyedValues(struct_change(Number)), client_id="test", timeout_s=0.1
        )

    with pytest.raises(TopicMissing, match="elsewhere: not there"):
        opened(settings(broker), "elsewhere")
    with pytest.raises(CatchUpTimeout) as away:
        opened(BusSettings(bootstrap_servers="127.0.0.1:1"), TOPIC)
    assert not isinstance(away.value, TopicMissing)
