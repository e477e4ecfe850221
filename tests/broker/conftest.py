"""A real broker process for tests of the broker's packages."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.servers.databus import RunningBroker, start_broker

MEMORY = Path("/dev/shm")


@pytest.fixture
def broker_dir() -> Iterator[Path]:
    """A data directory in memory where there is one, removed afterwards."""
    root = tempfile.mkdtemp(prefix="databus-", dir=MEMORY if MEMORY.is_dir() else None)
    yield Path(root)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[RunningBroker]:
    """One broker for all tests of a worker that do no harm to it."""
    root = tempfile.mkdtemp(prefix="databus-", dir=MEMORY if MEMORY.is_dir() else None)
    running = start_broker(root, {"group.initial.rebalance.delay.ms": "0"})
    yield running
    running.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def broker(broker_dir: Path) -> Iterator[RunningBroker]:
    """A broker of one's own."""
    running = start_broker(broker_dir, {"group.initial.rebalance.delay.ms": "0"})
    yield running
    running.stop()
