"""Our broker as Apache Kafka is started for comparison: nothing set that an answer would show."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.server.embedded import RunningBroker, start_broker_process

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def answering_broker() -> Iterator[RunningBroker]:
    """Our broker with its data in memory where there is any."""
    root = tempfile.mkdtemp(prefix="databus-", dir=MEMORY if MEMORY.is_dir() else None)
    running = start_broker_process(root, {"group.initial.rebalance.delay.ms": "0", "node.id": "1"})
    yield running
    running.stop()
    shutil.rmtree(root, ignore_errors=True)
