"""Queries about a cluster by one long-lived client."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from bus.client.kafka.cluster import ClusterUnavailable, admin_client, end_offsets
from bus.settings import BusSettings
from deploy.servers.databus import start_broker

pytestmark = pytest.mark.slow
BOUND_S = 20.0


def test_offsets_are_answered_again_soon_after_a_broker_was_killed(tmp_path: Path) -> None:
    """Regression: librdkafka keeps the previous leader epoch, with which it was refused for
    ever."""
    broker = start_broker(tmp_path)
    admin = admin_client(BusSettings(bootstrap_servers=broker.bootstrap))
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(BOUND_S)
    assert end_offsets(admin, [("t", 0)]) == {("t", 0): 0}
    broker.kill()
    again = broker.restart()
    try:
        assert _asked_until_answered(admin) == {("t", 0): 0}
    finally:
        again.stop()


def _asked_until_answered(admin) -> dict[tuple[str, int], int]:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + BOUND_S
    while True:
        try:
            return end_offsets(admin, [("t", 0)])
        except ClusterUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.1)
