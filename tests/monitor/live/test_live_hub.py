"""How soon alarms reach the pages: no wait for records, none for a lone alarm, one delta for many."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from console_city import alarms

from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.alarms import Alarm
from bus.contracts.topics import EVENT_ALARM, TOPICS
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from monitor.live.live_consumer import RECORDS, LiveBatch, LiveConsumer
from monitor.live.live_hub import LiveHub
from monitor.live.live_state import Delta

NOWHERE = BusSettings(bootstrap_servers="127.0.0.1:1")
LONGER_THAN_THE_TEST_S = 600.0


def send(bus: BusSettings, *sent: Alarm) -> None:
    producer = Producer(bus, client_id="test")
    for one in sent:
        producer.send(EVENT_ALARM, msgspec.json.encode(one), key=one.rule_id)
    assert producer.close() == 0


def hub_of(bus: BusSettings) -> tuple[LiveHub, asyncio.Queue[list[str]]]:
    """And the ids of the alarms of each delta that has some."""
    hub = LiveHub(bus, ZoneInfo("Asia/Shanghai"), now_ms, rows=100, decoded_per_second=1_000)
    seen: asyncio.Queue[list[str]] = asyncio.Queue()

    def on_delta(delta: Delta) -> None:
        if delta.alarms:
            seen.put_nowait([one.alarm_id for one in delta.alarms])

    hub.add_listener(on_delta)
    return hub, seen


@pytest.fixture
async def held_records(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[threading.Event]:
    """The consumer of records stands still, as while it asks where each topic ends; the event is
    set when it does."""
    go_on, stands, poll = threading.Event(), threading.Event(), LiveConsumer._poll

    def poll_unless_of_records(consumer: LiveConsumer, *arguments: Any) -> None:
        if consumer._source is RECORDS:
            stands.set()
            go_on.wait()
        else:
            poll(consumer, *arguments)

    monkeypatch.setattr(LiveConsumer, "_poll", poll_unless_of_records)
    yield stands
    go_on.set()


@pytest.mark.slow
async def test_an_alarm_is_shown_while_the_consumer_of_records_waits(
    bus: BusSettings, held_records: threading.Event
) -> None:
    """Before, one consumer read both, and asked every five seconds for the end of each partition:
    alarms waited for up to 0.8 s."""
    hub, seen = hub_of(bus)
    task = asyncio.create_task(hub.run())
    await asyncio.to_thread(held_records.wait)
    one = alarms(now_ms())[0]
    await asyncio.to_thread(send, bus, one)
    assert await seen.get() == [one.alarm_id]
    hub.records._stop.set()
    task.cancel()


@pytest.mark.slow
def test_a_consumer_may_wait_for_the_first_message_only(bus: BusSettings) -> None:
    """And hands on what else is there."""
    send(bus, *alarms(now_ms())[:3])
    with Consumer(bus, client_id="test") as consumer:
        consumer.assign({
            TopicPartition(EVENT_ALARM, n): BEGINNING
            for n in range(TOPICS[EVENT_ALARM].partitions)
        })  # fmt: skip
        read: set[bytes] = set()
        while len(read) < 3:
            polled = consumer.poll_messages(1_000, LONGER_THAN_THE_TEST_S, fills=False)
            assert polled
            read |= {message.value() or b"" for message in polled if message.error() is None}


async def test_the_first_alarm_is_told_at_once_and_those_behind_it_together() -> None:
    """However many batches they came in: a delta costs each open page."""
    hub, seen = hub_of(NOWHERE)
    first, *others = alarms(now_ms())[:6]
    hub._on_batch(LiveBatch(alarms=[first]))
    assert seen.get_nowait() == [first.alarm_id]
    for one in others:
        hub._on_batch(LiveBatch(alarms=[one]))
    assert seen.empty()
    assert await seen.get() == [one.alarm_id for one in others]
    assert seen.empty()
