"""What the recorder publishes holds up no alarm that is to be recorded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alarm.dispatch import published_events
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.published_events import PublishedEvents
from alarm.dispatch.recorder_events import RecorderEvents
from bus.client.kafka.admin import Admin
from bus.contracts.alarms import Notified
from bus.contracts.topics import EVENT_ACKNOWLEDGED, EVENT_INCIDENT, EVENT_NOTIFIED
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.notice_plan import NoticePlan
from bus.settings import BusSettings, SiteSettings
from deploy.servers.databus import RunningBroker, start_broker
from tests.alarm.dispatch.test_operations import alarm
from tests.alarm.dispatch.test_unnotified import settle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def test_a_leader_that_stands_still_is_not_waited_for(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: after a broker's death alarms were on the bus again within half a second, and in
    the store up to three seconds later: the recorder waited until `event.notified` had a leader."""
    monkeypatch.setattr(published_events, "DELIVERY_TIMEOUT_S", 1e6)  # a wait ends with the test
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Admin(bus, client_id="test")) as admin:
        for topic in (EVENT_NOTIFIED, EVENT_ACKNOWLEDGED, EVENT_INCIDENT):
            admin.create_topic(topic, 1)
    site = SiteSettings(data_dir=str(tmp_path))
    recorded = RecorderEvents(Acknowledgements(site))
    with (
        closing(OperationsStore(tmp_path / "operations.db", NoticePlan(("log",)))) as operations,
        closing(PublishedEvents(bus, "test")) as events,
    ):
        publish_notified(1, operations, recorded, events)
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            operations.apply(BatchChanges(alarms=[alarm(2)]))
            settle(operations, "log", "sent")
            while not events.notified.in_flight:
                recorded.publish_due(operations, events)
            assert [one.alarm_id for one in operations.newly_notified(9)] == ["r:2"]
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        while operations.newly_notified(9):
            recorded.publish_due(operations, events)
        assert not events.notified.in_flight


def publish_notified(
    number: int, operations: OperationsStore, recorded: RecorderEvents, events: PublishedEvents
) -> None:
    """One alarm, until the bus has it."""
    operations.apply(BatchChanges(alarms=[alarm(number)]))
    settle(operations, "log", "sent")
    while operations.newly_notified(5):
        recorded.publish_due(operations, events)


def test_what_is_on_its_way_is_not_sent_again(broker: RunningBroker) -> None:
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    with closing(Admin(bus, client_id="test")) as admin:
        admin.create_topic(EVENT_NOTIFIED, 1)
        with closing(PublishedEvents(bus, "test")) as events:
            one = Notified(alarm_id="r:1", at_ms=1, outcomes={})
            assert events.notified.send([("r:1", one)]) == 1
            assert events.notified.send([("r:1", one)]) == 0
            while not (taken := events.notified.take_acknowledged()):
                assert events.notified.send([("r:1", one)]) == 0
            assert taken == [one]
            assert events.notified.send([("r:1", one)]) == 1
