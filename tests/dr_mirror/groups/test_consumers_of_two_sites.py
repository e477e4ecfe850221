"""Consumers that are restarted at the second site, where leader epochs are far lower."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from bus.client.admin import commands, queries
from bus.client.admin.commands import ElectionType
from bus.client.model import PartitionDescription, TopicPartition
from bus.client.wire.sync_client import SyncClient
from deploy.servers.databus_cluster import RunningCluster
from deploy.servers.kafka import run_tool
from tests.dr_mirror.copy.test_copying import committed, consumer, create, read_and_commit
from tests.dr_mirror.two_sites import (
    TwoSites,
    mirrored,
    start_pair_of_brokers,
    start_site,
    wait_until,
    wait_until_in_sync,
)

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

TOPIC = "data.vehicle"
ELECTIONS, PER_ELECTION = 15, 10
RECORDS = ELECTIONS * PER_ELECTION
READ = 60


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[RunningCluster, RunningCluster, TwoSites]]:
    source, target = start_pair_of_brokers(tmp_path / "a", 1), start_site(tmp_path / "b", 2)
    try:
        with mirrored(tmp_path / "mirror", source.mirror_bootstrap, target) as both:
            yield source, target, both
    finally:
        for cluster in (source, target):
            for node in cluster.plan:
                cluster.kill(node)


def partition(cluster: RunningCluster) -> PartitionDescription:
    with SyncClient(cluster.bootstrap, "test") as client:
        [found] = queries.topics(client, [TOPIC])
    return found.partitions[0]


def elect_the_other(cluster: RunningCluster) -> None:
    """Its follower leads, under an epoch that is one higher."""
    before = partition(cluster)
    place = TopicPartition(TOPIC, 0)
    wanted = [*(each for each in before.replicas if each != before.leader), before.leader]
    with SyncClient(cluster.bootstrap, "test") as client:
        commands.reassign(client, {place: wanted})
        wait_until(lambda: partition(cluster).replicas == tuple(wanted), "the order is changed")
        wait_until_in_sync(cluster, TOPIC)
        commands.elect(client, ElectionType.PREFERRED, [place])
    wait_until(lambda: partition(cluster).leader == wanted[0], "the other one leads")


def java_reads(cluster: RunningCluster, folder: Path, count: int) -> list[str]:
    """What Kafka's own console consumer gets, in its group."""
    folder.mkdir(exist_ok=True)
    words = ["--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--group", "java",
             "--max-messages", str(count), "--timeout-ms", "60000",
             "--command-property", "auto.offset.reset=earliest"]  # fmt: skip
    done = run_tool("kafka-console-consumer", words, folder=folder, timeout_s=120)
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text
    return [line for line in done.stdout.decode().splitlines() if line.startswith("record-")]


def test_java_and_librdkafka_go_on_at_b_where_they_stood_though_a_s_leader_epochs_are_far_higher(
    sites: tuple[RunningCluster, RunningCluster, TwoSites], tmp_path: Path, dice: random.Random
):
    """They have committed with A's epochs; B knows none of these."""
    source, target, both = sites
    create(source, TOPIC)
    for election in range(ELECTIONS):
        elect_the_other(source)
        producer = Producer({"bootstrap.servers": source.bootstrap})
        for number in range(election * PER_ELECTION, (election + 1) * PER_ELECTION):
            producer.produce(TOPIC, f"record-{number}", partition=0)
        assert producer.flush(60) == 0
    reader = consumer(source, "rdkafka")
    reader.subscribe([TOPIC])
    assert read_and_commit(reader, READ) == READ
    reader.close()
    assert java_reads(source, tmp_path / "java-a", READ) == [f"record-{n}" for n in range(READ)]
    both.wait_until_copied(TOPIC, 1)
    for group in ("rdkafka", "java"):
        wait_until(
            lambda group=group: committed(target, group, TOPIC) == READ, f"{group}: it is copied"
        )
    assert partition(source).leader_epoch >= partition(target).leader_epoch + ELECTIONS
    for node in source.plan:
        source.kill(node)

    reader = consumer(target, "rdkafka")
    reader.subscribe([TOPIC])
    found = []
    while len(found) < RECORDS - READ:
        message = reader.poll(60)
        assert message is not None
        assert message.error() is None
        found.append((message.offset(), message.value().decode()))
    reader.close()
    assert found == [(n, f"record-{n}") for n in range(READ, RECORDS)]
    rest = java_reads(target, tmp_path / "java-b", RECORDS - READ)
    assert rest == [f"record-{n}" for n in range(READ, RECORDS)]
