"""After a restart of a whole site somebody must confirm that its site epoch is the newest."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from bus.client.admin import queries
from bus.client.admin.cluster_admin import ClusterAdmin
from bus.client.admin.config_resources import AlterConfigOp
from bus.client.wire.sync_client import SyncClient
from bus.contracts.site_confirmation import TARGET_CLUSTER_KEY, ConfirmedBy, SiteConfirmation
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from bus.records.build import build_batch
from bus.records.record import Record
from bus.settings import BusSettings
from deploy.servers.databus_cluster import KRAFT, ZOOKEEPER, RunningCluster, start_cluster
from tests.dr_mirror.copy.test_copying import create
from tests.dr_mirror.edges.test_edge_of_two_sites import EdgeOfTwoSites
from tests.dr_mirror.switch.test_switch import (
    PARTITIONS,
    TOPIC,
    both_sites,
    is_read_only,
    send_one,
)
from tests.dr_mirror.two_sites import wait_until, wait_until_in_sync, zookeeper_of

THREE = {
    "site.number": "1", "default.replication.factor": "3", "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3", "group.initial.rebalance.delay.ms": "0",
}  # fmt: skip


def members(cluster: RunningCluster) -> frozenset[int] | None:
    """Brokers whose processes are confirmed; None: nobody confirmed any."""
    admin = ClusterAdmin(BusSettings(bootstrap_servers=cluster.bootstrap), "test")
    try:
        return admin.site_keys().members
    finally:
        admin.close()


def is_marked(cluster: RunningCluster, topic: str) -> bool:
    """Whether the topic says that it is copied to another site."""
    admin = ClusterAdmin(BusSettings(bootstrap_servers=cluster.bootstrap), "test")
    try:
        found = admin.with_configs(admin.view(), [topic])
    finally:
        admin.close()
    return topic in found and bool(found[topic].configs.get(TARGET_CLUSTER_KEY))


def confirm(cluster: RunningCluster) -> None:
    """What a mirror does at its begin: it confirms, then marks the topic."""
    admin = ClusterAdmin(BusSettings(bootstrap_servers=cluster.bootstrap), "test")
    try:
        admin.confirm(SiteConfirmation(0, ConfirmedBy.MIRROR, 1, "test", "both were asked"))
        mark = [(TARGET_CLUSTER_KEY, AlterConfigOp.SET, "another-cluster")]
        admin.alter_topics({TOPIC: mark})
    finally:
        admin.close()


def produce_error(cluster: RunningCluster, topic: str, partition: int = 0) -> ErrorCode:
    """The leader's answer to one record, as any client gets it."""
    batch = bytes(build_batch([Record(b"k", b"v")]))
    with SyncClient(cluster.bootstrap, "test") as client:
        [found] = queries.topics(client, [topic])
        leader = found.partitions[partition].leader
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000,
            topic_data=[
                TopicProduceData(topic, found.topic_id, [PartitionProduceData(partition, batch)])
            ],
        )
        answer = client.request_node(leader, ApiKey.PRODUCE, request)
    return ErrorCode.of(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("restarts of a whole site")
@pytest.mark.parametrize("controller", [KRAFT, pytest.param(ZOOKEEPER, marks=pytest.mark.java)])
def test_a_site_that_restarts_whole_takes_records_once_the_mirror_or_an_operator_confirms(
    controller: str, tmp_path: Path, dice: random.Random, request: pytest.FixtureRequest
):
    """With the mirror up a producer only waits. Without it, topics that are copied stay read-only,
    others do not, until an operator says so with a reason. A former primary takes no record."""
    with both_sites(tmp_path, zookeeper_of(controller, request, dice)) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        create(a, "event.unmirrored")
        sites.wait_until_copying("A")
        wait_until(lambda: is_marked(a, TOPIC), "the topic says that it is copied")
        send_one(a)
        a.kill(1)
        a.restart(1)
        send_one(a)
        sites.wait_until_copying("A")
        sites.mirror.kill()
        b.kill(1)
        a.kill(1)
        a.restart(1)
        assert produce_error(a, TOPIC) is ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce_error(a, "event.unmirrored") is ErrorCode.NONE
        waits = sites.mirror.command("primary", "--json")
        assert (waits.returncode, json.loads(waits.stdout)[0]["waiting"]) == (1, [1])
        assert sites.mirror.command("primary", "--force").returncode == 1
        assert produce_error(a, TOPIC) is ErrorCode.NOT_ENOUGH_REPLICAS
        said = sites.mirror.command("primary", "--force", "--reason", "B 机房断电, seen by me")
        assert said.returncode == 0, said.stdout + said.stderr
        send_one(a)
        told = sites.mirror.command("primary", "--json")
        [first, second] = json.loads(told.stdout)
        assert (first["confirmed_by"], first["reason"]) == ("operator", "B 机房断电, seen by me")
        assert (told.returncode, first["waiting"], bool(second["error"])) == (0, [], True)
        b.restart(1)
        sites.mirror.start()
        sites.wait_until_copying("A")
        sites.wait_until_equal()
        a.kill(1)
        forced = sites.switch("B", "--force")
        assert forced.returncode == 0, forced.stdout + forced.stderr
        send_one(b)
        before = sites.ends("B")
        sites.mirror.kill()
        a.restart(1)
        assert is_read_only(a)
        refused = sites.mirror.command("primary", "--force", "--site", "A", "--reason", "mine")
        assert (refused.returncode, sites.epoch_numbers()) == (1, [0, 1])
        sites.mirror.start()
        wait_until(lambda: sites.epoch_numbers() == [1, 1], "the former primary learns of the switch")
        assert is_read_only(a)
        assert sum(sites.ends("A")) == sum(before) - 1
        b.kill(1)
        b.restart(1)
        send_one(b)  # confirmed by the mirror, whose other side says that B is the primary


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("restarts of a whole site")
def test_while_the_mirror_is_away_an_edge_that_reaches_both_sites_confirms_and_fences(tmp_path: Path):
    """The mirror's machine is under repair, and A's broker restarts; then A is lost, and returns."""
    with both_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        create(a, TOPIC, PARTITIONS)
        sites.wait_until_copying("A")
        wait_until(lambda: is_marked(a, TOPIC), "the topic says that it is copied")
        edge = EdgeOfTwoSites(
            tmp_path / "edge", a.bootstrap, second_site_bootstrap_servers=b.bootstrap
        )
        try:
            sites.mirror.kill()
            a.kill(1)
            a.restart(1)
            send_one(a)
            told = json.loads(sites.mirror.command("primary", "--json").stdout)
            assert (told[0]["confirmed_by"], told[0]["waiting"]) == ("edge", [])
            a.kill(1)
            sites.mirror.start()
            forced = sites.switch("B", "--force")
            assert forced.returncode == 0, forced.stdout + forced.stderr
            sites.mirror.kill()
            a.restart(1)
            wait_until(lambda: sites.epoch_numbers() == [1, 1], "A learns of the switch")
            assert is_read_only(a)
        finally:
            edge.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("restarts of a whole site")
@pytest.mark.parametrize("controller", [KRAFT, pytest.param(ZOOKEEPER, marks=pytest.mark.java)])
def test_brokers_that_restart_in_turn_are_not_asked_and_all_at_once_they_are(
    controller: str, tmp_path: Path, dice: random.Random, request: pytest.FixtureRequest
):
    """Each of three brokers stops or is killed, in a drawn order, with nobody there to confirm;
    then all are killed."""
    connect = zookeeper_of(controller, request, dice) or None
    controllers = 1 if controller == KRAFT else 0  # it stays: brokers alone restart
    brokers = [1, 2, 3]
    with start_cluster(
        tmp_path, 3, controller, THREE, controllers, zookeeper_connect=connect
    ) as site:
        create(site, TOPIC, PARTITIONS)
        confirm(site)
        dice.shuffle(brokers)
        for broker in brokers:
            if dice.random() < 0.5:
                site.kill(broker)
            else:
                site.terminate(broker)
            site.restart(broker)
            wait_until(lambda: members(site) == {1, 2, 3}, f"{broker} is confirmed by the others")
            wait_until_in_sync(site, TOPIC)
            for partition in range(PARTITIONS):
                assert produce_error(site, TOPIC, partition) is ErrorCode.NONE
        for broker in brokers:
            site.kill(broker)
        for broker in brokers:
            site.restart(broker)
        wait_until(lambda: members(site) == frozenset(), "nobody is confirmed")
        assert is_read_only(site)
        confirm(site)
        send_one(site)
