"""What a broker says of an ensemble that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from broker.server.zk.outage_log import OutageLog


class FakeTimer:
    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due, self.call, self.cancelled = due, call, False

    def cancel(self) -> None:
        self.cancelled = True


class Time:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[FakeTimer] = []

    def monotonic(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(self.now + delay_s, callback))
        return self.timers[-1]

    def turn(self, to: float) -> None:
        """Let time pass."""
        while due := [one for one in self.timers if one.due <= to and not one.cancelled]:
            first = min(due, key=lambda one: one.due)
            self.timers.remove(first)
            self.now = first.due
            first.call()
        self.now = to


def test_an_hour_is_told_a_dozen_times_with_the_remedy_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often the session reports that it is disconnected."""
    time = Time()
    absence = OutageLog(time, "zk:2181", lambda: "")  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "broker.server"):
        absence.begin()
        for minute in range(60):
            time.turn(60.0 * minute)
            absence.begin()
        time.turn(3600.0)
        absence.end()
        absence.end()
        time.turn(9000.0)
    lines = [record.getMessage() for record in caplog.records]
    assert "has not answered for 5 s" in lines[0]
    assert "start the ensemble's servers until a majority runs" in lines[0]
    assert lines[-1] == "ZooKeeper at zk:2181 answers again after 3600 s"
    assert 8 < len(lines) < 15


def test_a_connection_that_is_back_at_once_is_not_worth_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A server of the ensemble was restarted."""
    time = Time()
    absence = OutageLog(time, "zk:2181", lambda: "")  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "broker.server"):
        absence.begin()
        time.turn(2.0)
        absence.end()
        time.turn(100.0)
    assert caplog.records == []
