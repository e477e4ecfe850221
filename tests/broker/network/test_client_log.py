"""Lines that clients cause do not fill the log."""

from __future__ import annotations

import pytest

from broker.network.client_log import ClientLog


def test_a_hundred_thousand_bad_frames_are_a_dozen_lines_that_count_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line each was written: 98,710 of them in 25 minutes."""
    caplog.set_level("INFO", "broker.network")
    now = 0.0
    complaints = ClientLog(lambda: now)
    for number in range(98_710):
        now = number * 1500 / 98_710
        complaints.info("closing connection from %s: %s", "10.0.0.9", "bad")
    lines = [record.getMessage() for record in caplog.records]
    assert 3 <= len(lines) <= 12
    assert lines[0] == "closing connection from 10.0.0.9: bad"
    left_out = [int(line.split("(and ")[1].split()[0]) for line in lines[1:]]
    assert len(lines) + sum(left_out) <= 98_710
    assert sum(left_out) > 40_000


def test_another_kind_of_line_is_told_at_once_and_so_is_one_after_a_quiet_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The first one is never left out; a trace comes with an error."""
    caplog.set_level("INFO", "broker.network")
    now = 0.0
    complaints = ClientLog(lambda: now)
    for _ in range(10):
        complaints.warning("refusing %s", "a")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        complaints.exception("request from %s failed", "a")
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert caplog.records[1].exc_info is not None
    now = 100.0
    complaints.warning("refusing %s", "b")
    assert caplog.records[-1].getMessage() == "refusing b (and 9 more since the last such line)"
