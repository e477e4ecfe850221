"""A site whose data are a mirror decides and notifies nobody; nothing is lost when it takes over."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.schema import VERSION, version_of
from bus.client.admin import commands
from bus.client.admin.config_resources import TOPIC, AlterConfigOp
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.wire.sync_client import SyncClient
from bus.contracts.alarms import Alarm
from bus.contracts.mirror import SOURCE_CLUSTER_KEY
from bus.contracts.mirror_origin import MIRROR_ORIGIN, MirrorOrigin
from bus.contracts.topics import DATA_VEHICLE, EVENT_ALARM, TOPICS
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_text import notice_text
from bus.wall_clock import now_ms
from deploy.testservers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import DispatchWorld, running_broker, until
from tests.alarm.dispatch.test_operations import alarm, incident

ZONE = ZoneInfo("Asia/Shanghai")


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[OperationsStore]:
    store = OperationsStore(tmp_path / "operations.db", NoticePlan(("log",)))
    yield store
    store.close()


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
    [notice] = operations.notices.due("log", 1 << 40, 100)
    assert notice.subject == "r:1"
    assert msgspec.json.decode(notice.body, type=Alarm).perhaps_sent_before
    assert "may have sent this before" in notice_text(notice.body, "en", ZONE).text
    assert operations.notify_left_in_shadow(0, 5) == 0, "each once"


def test_what_the_other_site_has_raised_is_never_notified_here(
    operations: OperationsStore,
) -> None:
    """Its copy comes before or after our own decision."""
    operations.apply(BatchChanges(alarms=[alarm(1)], shadow_since_ms=0))
    operations.apply(BatchChanges(foreign_alarms=[alarm(1), alarm(2)], shadow_since_ms=0))
    operations.apply(BatchChanges(alarms=[alarm(2), alarm(3)], shadow_since_ms=0))
    assert operations.notify_left_in_shadow(0, 5) == 1
    assert subjects(operations) == ["r:3"]


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
        db.executescript("DROP TABLE shadow_alarms; PRAGMA user_version = 3")
    store = OperationsStore(path)
    store.apply(BatchChanges(alarms=[alarm(1)], shadow_since_ms=0))
    assert store.notify_left_in_shadow(0, 5) == 1
    store.close()
    with sqlite3.connect(path) as db:
        assert version_of(db) == VERSION


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "broker") as running:
        yield running


def bind(broker: RunningBroker, source: str | None) -> None:
    """Make the site's data another site's mirror, or its own."""
    operation = AlterConfigOp.DELETE if source is None else AlterConfigOp.SET
    with SyncClient(broker.bootstrap, "test") as client:
        change = [(SOURCE_CLUSTER_KEY, operation, source)]
        commands.alter_configs(client, {(TOPIC, DATA_VEHICLE): change})


@pytest.mark.slow
async def test_a_dispatcher_in_shadow_notifies_when_its_site_takes_over_and_only_what_is_left(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Two alarms are decided here; the copy of one says that the other site has raised it."""
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
        producer.send(
            EVENT_ALARM, msgspec.json.encode(foreign), key=foreign.rule_id,
            headers=[(MIRROR_ORIGIN, MirrorOrigin("another-cluster", 7).value)],
        )  # fmt: skip
        assert producer.close() == 0
        await until(partial(left_in_shadow, world), [raised[1].alarm_id])
        assert world.notified() == 0
        bind(broker, None)
        await until(world.notified, 1)
        assert left_in_shadow(world) == []


def left_in_shadow(world: DispatchWorld) -> list[str]:
    with sqlite3.connect(world.path) as db:
        return [name for (name,) in db.execute("SELECT alarm_id FROM shadow_alarms")]
