"""The ZooKeeper sides of three brokers on a real server, each test in its own chroot."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from itertools import count

import pytest
from kazoo.client import KazooClient

from deploy.servers.process import JavaServer
from tests.broker.controller.zk.nodes import ZooKeeperTestBroker

_roots = count()


@pytest.fixture
def root(zookeeper: JavaServer) -> str:
    """`zookeeper.connect` with a fresh chroot."""
    return f"{zookeeper.address}/test-{next(_roots)}"


@pytest.fixture
async def nodes(root: str) -> AsyncIterator[dict[int, ZooKeeperTestBroker]]:
    """Brokers 1 to 3; the first one started is the controller."""
    together: dict[int, ZooKeeperTestBroker] = {}
    started = []
    try:
        for node_id in (1, 2, 3):
            node = ZooKeeperTestBroker(node_id, root, together)
            started.append(node)
            await node.start()
        yield together
    finally:
        for node in started:
            with contextlib.suppress(Exception):
                await node.stop()


@pytest.fixture
def tool(root: str) -> object:
    """A ZooKeeper client, for manual changes."""
    client = KazooClient(hosts=root)
    client.start()
    yield client
    client.stop()
    client.close()
