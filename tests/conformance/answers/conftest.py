"""Our broker, configured like the Apache Kafka of the comparison: no setting shows in an answer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.servers.databus import RunningBroker, start_broker

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def answering_broker() -> Iterator[RunningBroker]:
    """Our broker, with its data in memory if possible."""
    root = tempfile.mkdtemp(prefix="databus-", dir=MEMORY if MEMORY.is_dir() else None)
    running = start_broker(root, {"group.initial.rebalance.delay.ms": "0", "node.id": "1"})
    yield running
    running.stop()
    shutil.rmtree(root, ignore_errors=True)
