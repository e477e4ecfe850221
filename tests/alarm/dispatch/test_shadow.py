"""A site whose data are a mirror decides and notifies nobody; nothing is lost when it takes over."""

from __future__ import annotations

import sqlite3
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.replicated_incidents import ReplicatedIncident
from alarm.dispatch.schema import VERSION, version_of
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.alarms import Alarm, Notified
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.topics import DATA_VEHICLE, EVENT_ALARM, EVENT_NOTIFIED, TOPICS
from bus.notify.notice_text import notice_text
from bus.runtime.wall_clock import now_ms
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import DispatchWorld, bind, until
from tests.alarm.dispatch.test_operations import alarm, incident

ZONE = ZoneInfo("Asia/Shanghai")


def subjects(operations: OperationsStore) -> list[str]:
    return [one.subject for one in operations.notices.due("log", 1 << 40, 100)]


def test_what_is_decided_in_shadow_is_stored_and_notified_to_nobody(
    operations: OperationsStore,
) -> None:
    operations.apply(
        BatchChanges(alarms=[alarm(1)], incidents=[incident("open")], shadow_since_ms=0)
    )
    assert subjects(operations) == []
    assert operations.notify_left_in_shadow(0, 5) == 1
    notice, _ = operations.notices.due("log", 1 << 40, 100)
    assert notice.subject == "r:1"
    assert msgspec.json.decode(notice.body, type=Alarm).perhaps_sent_before
    assert "may have sent this before" in notice_text(notice.body, "en", ZONE).text
    assert operations.notify_left_in_shadow(0, 5) == 0, "each once"


def told(*numbers: int) -> list[Notified]:
    return [Notified(alarm_id=f"r:{number}", at_ms=0) for number in numbers]


def test_what_the_other_site_has_notified_is_never_notified_here(
    operations: OperationsStore,
) -> None:
    """Its word comes before or after its alarm, and before or after our own decision."""
    operations.apply(BatchChanges(alarms=[alarm(1)], shadow_since_ms=0))
    operations.apply(BatchChanges(foreign_alarms=[alarm(1), alarm(2)], shadow_since_ms=0))
    operations.apply(BatchChanges(foreign_notified=told(1, 2, 4), shadow_since_ms=0, now_ms=3))
    operations.apply(BatchChanges(alarms=[alarm(2), alarm(3)], shadow_since_ms=0))
    operations.apply(BatchChanges(foreign_alarms=[alarm(4)], shadow_since_ms=0))
    assert operations.notify_left_in_shadow(0, 5) == 1
    assert subjects(operations) == ["r:3"]


def test_what_the_lost_site_has_raised_and_not_notified_is_notified_here(
    operations: OperationsStore,
) -> None:
    """Its mail server was away when it died; what is too old to be told stays untold."""
    operations.apply(
        BatchChanges(foreign_alarms=[alarm(1), alarm(30)], shadow_since_ms=0, notify_since_ms=20)
    )
    operations.apply(BatchChanges(alarms=[alarm(30)], shadow_since_ms=0))
    assert operations.notify_left_in_shadow(0, 40) == 1
    assert subjects(operations) == ["r:30"]


def test_an_incident_that_is_open_when_the_site_takes_over_is_notified_then_and_its_end_as_ever(
    operations: OperationsStore,
) -> None:
    """One that began and ended in shadow is told nobody, nor is the other site's."""
    ended, foreign = (
        msgspec.structs.replace(incident("open"), incident_id=name) for name in ("ended", "theirs")
    )
    end = msgspec.structs.replace(ended, state="closed", closed_at_ms=9)
    operations.apply(
        BatchChanges(
            incidents=[incident("open"), ended, end],
            foreign_incidents=[ReplicatedIncident(foreign, b"A:1")],
            shadow_since_ms=0,
        )
    )
    operations.notify_left_in_shadow(0, 5)
    opened = incident("open").incident_id
    assert subjects(operations) == [f"{opened}:open"]
    operations.notify_left_in_shadow(0, 6)
    operations.apply(BatchChanges(incidents=[incident("closed")], now_ms=9))
    assert subjects(operations) == [f"{opened}:open", f"{opened}:closed"]


def test_what_this_site_has_notified_itself_it_does_not_repeat(operations: OperationsStore) -> None:
    """It was the primary then; the new one has decided of the same record."""
    operations.apply(BatchChanges(alarms=[alarm(1)]))
    operations.apply(BatchChanges(foreign_alarms=[alarm(1)], shadow_since_ms=0))
    assert operations.notify_left_in_shadow(0, 5) == 0


def test_what_is_kept_in_shadow_is_bounded_by_its_age(operations: OperationsStore) -> None:
    operations.apply(BatchChanges(foreign_notified=told(1), shadow_since_ms=0, now_ms=10))
    operations.apply(BatchChanges(foreign_alarms=[alarm(1), alarm(30)], shadow_since_ms=0))
    operations.forget_site_state(20, 0)
    assert operations.notify_left_in_shadow(0, 40) == 1
    assert subjects(operations) == ["r:30"]


def test_a_former_primary_notifies_what_it_raised_while_it_was_one(
    operations: OperationsStore,
) -> None:
    """The recorder reads it when the site is a mirror already."""
    operations.apply(BatchChanges(alarms=[alarm(10), alarm(30)], shadow_since_ms=20))
    assert subjects(operations) == ["r:10"]


def test_what_is_too_old_to_be_told_is_forgotten(operations: OperationsStore) -> None:
    operations.apply(BatchChanges(alarms=[alarm(10), alarm(30)], shadow_since_ms=0))
    assert operations.notify_left_in_shadow(20, 40) == 1
    assert subjects(operations) == ["r:30"]


def test_a_store_of_the_version_before_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "operations.db"
    OperationsStore(path).close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE suppressed; DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; DROP TABLE shadow_alarms; DROP TABLE unnotified_alarms; DROP TABLE said_acknowledged; DROP TABLE shadow_incidents;"
            " DROP TABLE open_incidents;"
            " PRAGMA user_version = 3"
        )
    store = OperationsStore(path)
    store.apply(BatchChanges(alarms=[alarm(1)], shadow_since_ms=0))
    assert store.notify_left_in_shadow(0, 5) == 1
    store.close()
    with sqlite3.connect(path) as db:
        assert version_of(db) == VERSION


def test_what_a_store_of_version_4_kept_in_shadow_is_still_left(tmp_path: Path) -> None:
    path = tmp_path / "operations.db"
    store = OperationsStore(path)
    store.apply(BatchChanges(foreign_alarms=[alarm(1)]))
    store.close()
    with sqlite3.connect(path) as db:
        db.executescript(
            "DROP TABLE suppressed; DROP TABLE rule_minutes; DROP TABLE digested_alarms;"
            "ALTER TABLE alarms DROP COLUMN kind; ALTER TABLE alarms DROP COLUMN district_id;"
            "DROP INDEX alarms_by_case; ALTER TABLE alarms DROP COLUMN case_number;"
            "ALTER TABLE alarms DROP COLUMN case_target;"
            "ALTER TABLE alarms DROP COLUMN visible_to; DROP TABLE unnotified_alarms; DROP TABLE shadow_alarms; DROP TABLE said_acknowledged; DROP TABLE shadow_incidents;"
            " DROP TABLE open_incidents;"
            "CREATE TABLE shadow_alarms (alarm_id TEXT PRIMARY KEY, raised_at_ms INTEGER NOT NULL)"
            " WITHOUT ROWID; INSERT INTO shadow_alarms VALUES ('r:1', 1); PRAGMA user_version = 4"
        )
    store = OperationsStore(path)
    assert store.notify_left_in_shadow(0, 5) == 1
    store.close()


@pytest.mark.slow
async def test_a_dispatcher_in_shadow_notifies_when_its_site_takes_over_and_only_what_is_left(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Two alarms are decided here; the other site says that it has notified one of them."""
    world = DispatchWorld(broker.bootstrap, tmp_path / "site")
    admin = Admin(world.bus, client_id="test")
    admin.ensure_topics([TOPICS[DATA_VEHICLE]])
    admin.close()
    bind(broker, "another-cluster")
    world.put_rule()
    async with world.running():
        world.candidates([1, 2])
        await until(lambda: len(world.stored()), 2)
        raised = world.alarms_on_topic()
        producer = Producer(world.bus, client_id="test")
        foreign = msgspec.structs.replace(raised[0], raised_at_ms=now_ms())
        notified = Notified(alarm_id=foreign.alarm_id, at_ms=now_ms())
        for topic, value, key in (
            (EVENT_ALARM, msgspec.json.encode(foreign), foreign.rule_id),
            (EVENT_NOTIFIED, msgspec.json.encode(notified), foreign.alarm_id),
        ):
            origin = MirrorOrigin("another-cluster", 7).value
            producer.send(topic, value, key=key, headers=[(MIRROR_ORIGIN, origin)])
        assert producer.close() == 0
        await until(partial(left_in_shadow, world), [raised[1].alarm_id])
        assert world.notified() == 0
        bind(broker, None)
        await until(world.notified, 1)
        assert left_in_shadow(world) == []


def left_in_shadow(world: DispatchWorld) -> list[str]:
    with sqlite3.connect(world.path) as db:
        rows = db.execute("SELECT alarm_id FROM shadow_alarms WHERE NOT notified")
        return [name for (name,) in rows]
