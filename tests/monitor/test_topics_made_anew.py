"""Topics deleted and made again under the readers of console and watch, which go on by themselves."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.register_follower import RegisterFollower
from bus.contracts.commands import DecidedRule
from bus.contracts.register import District
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import CONTROL_REGISTER, DATA_VEHICLE, STATE_WATCHLIST, TOPICS
from bus.domain.visibility import EVERYTHING
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from monitor.live import live_consumer
from monitor.live.live_consumer import LiveConsumer
from monitor.live.live_hub import LiveHub
from monitor.watch.sender_consumer import SenderConsumer

pytestmark = pytest.mark.slow
WITHIN_S = 60.0


def make_anew(bus: BusSettings, topic: str, partitions: int = 0) -> None:
    with closing(Admin(bus, client_id="test")) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions or TOPICS[topic].partitions)


def send(bus: BusSettings, topic: str, *values: bytes) -> None:
    producer = Producer(bus, client_id="test")
    for number, value in enumerate(values):
        producer.send(topic, value, key=f"r{number}")
    assert producer.close() == 0


def vehicles(first: int, count: int) -> list[bytes]:
    """Each of a device of its own."""
    return [
        json.dumps({"抓拍设备地址": f"10.0.0.{number}", "车牌号码": f"浙B{number:05d}"}).encode()
        for number in range(first, first + count)
    ]


async def until(what: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + WITHIN_S
    while (found := what()) != expected:
        assert time.monotonic() < deadline, (found, expected)
        await asyncio.sleep(0.05)


def counted_hub(bus: BusSettings) -> tuple[LiveHub, Callable[[], int]]:
    """A hub, and how many records have passed it."""
    hub = LiveHub(bus, ZoneInfo("Asia/Shanghai"), now_ms, rows=100, decoded_per_second=1_000)
    passed = 0

    def on_delta(delta: object) -> None:
        nonlocal passed
        passed += getattr(delta, "passed", 0)

    hub.add_listener(on_delta)
    return hub, lambda: passed


async def test_the_console_counts_every_record_and_knows_the_rules_of_the_new_topics(
    bus: BusSettings,
) -> None:
    """Of the new topic from its first record, whatever lay on the former one; more partitions."""
    hub, passed = counted_hub(bus)
    task = asyncio.create_task(hub.run())
    await until(lambda: hub.unavailable, "")
    for made, partitions in enumerate((0, 7, 2)):
        if made:
            await asyncio.to_thread(make_anew, bus, DATA_VEHICLE, partitions)
        await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, 40 - 10 * made))
        await until(passed, (40, 70, 90)[made])
    for version in (1, 2):
        command = DecidedRule(rule_id=f"r{version}", op="put", version=version,
                               match={"plate_number": ["浙B00001"]})  # fmt: skip
        await asyncio.to_thread(send, bus, STATE_WATCHLIST, msgspec.json.encode(command))
        wanted = [f"r{version}"]
        await until(lambda: [one.rule_id for one in hub.live.rules.page(now_ms(), limit=100, viewer=EVERYTHING).rules], wanted)
        await asyncio.to_thread(make_anew, bus, STATE_WATCHLIST)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_console_says_once_what_it_had_not_shown_of_a_topic_made_anew(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Exactly what lay between its positions and the last end seen, also where the topic was gone
    for a while; nothing where all was shown."""
    monkeypatch.setattr(live_consumer, "REFRESH_SECONDS", 0.1)
    reading, held, poll = threading.Event(), threading.Event(), LiveConsumer._poll

    def poll_unless_held(consumer: LiveConsumer, *arguments: Any) -> None:
        if reading.wait(0.05):
            poll(consumer, *arguments)
        else:
            held.set()

    followers: list[TopicFollower] = []

    def follower(*arguments: Any) -> TopicFollower:
        followers.append(TopicFollower(*arguments))
        return followers[-1]

    def ends_seen() -> int:
        topic_id = followers[0].identity.topic_ids[DATA_VEHICLE]  # type: ignore[union-attr]
        return sum(followers[0].unread(DATA_VEHICLE, topic_id, {}).counts.values())

    monkeypatch.setattr(LiveConsumer, "_poll", poll_unless_held)
    monkeypatch.setattr(live_consumer, "TopicFollower", follower)
    reading.set()
    hub, passed = counted_hub(bus)
    task = asyncio.create_task(hub.run())
    await until(lambda: hub.unavailable, "")
    await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, 10))
    await until(passed, 10)
    said = lambda: [one.message for one in caplog.records if "were not shown" in one.message]  # noqa: E731
    for unread, end in ((0, 10), (25, 30)):
        if unread:
            await until(lambda: hub.records._recent.reread_since, {})
            reading.clear()
            held.clear()
            await asyncio.to_thread(held.wait)  # a poll that is under way would take them
            await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, unread))
        await until(ends_seen, end)
        with closing(Admin(bus, client_id="test")) as admin:
            await asyncio.to_thread(admin.delete_topic, DATA_VEHICLE)
            await until(lambda: {at.topic for at in hub.records._gone}, {DATA_VEHICLE})
            await asyncio.to_thread(admin.create_topic, DATA_VEHICLE, 3)
        await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, 5))
        before = passed()
        await until(lambda: len(said()), 1 if unread else 0)  # what is fetched would be shown
        reading.set()
        await until(passed, before + 5)
        await asyncio.sleep(0)
        assert [one.split(": ")[2] for one in said()] == (
            [f"{unread} records of the former one were not shown"] if unread else []
        )
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

async def test_the_console_shows_once_what_it_read_before_it_knew_that_the_topic_was_another_one(
    bus: BusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the place where it stood on the former one, or from the start of a shorter one; it reads
    the new one from its start as soon as it knows."""
    may_look, looked, look = threading.Event(), threading.Event(), TopicFollower._poll

    def look_unless_held(follower: TopicFollower) -> None:
        may_look.wait()
        look(follower)
        looked.set()

    monkeypatch.setattr(live_consumer, "REFRESH_SECONDS", 1e9)  # the first; another would look, too
    monkeypatch.setattr(TopicFollower, "_poll", look_unless_held)
    monkeypatch.setattr(TopicFollower, "_poll_ends", lambda _: None)
    may_look.set()
    hub, passed = counted_hub(bus)
    task = asyncio.create_task(hub.run())
    await until(lambda: hub.unavailable, "")
    await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, 20))
    await until(passed, 20)
    for sent in (60, 10, 30):
        before = passed()
        may_look.clear()
        await asyncio.to_thread(make_anew, bus, DATA_VEHICLE, 0)
        await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, sent))
        await until(lambda before=before: passed() > before, True)
        looked.clear()
        may_look.set()
        await asyncio.to_thread(looked.wait)
        await until(passed, before + sent)
    await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(0, 7))
    await until(passed, 127)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_watch_sees_every_sender_of_the_new_topic(bus: BusSettings) -> None:
    """Those that sent before the watch had heard of it, too."""
    consumer = SenderConsumer(bus, 5.0)
    consumer.start()
    seen: dict[str, int] = {}

    def sightings() -> int:
        for (camera, _), count in consumer.pop_sightings().items():
            seen[camera] = seen.get(camera, 0) + count
        return sum(seen.values())

    await until(lambda: consumer.unavailable, "")
    for made, partitions in enumerate((0, 7, 2)):
        if made:
            await asyncio.to_thread(make_anew, bus, DATA_VEHICLE, partitions)
        await asyncio.to_thread(send, bus, DATA_VEHICLE, *vehicles(100 * made, 40 - 10 * made))
        await until(sightings, (40, 70, 90)[made])
    await asyncio.to_thread(consumer.stop)
    assert len(seen) == 90


async def test_the_register_is_what_the_new_topic_says(bus: BusSettings, tmp_path: Path) -> None:
    """A district of the former topic is no longer there."""
    follower = RegisterFollower(bus, tmp_path / "register.json").start()

    def districts() -> list[str]:
        return [one.district_id for one in follower.read().districts]

    for name in ("west", "east"):
        district = District(district_id=name, name=name, name_en=name)
        entry = RegisterEntry(kind="district", id=name, district=district)
        await asyncio.to_thread(send, bus, CONTROL_REGISTER, msgspec.json.encode(entry))
        await until(districts, [name])
        await asyncio.to_thread(make_anew, bus, CONTROL_REGISTER)
    await asyncio.to_thread(follower.close)
