"""The dispatcher against our real broker: once only, after restarts too, nothing lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.reader import OperationsReader
from alarm.dispatch.service import APPLICATION, AlarmDispatcher
from alarm.settings import DispatcherSettings
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.client.kafka.producer import Producer, RecordMetadata
from bus.contracts.alarms import Alarm, Candidate, Incident
from bus.contracts.commands import WatchCommand
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    TOPICS,
)
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings, SiteSettings
from deploy.testservers.databus import RunningBroker, start_broker
from ingest.store.port import PageRequest, StoreUnavailable

RECORD = {"卡口编号": "c1", "车牌号码": "浙AWL999", "抓拍时间": "2017-08-24 17:25:34"}
pytestmark = pytest.mark.slow  # a broker process per test

USED = (CONTROL_WATCHLIST, EVENT_CANDIDATE, EVENT_ALARM, EVENT_INCIDENT)
SETTINGS = DispatcherSettings()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker", {})
    Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="test").ensure_topics(
        TOPICS[name] for name in USED
    )
    yield running
    running.stop()


class DispatchWorld:
    """What a test does to the dispatcher and asks of it."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bus = BusSettings(bootstrap_servers=bootstrap)
        self.site = SiteSettings(data_dir=str(folder))
        self.path = SETTINGS.operations_path(self.site)

    def send(self, topic: str, key: str, messages: Sequence[msgspec.Struct]) -> None:
        producer = Producer(self.bus, client_id="test")
        for message in messages:
            producer.send(topic, msgspec.json.encode(message), key=key)
        assert producer.close() == 0

    def put_rule(self, rule_id: str = "r", op: str = "put", version: int = 1) -> None:
        command = {"rule_id": rule_id, "op": op, "version": version,
                   "match": {"plate_number": ["浙AWL999"]}}  # fmt: skip
        self.send(CONTROL_WATCHLIST, rule_id, [msgspec.convert(command, WatchCommand)])

    def candidates(self, numbers: Sequence[int], rule_id: str = "r") -> None:
        record = msgspec.json.encode(RECORD).decode()
        found = [
            Candidate(rule_id=rule_id, rule_version=1, record_id=str(number), kind="vehicle",
                      received_at_ms=1, captured_at_ms=1, record=record)
            for number in numbers
        ]  # fmt: skip
        self.send(EVENT_CANDIDATE, rule_id, found)

    def stored(self) -> list[str]:
        try:
            reader = OperationsReader(self.path)
        except StoreUnavailable:
            return []
        found, _ = reader.alarms(page=PageRequest(limit=1000))
        reader.close()
        return sorted(alarm.alarm_id for alarm in found)

    def on_topic(self) -> list[str]:
        with Consumer(self.bus, client_id="check") as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions_of(EVENT_ALARM), 0))
            found: list[str] = []
            while not consumer.at_end:
                found += [
                    msgspec.json.decode(r.value or b"", type=Alarm).alarm_id
                    for r in consumer.poll(1000, 0.2)
                ]
            return sorted(found)

    def read_up_to(self) -> int:
        reader = OperationsReader(self.path)
        found = {p.topic: p.end_offset for p in reader.positions(APPLICATION)}
        reader.close()
        return found.get(EVENT_CANDIDATE, 0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        dispatcher = AlarmDispatcher(self.site, self.bus, SETTINGS)
        task = asyncio.create_task(dispatcher.run())
        yield
        dispatcher.stop()
        await task


@pytest.fixture
def world(broker: RunningBroker, tmp_path: Path) -> DispatchWorld:
    return DispatchWorld(broker.bootstrap, tmp_path / "var")


async def until(what: object, expected: object) -> None:
    """Poll until the question has its expected answer."""
    deadline = time.monotonic() + 20
    while (found := what()) != expected:  # type: ignore[operator]
        assert time.monotonic() < deadline, (found, expected)
        await asyncio.sleep(0.02)


def ids(numbers: Sequence[int], rule_id: str = "r") -> list[str]:
    return sorted(f"{rule_id}:{number}" for number in numbers)


async def test_every_candidate_is_one_alarm_in_the_store_on_the_topic_and_in_the_log(
    world: DispatchWorld,
) -> None:
    """Repeated candidates and restarts raise nothing twice."""
    world.put_rule()
    world.candidates([1, 2, 2, 1])
    async with world.running():
        await until(world.stored, ids([1, 2]))
    world.candidates([2, 3])
    async with world.running():
        await until(world.stored, ids([1, 2, 3]))
        log = SETTINGS.alarm_log_path(world.site)
        assert log is not None
        await until(lambda: len(log.read_text().splitlines()) if log.exists() else 0, 3)
    assert world.on_topic() == ids([1, 2, 3])


async def test_a_removed_rule_raises_nothing_from_then_on(world: DispatchWorld) -> None:
    """The command was acknowledged before the candidate: the dispatcher knows it."""
    world.put_rule()
    world.candidates([1])
    async with world.running():
        await until(world.stored, ids([1]))
        world.put_rule(op="remove", version=2)
        world.candidates([2])
        await until(world.read_up_to, 2)
    assert world.stored() == ids([1])


async def test_positions_of_a_topic_made_anew_are_void(world: DispatchWorld) -> None:
    """The new topic is read from its beginning."""
    world.put_rule()
    world.candidates([1, 2, 3])
    async with world.running():
        await until(world.stored, ids([1, 2, 3]))
    admin = Admin(world.bus, client_id="test")
    admin.delete_topic(EVENT_CANDIDATE)
    await until(lambda: EVENT_CANDIDATE in admin.topic_names(), False)
    admin.ensure_topics([TOPICS[EVENT_CANDIDATE]])
    world.candidates([4])
    async with world.running():
        await until(world.stored, ids([1, 2, 3, 4]))


async def test_incidents_are_stored_and_told(world: DispatchWorld) -> None:
    """Opened and closed, each once."""
    opened = Incident(incident_id="i", kind="quality", state="open", opened_at_ms=1)
    closed = msgspec.structs.replace(opened, state="closed", closed_at_ms=2)
    world.send(EVENT_INCIDENT, "i", [opened, opened, closed])
    log = SETTINGS.alarm_log_path(world.site)
    assert log is not None
    async with world.running():
        await until(lambda: len(log.read_text().splitlines()) if log.exists() else 0, 2)
    reader = OperationsReader(world.path)
    found, _ = reader.incidents(page=PageRequest())
    assert [(i.incident_id, i.state) for i in found] == [("i", "closed")]


async def test_a_message_that_is_not_ours_is_passed_over(world: DispatchWorld) -> None:
    """Any client may write to a topic; the dispatcher continues."""
    world.put_rule()
    world.send(EVENT_CANDIDATE, "x", [Incident(incident_id="x", kind="quality", state="open",
                                               opened_at_ms=1)])  # fmt: skip
    world.candidates([1])
    async with world.running():
        await until(world.stored, ids([1]))


async def test_alarms_wait_in_the_outbox_while_the_broker_is_away(
    world: DispatchWorld, broker: RunningBroker
) -> None:
    """kill -9 of the broker under way: nothing is lost, nothing doubled in the store."""
    world.put_rule()
    running = broker
    async with world.running():
        for round_number in range(3):
            world.candidates(range(round_number * 50, round_number * 50 + 50))
            running.kill()
            running = running.restart()
        await until(lambda: len(world.stored()), 150)
        await until(lambda: len(set(world.on_topic())), 150)
    running.stop()
    assert world.stored() == ids(range(150))


async def test_a_stop_does_not_wait_for_a_delivery_that_may_take_minutes(tmp_path: Path) -> None:
    """The broker died between taking an alarm out of the outbox and its acknowledgement: the stop
    waited for librdkafka's two minutes. What was acknowledged by then counts, the rest stays."""
    dispatcher = AlarmDispatcher(SiteSettings(data_dir=str(tmp_path)), BusSettings(), SETTINGS)
    loop = asyncio.get_running_loop()
    sent: list[asyncio.Future[RecordMetadata]] = [loop.create_future() for _ in range(3)]
    delivered = RecordMetadata(EVENT_ALARM, 0, 5, 0)
    sent[0].set_result(delivered)
    sent[1].set_exception(BusError(ErrorCode.REQUEST_TIMED_OUT, "no answer"))
    dispatcher.stop()
    answers = await asyncio.wait_for(dispatcher._await_deliveries(sent), 60)
    assert answers[0] == delivered
    assert isinstance(answers[1], BusError)
    assert answers[2] is None
    sent[2].set_exception(BusError(ErrorCode.REQUEST_TIMED_OUT, "too late"))
    await asyncio.sleep(0)  # the dispatcher does not notice


async def test_a_stop_while_the_broker_is_away_is_soon_and_in_order(
    world: DispatchWorld, broker: RunningBroker
) -> None:
    """It once tried to read the commands for a minute more, and ended with an error."""
    world.put_rule()
    world.candidates([1])
    async with world.running():
        await until(world.stored, ids([1]))
        broker.kill()
        stopped_s = time.monotonic()
    assert time.monotonic() - stopped_s < 30
    assert world.stored() == ids([1])
