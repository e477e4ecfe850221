"""Who follows topics beside brokers that die, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import ClusterUnavailable
from bus.client.kafka.topic_follower import EVERY_S, TopicFollower
from bus.client.wire import sync_client
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from deploy.servers.databus_cluster import RunningCluster, start_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
BOUND_S = 20.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path, 3) as running:
        yield running


def test_it_goes_on_with_the_next_node_and_connects_no_more_than_once_a_look_to_each(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: it asked by librdkafka, which connected to a controller that had died some ten
    thousand times a second; a dispatcher took both cores, and alarms stood for seconds. Or it
    waited for that one after another had taken its place."""
    attempts, connected = [], sync_client._connected

    def noted(address: object, *arguments: object) -> object:
        attempts.append(address)
        return connected(address, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sync_client, "_connected", noted)
    bus = BusSettings(bootstrap_servers=cluster.bootstrap)
    with closing(Admin(bus, client_id="test")) as admin:
        admin.create_topic("t", 3, replication_factor=3)
    begun = time.monotonic()
    with closing(TopicFollower(bus, ["t"]).start()) as follower:
        _look(follower)
        for broker_id in (1, 2, 3):
            cluster.kill(broker_id)
            _look(follower)
            cluster.restart(broker_id)
            _look(follower)
        assert follower.identity is not None
        assert follower.identity.partitions
        looks = (time.monotonic() - begun) / EVERY_S + 10
        assert follower._admin is None
    assert len(attempts) <= looks * 3 * 3  # ids, ends, ends of those that had another leader


def test_who_asks_for_a_look_gets_one_that_begins_after_he_asked(tmp_path: Path) -> None:
    """A topic that was made before the question is in the answer, every time."""
    broker = start_broker(tmp_path)
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    names = [f"t{number}" for number in range(20)]
    with (
        closing(Admin(bus, client_id="test")) as admin,
        closing(TopicFollower(bus, names).start()) as follower,
    ):
        for name in names:
            admin.create_topic(name, 1)
            _look(follower)
            assert follower.identity is not None
            assert name in follower.identity.topic_ids
    broker.stop()


def test_where_nobody_answers_the_wait_ends_and_says_so(cluster: RunningCluster) -> None:
    """Also while no look ends at all."""
    bus = BusSettings(bootstrap_servers=cluster.bootstrap)
    with closing(TopicFollower(bus, ["t"]).start()) as follower:
        _look(follower)
        for broker_id in (1, 2, 3):
            cluster.kill(broker_id)
        with pytest.raises(ClusterUnavailable):
            for _ in range(2):  # the first may have begun before
                follower.refresh()
        with pytest.raises(ClusterUnavailable):
            follower.refresh(0.0)


def _look(follower: TopicFollower) -> None:
    deadline = time.monotonic() + BOUND_S
    while True:
        try:
            return follower.refresh()
        except ClusterUnavailable:
            assert time.monotonic() < deadline
