"""The request log is switched by the level of its logger, while the broker runs."""

from __future__ import annotations

import logging

import pytest

from tests.simulation.stage import ScriptStage

pytestmark = pytest.mark.slow
REQUESTS = "broker.handlers"
PRODUCE = ": api 0 "


def test_requests_are_logged_while_the_level_asks_for_it(caplog: pytest.LogCaptureFixture) -> None:
    """On, off and on again: a line per request each time, none between."""
    stage = ScriptStage("request-log")
    for line in ("cluster 1", "topic t", "until t insync 1"):
        stage.run(line)
    seen = []
    for level in (logging.INFO, logging.DEBUG, logging.WARNING, logging.DEBUG):
        caplog.set_level(level, REQUESTS)
        stage.run("wait 10")
        caplog.clear()
        stage.run("produce t 3")
        seen.append(sum(PRODUCE in record.getMessage() for record in caplog.records))
    assert seen[0] == seen[2] == 0
    assert seen[1] == seen[3] > 0
    stage.end()
