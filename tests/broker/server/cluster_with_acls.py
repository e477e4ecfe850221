"""A cluster whose brokers obey ACLs, under either controller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from broker.config.keys_controller import STANDARD_AUTHORIZER, ZOOKEEPER_AUTHORIZER
from deploy.errors import Unavailable
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster, start_cluster
from deploy.servers.zookeeper import start_ensemble

AUTHORIZERS = {KRAFT: STANDARD_AUTHORIZER, ZOOKEEPER: ZOOKEEPER_AUTHORIZER}
DEADLINE_S, POLL_S = 60.0, 0.005


@contextmanager
def cluster_with_acls(
    folder: Path, controller: str, properties: Mapping[str, str]
) -> Iterator[RunningCluster]:
    """Three brokers; without the servers of ZooKeeper the test is skipped."""
    with ExitStack() as stack:
        address = None
        if controller == ZOOKEEPER:
            try:
                ensemble = stack.enter_context(start_ensemble(folder / "ensemble"))
            except Unavailable as missing:
                pytest.skip(str(missing))
            address = ensemble.address
        yield stack.enter_context(start_cluster(
            folder, 3, controller,
            {**properties, "authorizer.class.name": AUTHORIZERS[controller]},
            zookeeper_connect=address,
        ))  # fmt: skip


def until(what: str, holds: Callable[[], bool]) -> None:
    """Within the deadline."""
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(POLL_S)
