"""The watcher on a real broker: what is there, what changed, what the metadata say."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from monitor.cluster.events import ClusterEvent
from monitor.cluster.poller import ClusterPoller
from monitor.cluster.snapshot import ClusterSnapshot
from monitor.cluster.traffic import metrics_urls

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("watcher")]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_look_shows_the_broker_its_topics_and_its_metadata(broker: RunningBroker) -> None:
    urls = metrics_urls(f"1=http://127.0.0.1:{broker.metrics_port}/metrics")
    watcher = ClusterPoller(BusSettings(bootstrap_servers=broker.bootstrap), None, urls, now_ms)
    heard: list[tuple[ClusterSnapshot, list[ClusterEvent]]] = []
    watcher.on_poll = lambda now, new: heard.append((now, new))
    with SyncClient(broker.bootstrap, "test") as nodes:
        commands.create_topic(nodes, "watched", partitions=3)
    await watcher.poll()
    picture, new = heard[0]
    assert [one.kind for one in new] == ["first"]
    assert (picture.mode, picture.controller_id, picture.alive) == ("kraft", 1, 1)
    assert picture.brokers[0].leads >= 3
    assert picture.unwell == []
    metadata = await watcher.metadata()
    assert metadata.fault == ""
    assert set(metadata.tree["topics"]["watched"]["partitions"]) == {"0", "1", "2"}
    assert any("watched" in row["value"] for row in metadata.newest)


async def test_a_cluster_that_went_away_keeps_its_last_picture(tmp_path: Path) -> None:
    """And the console says what it cannot reach, instead of an empty page."""
    broker = start_broker(tmp_path)
    watcher = ClusterPoller(BusSettings(bootstrap_servers=broker.bootstrap), None, {}, now_ms)
    await watcher.poll()
    known = watcher.history.last
    assert known is not None
    broker.kill()
    await watcher.poll()
    assert watcher.unavailable
    assert watcher.history.last is known
