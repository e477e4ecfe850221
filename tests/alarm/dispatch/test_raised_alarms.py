"""The memory by which no alarm is raised twice: what it knows, what it forgets."""

from __future__ import annotations

from alarm.dispatch.raised_alarms import HOUR_MS, REMEMBERED_MS, RaisedAlarms
from bus.contracts.alarms import Alarm
from bus.contracts.topics import DAY_MS

NOW_MS = 20_000 * DAY_MS


def alarm(number: int, raised_at_ms: int = NOW_MS) -> Alarm:
    return Alarm(alarm_id=f"r:{number}", rule_id="r", rule_name="", severity="warning",
                 record_id=str(number), kind="vehicle", checkpoint_id="c", captured_at_ms=1,
                 received_at_ms=1, raised_at_ms=raised_at_ms)  # fmt: skip


def test_of_a_batch_only_what_is_new_is_left_and_each_once() -> None:
    """In its order, the first of those with the same id."""
    raised = RaisedAlarms()
    raised.add("r:1", NOW_MS)
    batch = [alarm(2, 5), alarm(1), alarm(3), alarm(2, 6)]
    assert raised.new_of(batch) == [alarm(2, 5), alarm(3)]


def test_an_alarm_is_remembered_as_long_as_its_record_can_come_again() -> None:
    """A week on the data topic and a day as a candidate; then its hour goes."""
    raised = RaisedAlarms()
    raised.add("r:1", NOW_MS)
    assert raised.forget(NOW_MS + REMEMBERED_MS) == 0
    assert "r:1" in raised
    raised.forget(NOW_MS + REMEMBERED_MS + HOUR_MS)
    assert "r:1" not in raised
    assert REMEMBERED_MS == 8 * DAY_MS


def test_there_is_a_bound_and_the_oldest_hour_goes_first() -> None:
    """A rule that matches everything must not fill the memory; how many went is told."""
    raised = RaisedAlarms(limit=10)
    for number in range(15):
        raised.add(f"r:{number}", NOW_MS + number * HOUR_MS // 4)
    assert raised.forget(NOW_MS + DAY_MS) == 8
    assert len(raised) == 7
    assert "r:8" in raised
    assert "r:7" not in raised
