"""After a restore nobody is told again of what he was told, and nobody misses what he was not told."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore, mark_restored
from bus.contracts.alarms import Acknowledged, Alarm, Incident, NoticeDigest, Notified
from bus.contracts.topics import EVENT_ACKNOWLEDGED, EVENT_NOTIFIED
from bus.notify.notice_digest import MOST_SINGLE
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import DIGEST, SENT, Notice, after_attempt
from bus.notify.notice_text import notice_text
from bus.runtime.wall_clock import now_ms
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import NOTICES, DispatchWorld, until
from tests.alarm.dispatch.test_operations import alarm, incident

PLAN = NoticePlan(("log", "mail", "sms"), escalate_to=frozenset({"sms"}), escalate_after_ms=60)
RESTORED_MS = 1_000_000
ZONE = ZoneInfo("Asia/Shanghai")


def due(store: OperationsStore, notifier: str) -> list[Notice]:
    return store.notices.due(notifier, 1 << 50, 1_000_000)


def subjects(store: OperationsStore, notifier: str) -> list[str]:
    return [one.subject for one in due(store, notifier)]


def send_all(store: OperationsStore, notifier: str) -> None:
    for notice in due(store, notifier):
        store.notices.record(after_attempt(notice, 0, SENT))


def said(*alarm_ids: str, outcomes: dict[str, str] | None = None) -> list[Notified]:
    outcomes = {"log": SENT, "mail": SENT} if outcomes is None else outcomes
    return [Notified(alarm_id=one, at_ms=5, outcomes=outcomes) for one in alarm_ids]


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[OperationsStore]:
    """A store out of a backup: alarm 1 was told to all, of alarm 2 mail was not told yet."""
    path = tmp_path / "operations.db"
    with closing(OperationsStore(path, PLAN)) as store:
        store.apply(BatchChanges(alarms=[alarm(1)], incidents=[incident("open", "told")]))
        for name in PLAN.notifiers:
            send_all(store, name)
        store.mark_event_published(store.newly_notified(3))
        store.apply(BatchChanges(alarms=[alarm(2)], incidents=[incident("open", "waiting")]))
        send_all(store, "log")
    mark_restored(path, RESTORED_MS)
    store = OperationsStore(path, PLAN)
    yield store
    store.close()


def finish(store: OperationsStore, *acknowledged: str) -> int:
    return store.notify_since_backup(set(acknowledged), 2 * RESTORED_MS, is_secondary=False)


def test_while_the_topics_are_read_nobody_is_told_and_nothing_is_called_notified(
    restored: OperationsStore,
) -> None:
    """Regression: a restore sent 4,607 webhooks and 4,520 mails a second time, unmarked."""
    restored.apply(BatchChanges(alarms=[alarm(3)], incidents=[incident("open", "new")]))
    assert [subjects(restored, name) for name in PLAN.notifiers] == [[], [], []]
    assert restored.newly_notified(7) == []


def test_what_the_topic_calls_notified_is_not_sent_and_the_rest_once_and_marked(
    restored: OperationsStore,
) -> None:
    """Also what waited in the backup; an escalation where it is not known and nobody has it in hand."""
    restored.apply(BatchChanges(notified=said("r:3")))
    restored.apply(BatchChanges(alarms=[alarm(3), alarm(4)]))
    assert finish(restored, "r:4") == 4
    assert subjects(restored, "log") == ["r:4"]
    assert subjects(restored, "mail") == ["r:2", "r:4", "waiting:open"]
    assert subjects(restored, "sms") == ["r:2", "r:3", "waiting:open"]
    for name in PLAN.notifiers:
        for notice in due(restored, name):
            assert "may have sent this before" in notice_text(notice.body, "en", ZONE).text
    assert finish(restored) == 0
    restored.apply(BatchChanges(alarms=[alarm(3), alarm(4)]))
    assert subjects(restored, "log") == ["r:4"], "each once"


def test_more_than_twenty_are_one_digest_for_each_notifier(restored: OperationsStore) -> None:
    """It names how many and which; what becomes of it becomes of all in it."""
    numbers = range(10, 10 + MOST_SINGLE + 1)
    ids = [f"r:{number}" for number in numbers]
    restored.apply(BatchChanges(alarms=[alarm(number) for number in numbers]))
    finish(restored, *ids)
    [notice] = due(restored, "log")
    digest = msgspec.json.decode(notice.body, type=NoticeDigest)
    assert (notice.subject[: len(DIGEST)], digest.alarms, digest.incidents) == (DIGEST, len(ids), 0)
    assert (digest.ids, digest.first_at_ms, digest.last_at_ms) == (ids, 10, numbers[-1])
    text = notice_text(notice.body, "zh", ZONE).text
    assert f"告警数 {len(ids)}" in text
    assert len(due(restored, "mail")) == 1
    assert subjects(restored, "sms") == ["r:2", "waiting:open"], "the others are in hand"
    assert restored.newly_notified(8) == []
    send_all(restored, "log")
    assert restored.newly_notified(8) == []
    send_all(restored, "mail")
    send_all(restored, "sms")
    told = {one.alarm_id: one.outcomes for one in restored.newly_notified(9)}
    assert told.keys() == {*ids, "r:2"}
    assert told["r:10"] == dict.fromkeys(("log", "mail"), f"sent in {notice.subject}")


def test_what_begins_after_the_restore_is_told_at_once_and_unmarked(
    restored: OperationsStore,
) -> None:
    restored.apply(BatchChanges(alarms=[alarm(RESTORED_MS)]))
    [notice] = due(restored, "log")
    assert not msgspec.json.decode(notice.body, type=Alarm).perhaps_sent_before
    restored.apply(BatchChanges(incidents=[incident("open", "late", at_ms=RESTORED_MS)]))
    assert subjects(restored, "log") == [f"r:{RESTORED_MS}", "late:open"]


def test_an_incident_is_told_as_it_stands_at_last(restored: OperationsStore) -> None:
    """Its end, where it has ended meanwhile; an end escalates no more."""
    ended = msgspec.structs.replace(incident("open", "short"), state="closed", closed_at_ms=9)
    still = msgspec.structs.replace(incident("open", "waiting"), state="closed", closed_at_ms=9)
    restored.apply(BatchChanges(incidents=[incident("open", "short"), ended, still]))
    finish(restored)
    assert subjects(restored, "log") == ["waiting:closed", "short:closed"]
    assert subjects(restored, "sms") == ["r:2"]
    bodies = [one.body for one in due(restored, "log")]
    assert all(msgspec.json.decode(one, type=Incident).perhaps_sent_before for one in bodies)


def test_a_site_that_is_not_the_primary_notifies_nobody_and_keeps_what_is_left(
    restored: OperationsStore,
) -> None:
    restored.apply(BatchChanges(alarms=[alarm(3), alarm(4)], notified=said("r:3")))
    assert restored.notify_since_backup(set(), 2 * RESTORED_MS, is_secondary=True) == 0
    assert subjects(restored, "log") == []
    assert restored.notify_left_in_shadow(0, 2 * RESTORED_MS) == 1
    assert subjects(restored, "log") == ["r:4"]


def test_a_kill_while_the_topics_are_read_changes_nothing(tmp_path: Path) -> None:
    """The file remembers what it is; read twice, everything is told once."""
    path = tmp_path / "operations.db"
    OperationsStore(path, PLAN).close()
    mark_restored(path, RESTORED_MS)
    for _ in range(2):
        with closing(OperationsStore(path, PLAN)) as store:
            assert store.restored_at_ms == RESTORED_MS
            store.apply(BatchChanges(alarms=[alarm(1), alarm(2)], notified=said("r:1")))
    with closing(OperationsStore(path, PLAN)) as store:
        finish(store)
        assert subjects(store, "log") == ["r:2"]
    with closing(OperationsStore(path, PLAN)) as store:
        assert store.restored_at_ms == 0


def test_whatever_order_and_number_nobody_is_told_twice_or_not_at_all(
    tmp_path: Path, dice: random.Random
) -> None:
    """Drawn: what the backup had, what was raised and notified since, in which batches it comes."""
    for run in range(20):
        path = tmp_path / f"{run}.db"
        numbers = list(range(1, dice.choice([5, 15, 60])))
        backed_up = dice.randrange(len(numbers) + 1)
        told_before: set[str] = set()
        with closing(OperationsStore(path, PLAN)) as store:
            store.apply(BatchChanges(alarms=[alarm(one) for one in numbers[:backed_up]]))
            for notice in due(store, "mail"):
                if dice.random() < 0.5:
                    store.notices.record(after_attempt(notice, 0, SENT))
                    told_before.add(notice.subject)
        mark_restored(path, RESTORED_MS)
        named = {f"r:{one}" for one in numbers if dice.random() < 0.6}
        events: list[BatchChanges] = [BatchChanges(alarms=[alarm(one)]) for one in numbers]
        events += [BatchChanges(notified=said(one)) for one in named]
        dice.shuffle(events)
        with closing(OperationsStore(path, PLAN)) as store:
            for event in events:
                store.apply(event)
            finish(store)
            found: list[str] = []
            for notice in due(store, "mail"):
                if notice.subject.startswith(DIGEST):
                    found += msgspec.json.decode(notice.body, type=NoticeDigest).ids
                else:
                    found.append(notice.subject)
        wanted = {f"r:{one}" for one in numbers} - named - told_before
        assert sorted(found) == sorted(wanted)


@pytest.mark.slow
async def test_a_restored_dispatcher_tells_only_what_waited(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Alarms since the backup were told and acknowledged; two more were raised, and nobody was told."""
    world = DispatchWorld(broker.bootstrap, tmp_path / "site")
    world.put_rule()
    saved = tmp_path / "operations.db"
    async with world.running():
        world.candidates([1, 2])
        await until(world.notified, 2)
        with (
            closing(sqlite3.connect(world.path)) as source,
            closing(sqlite3.connect(saved)) as copy,
        ):
            source.backup(copy)
        world.candidates(range(3, 40))
        await until(world.notified, 39)
        await until(partial(len_of, world, EVENT_NOTIFIED), 39)
    untold = [
        msgspec.structs.replace(
            world.alarms_on_topic()[0], alarm_id=f"r:untold-{n}", raised_at_ms=now_ms()
        )
        for n in range(2)
    ]
    world.send("event.alarm", "r", untold)
    taken = Acknowledged(id="r:untold-0", by_whom="somebody", at_ms=now_ms())
    world.send(EVENT_ACKNOWLEDGED, taken.id, [taken])
    await until(partial(is_past, untold), True)
    shutil.copyfile(saved, world.path)
    for end in ("-wal", "-shm"):
        world.path.with_name(world.path.name + end).unlink(missing_ok=True)
    mark_restored(world.path, now_ms())
    async with world.running():
        await until(lambda: len(world.stored()), 41)
        await until(world.notified, 41)
        world.candidates([100])
        await until(world.notified, 42)
    log = NOTICES.alarm_log_path(world.site)
    assert log is not None
    lines = log.read_text().splitlines()
    marked = [line for line in lines if '"perhaps_sent_before":true' in line]
    assert {"r:untold-0", "r:untold-1"} == {msgspec.json.decode(one)["alarm_id"] for one in marked}


def is_past(alarms: list[Alarm]) -> bool:
    return all(one.raised_at_ms < now_ms() for one in alarms)


def len_of(world: DispatchWorld, topic: str) -> int:
    from bus.client.kafka.consumer import Consumer

    with Consumer(world.bus, client_id="check") as consumer:
        return sum(consumer.bounds(place)[1] for place in consumer.partitions_of(topic))
