"""The watch as a whole against the real broker and real stores, with bounds of a second."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from watch_world import BOUND_S, DAY_MS, QUICK, WatchWorld, until

from alarm.dispatch.operations import BatchChanges
from bus.client.kafka.admin import Admin
from bus.client.model import TopicPartition
from bus.contracts.alarms import Incident
from bus.contracts.groups import DECIDER, application_group
from bus.contracts.topics import (
    CONTROL_WATCHLIST,
    DATA_VEHICLE,
    EVENT_ALARM,
    EVENT_CANDIDATE,
    REQUEST_TOPICS,
)
from bus.notify.notice_plan import NoticePlan
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from ingest.store.open import open_store
from ingest.store.port import StoreBatch
from monitor.ports import ProcessStatus
from monitor.watch.ending_certificates import CertificateEnd
from monitor.watch.heartbeat import LIMIT_MS, read_heartbeat
from monitor.watch.incident_file import IncidentFile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


@pytest.fixture
def world(broker: RunningBroker, tmp_path: Path) -> Iterator[WatchWorld]:
    world = WatchWorld(BusSettings(bootstrap_servers=broker.bootstrap), tmp_path / "var")
    yield world
    world.close()


async def test_a_dead_broker_is_told_within_its_bound_and_published_when_it_is_back(
    world: WatchWorld, broker: RunningBroker
) -> None:
    """Notified at once by the watch itself; on the topic once each, opening before end."""
    name = f"away:broker {broker.bootstrap}"
    async with world.watched():
        await asyncio.to_thread(broker.kill)
        took_s = await until(lambda: f"{name}:open" in world.subjects())
        assert took_s >= BOUND_S - 1
        restarted = await asyncio.to_thread(broker.restart)
        await until(lambda: f"{name}:closed" in world.subjects())
        await until(lambda: len(world.on_topic()) >= 2)
        await asyncio.sleep(3)  # what would be published twice would be by now
    found = world.on_topic()
    restarted.stop()
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


async def test_a_list_that_is_not_renewed_in_time_is_told_until_it_is(world: WatchWorld) -> None:
    """As the topic of lists has it; one that was ended is no incident any more."""
    long_ago_ms = now_ms() - 3 * DAY_MS
    world.put_list("stolen", renewal_days=2, renewed_at_ms=long_ago_ms)
    world.put_list("wanted", renewal_days=2, renewed_at_ms=long_ago_ms)
    world.put_list("own-cars", renewal_days=7, renewed_at_ms=long_ago_ms)
    async with world.watched():
        await until(lambda: {"overdue:stolen:open", "overdue:wanted:open"} <= set(world.subjects()))
        world.put_list("stolen", version=2, renewal_days=2, renewed_at_ms=now_ms())
        world.end_list("wanted", version=2)
        await until(lambda: {"overdue:stolen:closed", "overdue:wanted:closed"} <= set(world.subjects()))
        assert not [one for one in world.subjects() if "own-cars" in one]
    opened = next(one for one in world.on_topic() if one.detail["subject"] == "stolen")
    assert (opened.kind, opened.severity, opened.detail["name"]) == ("overdue", "warning", "stolen")
    assert opened.detail["renewed"] < opened.detail["due"]


async def test_a_certificate_that_ends_soon_is_told(world: WatchWorld) -> None:
    world.certificates = [CertificateEnd("broker-1", now_ms() + DAY_MS), CertificateEnd("broker-2", now_ms() * 2)]
    async with world.watched():
        await until(lambda: "certificate:broker-1:open" in world.subjects())
        assert not [one for one in world.subjects() if "broker-2" in one]


async def test_a_stage_whose_position_does_not_move_stands_still(world: WatchWorld) -> None:
    """Ingest by the record store's positions, the dispatcher by its group's, what it stores by the
    operations store's. The last two are of one process, and one incident."""
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
        of_dispatcher = {"standing:dispatcher:open", "standing:recorder:open"}
        await until(lambda: "standing:ingest:open" in world.subjects())
        await until(lambda: bool(of_dispatcher & set(world.subjects())))
        world.records.apply(StoreBatch(), [world.position("ingest", DATA_VEHICLE, 15)])
        await until(lambda: "standing:ingest:closed" in world.subjects())
        assert len(of_dispatcher & set(world.subjects())) == 1
        assert not [one for one in world.subjects() if one.startswith("standing:dispatcher:closed")]
    told = {one.detail["stage"]: one for one in world.on_topic() if one.state == "open"}
    assert told["ingest"].detail["records"] == "5"
    if "dispatcher" in told:
        assert told["dispatcher"].detail["records"] == "7"
    else:
        assert int(told["recorder"].detail["records"]) >= 3  # and the watch's own incidents


async def test_requests_that_nobody_decides_on_are_told(world: WatchWorld) -> None:
    """By whichever topic they wait on: an operator who asks waits for an answer, and nothing else
    would say that none comes."""
    admin = Admin(world.bus, client_id="test")
    admin.set_committed(application_group(DECIDER), {TopicPartition(CONTROL_WATCHLIST, 0): 0})
    admin.close()
    async with world.watched():
        await asyncio.sleep(2)
        assert world.subjects() == []
        world.send(REQUEST_TOPICS[-1], 3)
        await until(lambda: "standing:decider:open" in world.subjects())
        await until(lambda: bool(world.on_topic()))
    [told] = [one for one in world.on_topic() if one.state == "open"]
    assert (told.detail["stage"], told.detail["records"]) == ("decider", "3")


async def test_it_goes_on_with_a_record_store_that_cannot_be_read(
    world: WatchWorld, broker: RunningBroker
) -> None:
    """The file is no database any more; the rest is judged as before."""
    async with world.watched():
        await asyncio.sleep(1)
        world.records.close()
        for path in world.records_path.parent.glob("records.db-*"):
            path.unlink()
        world.records_path.write_bytes(b"no database" * 1000)
        await until(lambda: "away:store:open" in world.subjects())
        await asyncio.to_thread(broker.kill)
        name = f"away:broker {broker.bootstrap}:open"
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
