"""The watch as a whole against the real broker and real stores, with bounds of a second."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.reader import OperationsReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.alarms import Incident
from bus.contracts.groups import application_group
from bus.contracts.topics import (
    DATA_VEHICLE,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    EVENT_INCIDENT,
    TOPICS,
)
from bus.notify.notice_plan import NoticePlan
from bus.settings import BusSettings, SiteSettings
from bus.wall_clock import now_ms
from deploy.stages import STAGES
from deploy.testservers.databus import RunningBroker, start_broker
from deploy.watch_ports import DISPATCHER, RECORDER
from ingest.store.open import open_store
from ingest.store.port import Position, StoreBatch
from monitor.ports import ProcessStatus
from monitor.settings import WatchSettings
from monitor.watch.heartbeat import LIMIT_MS, read_heartbeat
from monitor.watch.incident_file import IncidentFile
from monitor.watch.ports import WatchPorts
from monitor.watch.service import WatchService

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

BOUND_S = 2.0
DAY_MS = 24 * 3_600_000
WITHIN_S = BOUND_S + 60  # an incident comes within a minute after its bound
QUICK = WatchSettings(away_s=BOUND_S, standing_s=BOUND_S, filling_s=0.5, probe_interval_s=0.3)
RECORD = {"卡口编号": "c1", "车牌号码": "浙AWL999", "抓拍设备地址": "10.0.0.7",
          "后端图片识别服务器地址": "10.9.0.1"}  # fmt: skip


class KeptNotices:
    """A notifier of this test: it keeps what it is sent."""

    name = "kept"

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def send(self, subject: str, body: bytes) -> None:
        self.subjects.append(subject)

    async def close(self) -> None: ...


@dataclass
class WatchWorld:
    """A broker, two stores, processes by their supervisor's word; the watch beside them."""

    broker: RunningBroker
    folder: Path
    notifier: KeptNotices = field(default_factory=KeptNotices)
    processes: list[ProcessStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bus = BusSettings(bootstrap_servers=self.broker.bootstrap)
        self.site = SiteSettings(data_dir=str(self.folder))
        self.records_path = self.folder / "store" / "records.db"
        self.operations_path = self.folder / "store" / "operations.db"
        self.file_path = QUICK.file_path(self.site)
        self.records = open_store(f"sqlite://{self.records_path}", "write")
        self.operations = OperationsStore(self.operations_path)
        admin = Admin(self.bus, client_id="test")
        admin.ensure_topics(TOPICS.values())
        self.cluster = admin.identity([DATA_VEHICLE, EVENT_ALARM])
        admin.close()

    @property
    def ports(self) -> WatchPorts:
        return WatchPorts(
            notifiers=[self.notifier],
            plan=NoticePlan((self.notifier.name,)),
            give_up_ms=DAY_MS,
            open_records=lambda: open_store(f"sqlite://{self.records_path}"),
            open_alarms=lambda: OperationsReader(self.operations_path),
            read_processes=lambda: self.processes,
            stages=STAGES,
            dispatcher=DISPATCHER,
            recorder=RECORDER,
            edge_status_url="",
            spool_max_bytes=1,
            folders=[self.folder],
        )

    def send(self, topic: str, count: int) -> None:
        producer = Producer(self.bus, client_id="test")
        for _ in range(count):
            producer.send(topic, json.dumps(RECORD, ensure_ascii=False), partition=0)
        assert producer.close() == 0

    def position(self, application: str, topic: str, end_offset: int) -> Position:
        return Position(
            application=application, cluster_id=self.cluster.cluster_id, topic=topic,
            topic_id=self.cluster.topic_ids[topic], partition=0, end_offset=end_offset,
        )  # fmt: skip

    def on_topic(self) -> list[Incident]:
        """Everything on `event.incident`."""
        with Consumer(self.bus, client_id="check") as consumer:
            consumer.assign({TopicPartition(EVENT_INCIDENT, 0): BEGINNING})
            found: list[Incident] = []
            deadline = time.monotonic() + 30
            while not consumer.at_end:
                assert time.monotonic() < deadline
                found += [
                    msgspec.json.decode(r.value or b"", type=Incident)
                    for r in consumer.poll(1000, 0.2)
                ]
            return found

    def subjects(self) -> list[str]:
        """What was notified, without the times in the names."""
        return [
            ":".join(part for part in subject.split(":") if not part.isdecimal() or len(part) < 13)
            for subject in self.notifier.subjects
        ]

    @asynccontextmanager
    async def watched(self, settings: WatchSettings = QUICK) -> AsyncIterator[WatchService]:
        service = WatchService(self.site, self.bus, settings, self.ports)
        task = asyncio.create_task(service.run())
        await until(lambda: service.is_bus_there, 60)
        yield service
        service.stop()
        await task


@pytest.fixture
def world(tmp_path: Path) -> Iterator[WatchWorld]:
    world = WatchWorld(start_broker(tmp_path / "broker"), tmp_path / "var")
    yield world
    world.records.close()
    world.operations.close()
    world.broker.stop()


async def until(condition: Callable[[], bool], timeout_s: float = WITHIN_S) -> float:
    """Seconds until it holds."""
    began_s = time.monotonic()
    while not await asyncio.to_thread(condition):
        assert time.monotonic() - began_s < timeout_s, "it never held"
        await asyncio.sleep(0.05)
    return time.monotonic() - began_s


async def test_a_dead_broker_is_told_within_its_bound_and_published_when_it_is_back(
    world: WatchWorld,
) -> None:
    """Notified at once by the watch itself; on the topic once each, opening before end."""
    name = f"away:broker {world.broker.bootstrap}"
    async with world.watched():
        await asyncio.to_thread(world.broker.kill)
        took_s = await until(lambda: f"{name}:open" in world.subjects())
        assert took_s >= BOUND_S - 1
        world.broker = await asyncio.to_thread(world.broker.restart)
        await until(lambda: f"{name}:closed" in world.subjects())
        await until(lambda: len(world.on_topic()) >= 2)
        await asyncio.sleep(3)  # what would be published twice would be by now
    found = world.on_topic()
    assert [(one.kind, one.state, one.notified_by) for one in found] == [
        ("away", "open", "watch"), ("away", "closed", "watch"),
    ]  # fmt: skip
    assert found[0].incident_id == found[1].incident_id
    assert world.subjects().count(f"{name}:open") == 1


async def test_a_stopped_dispatcher_is_seen_by_its_process_and_by_its_backlog(
    world: WatchWorld,
) -> None:
    """SIGSTOP: it lives and does nothing; the end comes with SIGCONT."""
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    world.processes = [ProcessStatus(role="dispatcher", state="running", pid=child.pid)]
    try:
        async with world.watched():
            await asyncio.sleep(1)
            os.kill(child.pid, signal.SIGSTOP)
            await until(lambda: world.subjects() == ["standing:dispatcher:open"])
            os.kill(child.pid, signal.SIGCONT)
            await until(lambda: "standing:dispatcher:closed" in world.subjects())
    finally:
        child.kill()
        child.wait()


async def test_a_process_that_its_supervisor_restarts_again_and_again_is_away(
    world: WatchWorld,
) -> None:
    """By the supervisor's word, once it has run."""
    world.processes = [ProcessStatus(role="streams", state="running")]
    async with world.watched():
        await asyncio.sleep(1)
        world.processes = [ProcessStatus(role="streams", state="restarting")]
        await until(lambda: world.subjects() == ["away:streams:open"])


async def test_a_stage_whose_position_does_not_move_stands_still(world: WatchWorld) -> None:
    """Ingest by the record store's positions, the dispatcher by its group's, what it stores by the
    operations store's."""
    world.send(DATA_VEHICLE, 10)
    world.send(EVENT_CANDIDATE, 10)
    world.send(EVENT_ALARM, 10)
    world.records.apply(StoreBatch(), [world.position("ingest", DATA_VEHICLE, 10)])
    admin = Admin(world.bus, client_id="test")
    admin.set_committed(application_group("dispatcher"), {TopicPartition(EVENT_CANDIDATE, 0): 10})
    admin.close()
    at = [world.position("recorder", EVENT_ALARM, 10)]
    world.operations.apply(BatchChanges(positions=at))
    async with world.watched():
        await asyncio.sleep(2)
        assert world.subjects() == []
        world.send(DATA_VEHICLE, 5)
        world.send(EVENT_CANDIDATE, 7)
        world.send(EVENT_ALARM, 3)
        wanted = {f"standing:{one}:open" for one in ("ingest", "dispatcher", "recorder")}
        await until(lambda: wanted <= set(world.subjects()))
        world.records.apply(StoreBatch(), [world.position("ingest", DATA_VEHICLE, 15)])
        await until(lambda: "standing:ingest:closed" in world.subjects())
        assert "standing:dispatcher:closed" not in world.subjects()
    told = {one.detail["subject"]: one for one in world.on_topic() if one.state == "open"}
    assert told["ingest"].detail["records"] == "5"
    assert told["dispatcher"].detail["records"] == "7"
    assert int(told["recorder"].detail["records"]) >= 3  # and the watch's own incidents


async def test_it_goes_on_with_a_record_store_that_cannot_be_read(world: WatchWorld) -> None:
    """The file is no database any more; the rest is judged as before."""
    async with world.watched():
        await asyncio.sleep(1)
        world.records.close()
        for path in world.records_path.parent.glob("records.db-*"):
            path.unlink()
        world.records_path.write_bytes(b"no database" * 1000)
        await until(lambda: "away:store:open" in world.subjects())
        await asyncio.to_thread(world.broker.kill)
        name = f"away:broker {world.broker.bootstrap}:open"
        await until(lambda: name in world.subjects())
    world.records_path.unlink()
    world.records = open_store(f"sqlite://{world.records_path}", "write")


async def test_a_disk_beyond_its_bound_is_told(world: WatchWorld) -> None:
    """By a bound that every disk passes."""
    async with world.watched(msgspec.structs.replace(QUICK, filling_share=0.0001)):
        await until(lambda: any(s.startswith("filling:disk") for s in world.subjects()))


async def test_who_sends_is_seen_on_the_data_topics(world: WatchWorld) -> None:
    """Device and server of each record; from now on, not from before."""
    world.send(DATA_VEHICLE, 100)
    async with world.watched() as service:
        await until(lambda: not service.blindness)
        world.send(DATA_VEHICLE, 3)
        await until(lambda: bool(service.known_senders()))
    assert set(service.known_senders()) == {
        ("device", "10.0.0.7"), ("server", "10.9.0.1"), ("site", "site")
    }  # fmt: skip


async def test_an_open_incident_is_gone_on_with_after_kill_and_restart(world: WatchWorld) -> None:
    """Not told again; its end has the old name."""
    world.processes = [ProcessStatus(role="streams", state="running")]
    async with world.watched():
        await asyncio.sleep(1)
        world.processes = [ProcessStatus(role="streams", state="failed")]
        await until(lambda: world.subjects() == ["away:streams:open"])
    async with world.watched():
        await asyncio.sleep(BOUND_S + 2)
        world.processes = [ProcessStatus(role="streams", state="running")]
        await until(lambda: len(world.subjects()) > 1)
    opened, closed = world.notifier.subjects
    assert opened.removesuffix(":open") == closed.removesuffix(":closed")


async def test_its_own_life_is_seen_by_its_heartbeat(world: WatchWorld) -> None:
    """Missing, fresh, old: the console says what is wrong."""
    path = QUICK.heartbeat_path(world.site)
    assert "start it with" in read_heartbeat(path, now_ms())
    async with world.watched():
        await until(path.exists)
        assert read_heartbeat(path, now_ms()) == ""
    assert "no sign of life" in read_heartbeat(path, now_ms() + LIMIT_MS + 10_000)


def test_nothing_is_lost_when_the_file_cannot_be_written_for_a_while(tmp_path: Path) -> None:
    """Another process holds the database: the write fails, and the next one has everything."""
    file = IncidentFile(tmp_path / "watch.db", NoticePlan(("kept",)))
    other = sqlite3.connect(tmp_path / "watch.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    opened = Incident(incident_id="a", kind="away", state="open", opened_at_ms=1)
    with pytest.raises(Exception, match="locked"):
        file.add([(opened, [])], 1)
    other.execute("ROLLBACK")
    other.close()
    file.add([(opened, [])], 1)
    assert len(file.notices.due("kept", 1, 10)) == 1
    file.close()
