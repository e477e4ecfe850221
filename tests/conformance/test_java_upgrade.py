"""A cluster of ours from 4.3 to 4.4: node by node, then its level, raised by Kafka's own tool (4.4).

The program before the step is this one, told to know no level above 4.3's: what it wrote and said of
itself was the same (`tests/broker/server/directory_at_4_3.zip` was written by it).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.metadata.versions import MIN_LEVEL
from deploy.servers.databus import PROJECT_ROOT
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.kafka import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

OLD_LEVEL = 30
AS_BEFORE = f"""
import broker.metadata.versions as versions
versions.MAX_LEVEL = {OLD_LEVEL}
versions.SUPPORTED = {{**versions.SUPPORTED, "metadata.version": ({MIN_LEVEL}, {OLD_LEVEL})}}
"""
SETTLED_S = 90.0
Tool = Callable[..., tuple[int, str]]


@pytest.fixture
def old_cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """Three nodes of the program before the step."""
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "sitecustomize.py").write_text(AS_BEFORE)
    prefix = ("env", f"PYTHONPATH={tmp_path / 'before'}:{PROJECT_ROOT}")
    with start_cluster(tmp_path / "cluster", 3, prefixes=[prefix] * 3) as running:
        yield running


@pytest.fixture
def features(old_cluster: RunningCluster, tmp_path: Path) -> Tool:
    """kafka-features: its status and what it prints."""

    def run(*words: str) -> tuple[int, str]:
        at = ("--bootstrap-server", old_cluster.bootstrap)
        done = run_tool("kafka-features", [*at, *words], folder=tmp_path, timeout_s=120)
        return done.returncode, (done.stdout + done.stderr).decode()

    return run


def replace_node(cluster: RunningCluster, node_id: int) -> None:
    """Stops a node and starts the newer program on its directory."""
    cluster.terminate(node_id)
    cluster.plan[node_id].prefix = ()
    cluster.restart(node_id)


def upgrade(features: Tool) -> tuple[int, str]:
    """To the newest level of 4.4; asked again while a replaced node is not registered yet."""
    end = time.monotonic() + SETTLED_S
    while True:
        status, text = features("upgrade", "--feature", "metadata.version=33")
        if status == 0 or time.monotonic() > end:
            return status, text


def test_a_cluster_is_upgraded_node_by_node(old_cluster: RunningCluster, features: Tool) -> None:
    """The level stays, and cannot be raised, until the last node is replaced; no record is lost."""
    admin = AdminClient({"bootstrap.servers": old_cluster.bootstrap})
    admin.create_topics([NewTopic("kept", 1, 3)])["kept"].result(30)
    producer = Producer({"bootstrap.servers": old_cluster.bootstrap, "acks": "all"})
    written = 0
    for node_id in (1, 2, 3):
        status, text = features("upgrade", "--feature", "metadata.version=33")
        assert status != 0, text
        assert re.search(rf"only supports versions {MIN_LEVEL}-{OLD_LEVEL}", text), text
        replace_node(old_cluster, node_id)
        producer.produce("kept", b"%d" % node_id)
        assert producer.flush(60) == 0
        written += 1
    assert "FinalizedVersionLevel: 4.3-IV0" in features("describe")[1]
    status, text = upgrade(features)
    assert status == 0, text
    for node_id in (1, 2, 3):
        old_cluster.kill(node_id)
        old_cluster.restart(node_id)
    assert "FinalizedVersionLevel: 4.4-IV2" in features("describe")[1]
    place = TopicPartition("kept", 0)
    reader = Consumer({"bootstrap.servers": old_cluster.bootstrap, "group.id": "any"})
    assert reader.get_watermark_offsets(place, timeout=60)[1] == written
    reader.close()
