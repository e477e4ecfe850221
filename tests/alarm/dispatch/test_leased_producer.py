"""What a member has decided is sent in its order, within its lease, with an outcome of each record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from alarm.dispatch.alarm_topic import NEVER_TAKEN
from alarm.dispatch.leased_producer import LeasedProducer
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import RecordMetadata
from bus.client.model import KeyedValue
from bus.contracts.topics import EVENT_ALARM
from bus.errors import ErrorCode
from tests.alarm.dispatch.dispatch_world import DispatchWorld

pytestmark = pytest.mark.slow

SMALL = KeyedValue(b"k", b"{}")
LARGE = KeyedValue(b"k", bytes(8 << 20))
"""Larger than the client takes: it is not even queued."""
SOON_S = 30.0


@pytest.fixture
def producer(world: DispatchWorld) -> Iterator[LeasedProducer]:
    with closing(LeasedProducer(world.bus, "test", "main")) as found:
        yield found


def test_a_record_that_is_never_taken_is_told_and_those_behind_it_are_sent_where_that_is_asked(
    world: DispatchWorld, producer: LeasedProducer
) -> None:
    until_s = time.monotonic() + SOON_S
    found = producer.send(EVENT_ALARM, [SMALL, LARGE, SMALL], until_s, NEVER_TAKEN)
    assert isinstance(found[1], DeliveryError)
    assert found[1].code is ErrorCode.MESSAGE_TOO_LARGE
    assert [type(found[number]) for number in (0, 2)] == [RecordMetadata] * 2
    assert len(world.records_of(EVENT_ALARM)) == 2


def test_behind_a_record_that_could_not_be_queued_nothing_is_sent_of_what_stands_in_an_order(
    world: DispatchWorld, producer: LeasedProducer
) -> None:
    """A list's record must not be there without the lines that it names."""
    found = producer.send(EVENT_ALARM, [SMALL, LARGE, SMALL], time.monotonic() + SOON_S)
    assert (sorted(found), type(found[1])) == ([0, 1], DeliveryError)
    assert len(world.records_of(EVENT_ALARM)) == 1


def test_after_the_lease_nothing_is_sent(world: DispatchWorld, producer: LeasedProducer) -> None:
    assert producer.send(EVENT_ALARM, [SMALL], time.monotonic()) == {}
    assert world.records_of(EVENT_ALARM) == []
