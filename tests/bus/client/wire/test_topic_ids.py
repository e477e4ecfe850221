"""Which topics there are, asked by our own client and by librdkafka."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import describe_existing
from bus.client.kafka.topic_follower import TopicFollower
from bus.client.wire.topic_ids import TopicIds
from bus.errors import BusError
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from deploy.servers.databus_cluster import RunningCluster, start_cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TOPICS = [f"topic-{number}" for number in range(40)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        with closing(Admin(_bus(running), client_id="test")) as admin:
            for number, topic in enumerate(TOPICS):
                admin.create_topic(topic, 1 + number % 3, replication_factor=3)
        yield running


def _bus(cluster: RunningCluster) -> BusSettings:
    return BusSettings(bootstrap_servers=cluster.bootstrap)


def test_ids_are_written_as_librdkafka_writes_them(cluster: RunningCluster) -> None:
    """Stored positions hold them; of forty ids some have a `+` or a `/`. A missing topic is none."""
    asked = [*TOPICS, "missing"]
    follower = TopicFollower(_bus(cluster), asked)
    theirs = describe_existing(follower._librdkafka(), asked, 10.0, None)
    with closing(TopicIds(_bus(cluster), "test")) as ids:
        ours = ids.existing(asked)
    follower.close()
    assert ours == theirs
    assert ours.topic_ids.keys() == set(TOPICS)


def test_the_next_node_answers_when_one_has_died_or_hangs(cluster: RunningCluster) -> None:
    """One that hangs is waited for once, and then asked last."""
    with closing(TopicIds(_bus(cluster), "test")) as ids:
        before = ids.existing(TOPICS)
        for broker_id, how in ((1, signal.SIGSTOP), (2, signal.SIGKILL)):
            process = cluster.nodes[broker_id].pid
            os.kill(process, how)
            assert ids.existing(TOPICS) == before
            if how == signal.SIGSTOP:
                os.kill(process, signal.SIGCONT)
        assert ids.existing(TOPICS) == before


def test_where_nobody_answers_it_is_said(tmp_path: object) -> None:
    """And asked again later: the client is good for the broker's return."""
    broker = start_broker(tmp_path)  # type: ignore[arg-type]
    with closing(TopicIds(BusSettings(bootstrap_servers=broker.bootstrap), "test")) as ids:
        assert ids.existing(["t"]).topic_ids == {}
        broker.kill()
        with pytest.raises(BusError):
            ids.existing(["t"])
        again = broker.restart()
        assert ids.existing(["t"]).topic_ids == {}
        again.stop()
