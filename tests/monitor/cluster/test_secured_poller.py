"""The page *metadata* of a closed site, where controllers let nodes in only."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bus.contracts.access import CONSOLE, all_acls
from bus.contracts.topics import TOPICS
from deploy.secure.layout import IN_FORCE
from deploy.servers.process import free_port
from monitor.cluster.poller import ClusterPoller
from tests.secured_place import BrokerPlace, new_folder, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_the_consoles_account_sees_what_brokers_describe_and_not_the_metadata_themselves(tmp_path: Path) -> None:
    place = BrokerPlace(tmp_path / "data", free_port(), free_port())
    new_folder(place)
    with running(place.settings(), IN_FORCE):
        poller = ClusterPoller(place.bus(CONSOLE), "", {}, now_ms)
        await poller.poll()
        assert not poller.unavailable
        for _ in range(2):  # the second time the controller is not asked
            found = await poller.metadata()
            assert (found.is_described, found.fault, found.newest) == (True, "", [])
            assert set(found.tree["topics"]) == set(TOPICS)
            assert len(found.tree["acls"]) == len(all_acls())
            assert found.tree["quorum"]["leader"] == 1
        refusals = [line for log in place.folder.rglob("authorizer.log") for line in log.read_text().splitlines()]
        assert len(refusals) == 1
        assert "User:console is Denied operation = CLUSTER_ACTION" in refusals[0]
