"""A site of one broker that a mirror may write to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.client.wire.sync_client import SyncClient
from deploy.servers.databus_cluster import RunningCluster, start_cluster

PROPERTIES = {
    "site.number": "7",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "mirror.reserved.topics": "data.*,meter.sent",
    "socket.send.buffer.bytes": "300000",
    "socket.receive.buffer.bytes": "200000",
}


@pytest.fixture(scope="session")
def site() -> Iterator[RunningCluster]:
    """One broker of site 7, with a listener for a mirror."""
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory,
        start_cluster(directory, 1, properties=PROPERTIES, mirror_listener=True) as one,
    ):
        yield one


@pytest.fixture
def link(site: RunningCluster) -> Iterator[SyncClient]:
    """A client on the mirror's listener."""
    with SyncClient(site.mirror_bootstrap, "mirror") as client:
        yield client
