"""The memory by which no alarm is raised twice: what it knows, what it forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from alarm.dispatch.alarm_topic import remembered_ms
from alarm.dispatch.raised_alarms import FOR_EVER_MS, REMEMBERED_MS, RaisedAlarms, repeated_ms
from bus.client.kafka.admin import Admin
from bus.contracts.alarms import Alarm
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, DAY_MS, EVENT_ALARM, EVENT_CANDIDATE
from bus.domain.times import HOUR_MS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker

NOW_MS = 20_000 * DAY_MS


def alarm(number: int, raised_at_ms: int = NOW_MS) -> Alarm:
    return Alarm(alarm_id=f"r:{number}", rule_id="r", rule_name="", severity="warning",
                 record_id=str(number), kind="vehicle", checkpoint_id="c", captured_at_ms=1,
                 received_at_ms=1, raised_at_ms=raised_at_ms)  # fmt: skip


def test_of_a_batch_only_what_is_new_is_left_and_each_once() -> None:
    """In its order, the first of those with the same id."""
    raised = RaisedAlarms()
    raised.add(alarm(1), NOW_MS)
    batch = [alarm(2, 5), alarm(1), alarm(3), alarm(2, 6)]
    assert raised.new_of(batch, {}).raised == [alarm(2, 5), alarm(3)]


def test_an_alarm_is_remembered_as_long_as_its_record_can_come_again() -> None:
    """A week on the data topic and a day as a candidate; then its hour goes."""
    raised = RaisedAlarms()
    raised.add(alarm(1), NOW_MS)
    assert raised.forget(NOW_MS + REMEMBERED_MS) == 0
    assert "r:1" in raised
    raised.forget(NOW_MS + REMEMBERED_MS + HOUR_MS)
    assert "r:1" not in raised
    assert REMEMBERED_MS == 8 * DAY_MS


def test_there_is_a_bound_and_the_oldest_hour_goes_first() -> None:
    """A rule that matches everything must not fill the memory; how many went is told."""
    raised = RaisedAlarms(limit=10)
    for number in range(15):
        raised.add(alarm(number), NOW_MS + number * HOUR_MS // 4)
    assert raised.forget(NOW_MS + DAY_MS) == 8
    assert len(raised) == 7
    assert "r:8" in raised
    assert "r:7" not in raised


def test_what_topics_keep_longer_is_remembered_longer() -> None:
    """An operator may have changed it; a topic that is kept for ever has no end."""
    assert repeated_ms({DATA_FACE: 30 * DAY_MS}) == 31 * DAY_MS
    assert repeated_ms({DATA_FACE: DAY_MS, EVENT_CANDIDATE: 2 * DAY_MS}) == 9 * DAY_MS
    assert repeated_ms({DATA_VEHICLE: -1}) == FOR_EVER_MS + DAY_MS
    raised = RaisedAlarms(remembered_ms=31 * DAY_MS)
    raised.add(alarm(1), NOW_MS)
    raised.forget(NOW_MS + 30 * DAY_MS)
    assert "r:1" in raised


def test_topics_are_asked_what_they_keep(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What broke: the memory was a constant, so that records of a topic kept for a month raised
    their alarms again after a week. An alarm that its own topic forgets earlier is said."""
    broker = start_broker(tmp_path / "broker")
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(bus, client_id="test")
    for name, days in ((DATA_VEHICLE, 30), (EVENT_CANDIDATE, 1), (EVENT_ALARM, 10)):
        admin.create_topic(name, 1, configs={"retention.ms": str(days * DAY_MS)})
    assert remembered_ms(bus, "test") == 31 * DAY_MS
    assert "event.alarm keeps 10.0 days, but a candidate may come again for 31.0" in caplog.text
    admin.close()
    broker.stop()
