"""What librdkafka says reaches our log at the level that an operator should see."""

from __future__ import annotations

import logging

import pytest

from bus.client.kafka import config


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("FAIL [x] [thrd:b]: b: Connect to ipv4#1.2.3.4:9 failed: Connection refused", logging.INFO),
        ("FAIL [x] [thrd:b]: b: Connect to ipv4#1.2.3.4:9 failed: No route to host", logging.ERROR),
        ("ALLBROKERS_DOWN [x]: 1/1 brokers are down: Connection refused", logging.ERROR),
    ],
)
def test_a_broker_that_does_not_listen_yet_is_no_error(
    caplog: pytest.LogCaptureFixture, line: str, level: int
):
    """Otherwise every start of the product would show errors that disappear within a second."""
    with caplog.at_level(logging.INFO, logger="bus.client"):
        config.common_config(config.BusSettings(), "x")["logger"].error("%s", line)
    assert [(each.levelno, each.message) for each in caplog.records] == [(level, line)]
