"""`event.notified` says that an alarm was notified, and not before it was."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch import unnotified
from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.client.kafka.consumer import Consumer
from bus.client.model import TopicPartition
from bus.contracts.alarms import Notified
from bus.contracts.topics import EVENT_NOTIFIED
from bus.notify.notice_plan import NoticePlan
from bus.notify.notice_table import after_attempt
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import DispatchWorld, until
from tests.alarm.dispatch.test_operations import alarm


@pytest.fixture
def operations(tmp_path: Path) -> Iterator[OperationsStore]:
    plan = NoticePlan(("log", "mail", "sms"), escalate_to=frozenset({"sms"}), escalate_after_ms=60)
    store = OperationsStore(tmp_path / "operations.db", plan)
    yield store
    store.close()


def settle(operations: OperationsStore, notifier: str, outcome: str) -> None:
    for notice in operations.notices.due(notifier, 1 << 40, 10_000):
        operations.notices.record(after_attempt(notice, 0, outcome))


def test_an_alarm_is_called_notified_when_each_notifier_has_sent_it_or_given_it_up(
    operations: OperationsStore,
) -> None:
    """Who is told only without an acknowledgement is not waited for."""
    operations.apply(BatchChanges(alarms=[alarm(1)]))
    assert operations.newly_notified(5) == []
    settle(operations, "log", "sent")
    assert operations.newly_notified(5) == []
    settle(operations, "mail", "given up: no route")
    [said] = operations.newly_notified(5)
    assert (said.alarm_id, said.outcomes) == ("r:1", {"log": "sent", "mail": "given up: no route"})
    assert operations.newly_notified(6) != [], "it is said again until the bus has it"
    operations.mark_event_published([said])
    assert operations.newly_notified(7) == []


def test_an_alarm_of_another_site_is_not_called_notified_here(operations: OperationsStore) -> None:
    operations.apply(BatchChanges(foreign_alarms=[alarm(1)], alarms=[alarm(2)], shadow_since_ms=0))
    settle(operations, "log", "sent")
    assert operations.newly_notified(5) == []


def test_those_behind_a_thousand_that_wait_are_found_and_these_later(
    operations: OperationsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unnotified, "SCANNED_ROWS", 3)
    operations.apply(BatchChanges(alarms=[alarm(number) for number in range(1, 9)]))
    settle(operations, "log", "sent")
    waiting = operations.notices.due("mail", 1 << 40, 100)
    for notice in waiting[5:]:
        operations.notices.record(after_attempt(notice, 0, "sent"))
    looks = [[one.alarm_id for one in operations.newly_notified(5)] for _ in range(3)]
    assert looks == [[], ["r:6"], ["r:7", "r:8"]]
    settle(operations, "mail", "sent")
    assert [one.alarm_id for one in operations.newly_notified(5)] == ["r:1", "r:2", "r:3"]


def on_topic(world: DispatchWorld) -> list[str]:
    with Consumer(world.bus, client_id="test") as consumer:
        consumer.assign({TopicPartition(EVENT_NOTIFIED, 0): 0})
        found = []
        while not consumer.at_end:
            found += consumer.poll(100, 0.1)
    return [msgspec.json.decode(one.value or b"", type=Notified).alarm_id for one in found]


@pytest.mark.slow
async def test_a_dispatcher_says_once_of_each_alarm_that_it_was_notified(
    broker: RunningBroker, tmp_path: Path
) -> None:
    world = DispatchWorld(broker.bootstrap, tmp_path / "site")
    world.put_rule()
    async with world.running():
        world.candidates([1, 2])
        await until(world.notified, 2)
        raised = {one.alarm_id for one in world.alarms_on_topic()}
        await until(partial(lambda: len(on_topic(world))), 2)
    assert set(on_topic(world)) == raised
