"""The dispatcher against our real broker: once only, after restarts too, nothing lost."""

from __future__ import annotations

import socket
import sqlite3
import time
from concurrent.futures import Future
from functools import partial

import httpx
import msgspec
import pytest

from alarm.dispatch.reader import OperationsReader
from alarm.settings import DispatcherSettings
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer, _PendingCommit
from bus.client.model import TopicPartition
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import EVENT_ALARM, EVENT_CANDIDATE, EVENT_INCIDENT, TOPICS
from bus.domain.visibility import EVERYTHING
from bus.errors import BusError, ErrorCode
from bus.runtime import wall_clock
from deploy.servers.databus import RunningBroker
from ingest.store.port import PageRequest
from tests.alarm.dispatch.dispatch_world import (
    RECORD,
    DispatchWorld,
    candidate,
    ids,
    until,
)

pytestmark = pytest.mark.slow  # a broker process per test


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
        await until(world.notified, 3)
    assert world.on_topic() == ids([1, 2, 3])


async def test_alarms_go_on_while_a_commit_has_no_answer(
    world: DispatchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: each batch waited for the coordinator, whose broker may just have died. The last
    accepted commit says for how long nobody else can have the partition."""
    monkeypatch.setattr("alarm.dispatch.commit_lease.MEMBER_FOR_S", 3600.0)
    held: list[Future[None]] = []

    def without_answer(consumer: Consumer, _: object) -> Future[None]:
        held.append(Future())
        consumer._committing = _PendingCommit({}, held[-1])
        return held[-1]

    world.put_rule()
    async with world.running():
        world.candidates([1])
        await until(world.on_topic, ids([1]))
        await until(world.read_up_to, 1)
        begin = Consumer._begin
        monkeypatch.setattr(Consumer, "_begin", without_answer)
        for number in (2, 3):
            world.candidates([number])
            await until(world.on_topic, ids(range(1, number + 1)))
        assert world.read_up_to() == 1
        monkeypatch.setattr(Consumer, "_begin", begin)
        [answer] = held
        answer.set_exception(BusError(ErrorCode.NOT_COORDINATOR, "it has died"))
        await until(world.read_up_to, 3)


async def test_the_page_tells_how_long_after_their_capture_alarms_were_raised(
    world: DispatchWorld,
) -> None:
    """By kind, as far as the topic has acknowledged them; what raises no alarm has no time."""
    world.put_rule()
    captured_ms = wall_clock.now_ms() - 60_000
    world.send(EVENT_CANDIDATE, "r", [
        msgspec.structs.replace(candidate(1), captured_at_ms=captured_ms),
        msgspec.structs.replace(candidate(2), captured_at_ms=captured_ms),
        msgspec.structs.replace(candidate(3), rule_id="unknown"),
    ])  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings = DispatcherSettings(metrics_port=free.getsockname()[1])
    async with world.running(settings):
        await until(world.read_up_to, 3)
        url = f"http://127.0.0.1:{settings.metrics_port}/metrics"
        async with httpx.AsyncClient() as client:
            page = (await client.get(url, timeout=20)).text
    name = "databus_dispatcher_alarm_seconds"
    series = [line.rsplit(" ", 1) for line in page.splitlines() if line.startswith(name)]
    shown = {of: float(number) for of, number in series}
    assert shown[f'{name}_count{{kind="vehicle"}}'] == 2
    assert shown[f'{name}_bucket{{kind="vehicle",le="30.0"}}'] == 0
    assert shown[f'{name}_sum{{kind="vehicle"}}'] >= 120


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


async def test_an_alarm_keeps_its_record_and_a_copy_of_its_picture(world: DispatchWorld) -> None:
    """The whole way from candidate to store; the topic has the record, only the store the copy."""
    name = "20261010/c1/1-vehicle.jpg"
    world.pictures.put(name, b"picture")
    record = msgspec.json.encode({**RECORD, "车辆图片地址": world.pictures.url(name)}).decode()
    world.put_rule()
    world.send(EVENT_CANDIDATE, "r", [msgspec.structs.replace(candidate(1), record=record)])

    def copied() -> list[bytes | None]:
        if not world.stored():
            return []
        reader = OperationsReader(world.path)
        alarms, _ = reader.alarms(viewer=EVERYTHING, page=PageRequest())
        reader.close()
        addresses = [address for alarm in alarms for address in alarm.copies.values()]
        return [world.pictures.get(address.removeprefix("/pictures/")) for address in addresses]

    async with world.running():
        await until(copied, [b"picture"])
    (raised,) = world.alarms_on_topic()
    assert (raised.record, raised.copies) == (record, {})


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


async def test_a_position_that_is_void_is_told_as_an_incident(world: DispatchWorld) -> None:
    """One that was committed on an earlier topic of that name, where the coordinator still has it;
    before, it stood in the log only."""
    world.put_rule()
    world.candidates([1, 2, 3])
    place = TopicPartition(EVENT_CANDIDATE, 0)
    with Consumer(world.bus, client_id="test", group=DISPATCHER) as consumer:
        await until(partial(is_committed, consumer, place), True)
    async with world.running():
        await until(world.stored, ids([1, 2, 3]))
        await until(
            lambda: [(i.kind, i.state, i.detail["replaced"]) for i in world.incidents()],
            [("lost", "closed", EVENT_CANDIDATE)],
        )


def is_committed(consumer: Consumer, place: TopicPartition) -> bool:
    try:
        consumer.commit({place: 2}, {place: "of an earlier topic"})
    except BusError:  # the coordinator has just begun
        return False
    return True



async def test_incidents_are_stored_and_told(world: DispatchWorld) -> None:
    """Opened and closed, each once."""
    now_ms = wall_clock.now_ms()
    opened = Incident(incident_id="i", kind="quality", state="open", opened_at_ms=now_ms)
    closed = msgspec.structs.replace(opened, state="closed", closed_at_ms=now_ms + 1)
    world.send(EVENT_INCIDENT, "i", [opened, opened, closed])
    async with world.running():
        await until(world.notified, 2)
    found = world.incidents()
    assert [(i.incident_id, i.state) for i in found] == [("i", "closed")]


async def test_a_message_that_is_not_ours_is_passed_over(world: DispatchWorld) -> None:
    """Any client may write to a topic; the dispatcher continues."""
    world.put_rule()
    world.send(EVENT_CANDIDATE, "x", [Incident(incident_id="x", kind="quality", state="open",
                                               opened_at_ms=1)])  # fmt: skip
    world.candidates([1])
    async with world.running():
        await until(world.stored, ids([1]))


async def test_alarms_wait_for_a_broker_that_is_away(
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


async def test_an_alarm_is_on_its_topic_while_no_file_can_be_written(world: DispatchWorld) -> None:
    """The store's folder is a file: the alarm is raised, and stored when there is a place."""
    folder = world.path.parent
    folder.parent.mkdir(parents=True)
    folder.write_text("in the way")
    world.put_rule()
    world.candidates([1])
    async with world.running():
        await until(world.on_topic, ids([1]))
        folder.unlink()
        await until(world.stored, ids([1]))
        await until(world.notified, 1)


async def test_what_an_earlier_version_left_is_carried_over(world: DispatchWorld) -> None:
    """Its file held alarms that were not on the topic, and how far it had read: the former are
    published, those that were published are not, and no candidate is decided twice."""
    world.put_rule()
    world.candidates([1, 2, 3])
    write_file_of_earlier_version(world, alarms=[1, 2], outbox=[1, 2], end_offset=2)
    world.send(EVENT_ALARM, "r", [an_alarm(1)])  # acknowledged, and killed before it was noted
    async with world.running():
        await until(world.stored, ids([1, 2, 3]))
        await until(world.read_up_to, 3)
        await until(world.notified, 3)
    assert world.on_topic() == ids([1, 2, 3])
    reader = OperationsReader(world.path)
    assert reader.positions(DISPATCHER) == []
    reader.close()


EARLIER_TABLES = """
CREATE TABLE positions (
    application TEXT NOT NULL, cluster_id TEXT NOT NULL, topic TEXT NOT NULL,
    topic_id TEXT NOT NULL, partition INTEGER NOT NULL, end_offset INTEGER NOT NULL,
    PRIMARY KEY (application, cluster_id, topic, topic_id, partition)
) WITHOUT ROWID;
CREATE TABLE rules (rule_id TEXT PRIMARY KEY, op TEXT NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE alarms (
    id INTEGER PRIMARY KEY, alarm_id TEXT NOT NULL UNIQUE, rule_id TEXT NOT NULL,
    severity TEXT NOT NULL, plate_key TEXT NOT NULL, checkpoint_id TEXT NOT NULL,
    raised_at_ms INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE INDEX alarms_by_rule ON alarms (rule_id);
CREATE INDEX alarms_by_plate ON alarms (plate_key);
CREATE TABLE outbox (id INTEGER PRIMARY KEY);
CREATE TABLE incidents (
    id INTEGER PRIMARY KEY, incident_id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX incidents_open ON incidents (state) WHERE state = 'open';
CREATE TABLE notices (
    id INTEGER PRIMARY KEY, subject TEXT NOT NULL, notifier TEXT NOT NULL, body BLOB NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, next_at_ms INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '', UNIQUE (subject, notifier)
);
CREATE INDEX notices_waiting ON notices (next_at_ms) WHERE outcome = '';
PRAGMA user_version = 1;
"""


def an_alarm(number: int) -> Alarm:
    return Alarm(alarm_id=f"r:{number}", rule_id="r", rule_name="", severity="warning",
                 record_id=str(number), kind="vehicle", checkpoint_id="c1", captured_at_ms=1,
                 received_at_ms=1, raised_at_ms=wall_clock.now_ms())  # fmt: skip


def write_file_of_earlier_version(
    world: DispatchWorld, *, alarms: list[int], outbox: list[int], end_offset: int
) -> None:
    """As the dispatcher wrote it that kept alarm, notice, outbox and position in one transaction."""
    world.path.parent.mkdir(parents=True)
    admin = Admin(world.bus, client_id="test")
    cluster = admin.identity([EVENT_CANDIDATE])
    admin.close()
    with sqlite3.connect(world.path) as file:
        file.executescript(EARLIER_TABLES)
        for number in alarms:
            body = msgspec.json.encode(an_alarm(number))
            file.execute(
                "INSERT INTO alarms (id, alarm_id, rule_id, severity, plate_key, checkpoint_id,"
                " raised_at_ms, body) VALUES (?, ?, 'r', 'warning', '', 'c1', 1, ?)",
                (number, f"r:{number}", body),
            )
            file.execute(
                "INSERT INTO notices (subject, notifier, body) VALUES (?, 'log', ?)",
                (f"r:{number}", body),
            )
        file.executemany("INSERT INTO outbox VALUES (?)", [(number,) for number in outbox])
        file.execute(
            "INSERT INTO positions VALUES ('dispatcher', ?, ?, ?, 0, ?)",
            (cluster.cluster_id, EVENT_CANDIDATE, cluster.topic_ids[EVENT_CANDIDATE], end_offset),
        )
    file.close()


async def test_a_stop_while_the_broker_is_away_is_soon_and_in_order(
    world: DispatchWorld, broker: RunningBroker
) -> None:
    """It once tried to read the commands for a minute more, and ended with an error; and where a
    commit was under way, it did not end before the broker was back."""
    world.put_rule()
    world.candidates(range(5000))
    async with world.running(DispatcherSettings(max_batch=20)):  # a commit is nearly always under way
        await until(lambda: world.raised() > 0, True)
        broker.kill()
        stopped_s = time.monotonic()
    assert time.monotonic() - stopped_s < 30
    assert set(world.stored()) < set(ids(range(5000)))
