"""The watcher on a real broker: what is there, what changed, what the metadata say."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.server.embedded import RunningBroker, start_broker_process
from bus.client.nodes import Nodes
from bus.client.operate import act
from monitor.cluster.events import Event
from monitor.cluster.picture import Picture
from monitor.cluster.traffic import metrics_urls
from monitor.cluster.watcher import Watcher

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("watcher")]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_look_shows_the_broker_its_topics_and_its_metadata(broker: RunningBroker) -> None:
    urls = metrics_urls(f"1=http://127.0.0.1:{broker.metrics_port}/metrics")
    watcher = Watcher(broker.bootstrap, "", urls, now_ms)
    heard: list[tuple[Picture, list[Event]]] = []
    watcher.on_look = lambda now, new: heard.append((now, new))
    with Nodes(broker.bootstrap, "test") as nodes:
        act.create_topic(nodes, "watched", partitions=3)
    await watcher.look()
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
    broker = start_broker_process(tmp_path)
    watcher = Watcher(broker.bootstrap, "", {}, now_ms)
    await watcher.look()
    known = watcher.history.last
    assert known is not None
    broker.kill()
    await watcher.look()
    assert watcher.away
    assert watcher.history.last is known
