"""Which nodes a cluster on one machine has."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.cluster.layout import ControllerKind, plan
from deploy.cluster.processes import cluster_id, cluster_processes, cluster_settings
from deploy.cluster.run import about
from deploy.cluster.status import plan_of
from deploy.roles.table import DEMO, children
from deploy.settings.composed import load
from deploy.supervisor.state_file import StateFile

HOME = Path("/data")


def test_the_same_words_give_the_same_addresses() -> None:
    """Clients find the cluster again after a restart."""
    first = plan(HOME, brokers=3, controller=ControllerKind.KRAFT)
    assert first == plan(HOME, brokers=3, controller=ControllerKind.KRAFT)
    assert first.bootstrap == "127.0.0.1:9092,127.0.0.1:9102,127.0.0.1:9112"


@pytest.mark.parametrize(("brokers", "voters"), [(1, 1), (2, 1), (3, 3), (4, 3), (30, 3)])
def test_voters_are_an_odd_number(brokers: int, voters: int) -> None:
    """Every voter listens as a controller; the others are brokers alone."""
    nodes = plan(HOME, brokers=brokers, controller=ControllerKind.KRAFT).nodes
    assert sum(1 for node in nodes if node.controller_port) == voters
    for node in nodes:
        assert node.properties["controller.quorum.voters"].count("@") == voters
        assert ("controller" in node.properties["process.roles"]) == bool(node.controller_port)


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2)])
def test_topics_have_as_many_copies_as_bear_a_loss(brokers: int, copies: int, in_sync: int) -> None:
    """Three copies with two in sync, where there are three brokers."""
    for kind in ControllerKind:
        properties = plan(HOME, brokers=brokers, controller=kind).nodes[0].properties
        assert properties["default.replication.factor"] == str(copies)
        assert properties["min.insync.replicas"] == str(in_sync)


def test_no_two_processes_share_a_port() -> None:
    """Thirty brokers, their controllers, their metrics, five ZooKeepers with their peers' ports."""
    wanted = plan(HOME, brokers=30, controller=ControllerKind.ZOOKEEPER, zookeepers=5)
    ports = [port for node in wanted.nodes for port in (node.port, node.metrics_port)]
    ports += [server.port + more for server in wanted.zookeepers for more in (0, 1, 2)]
    assert len(set(ports)) == len(ports)


def test_an_ensemble_that_is_there_is_not_started_again() -> None:
    """Only its name goes into the brokers' settings."""
    named = plan(HOME, brokers=3, controller=ControllerKind.ZOOKEEPER, zookeeper_connect="z:2181")
    assert named.zookeepers == ()
    assert all(node.properties["zookeeper.connect"] == "z:2181" for node in named.nodes)


def test_the_cluster_s_id_is_made_once(tmp_path: Path) -> None:
    """Every node is formatted with it, at the first start and at every later one."""
    wanted = plan(tmp_path, brokers=3, controller=ControllerKind.KRAFT)
    made = cluster_id(wanted)
    assert (len(made), cluster_id(wanted)) == (22, made)
    for child in cluster_processes(load(None, [f"site.data_dir={tmp_path}"]), wanted):
        assert f"broker.cluster.id={made}" in child.command


def test_the_product_waits_for_every_broker_of_its_cluster(tmp_path: Path) -> None:
    """And finds all of them in its settings."""
    settings = load(None, [f"site.data_dir={tmp_path}"])
    wanted = plan(tmp_path, brokers=3, controller=ControllerKind.KRAFT)
    brokers = cluster_processes(settings, wanted)
    names = [child.name for child in brokers]
    own = children(
        cluster_settings(settings, wanted), DEMO, others=brokers, stands_for={"broker": names}
    )
    product = {child.name: child for child in own}
    assert "broker" not in product
    assert product["dispatcher"].needs == ("broker-1", "broker-2", "broker-3")
    assert f"bus.bootstrap_servers={wanted.bootstrap}" in product["edge"].command


@pytest.mark.parametrize("zookeeper_connect", ["", "z:2181"])
@pytest.mark.parametrize("controller", list(ControllerKind))
def test_status_finds_a_running_cluster_by_the_words_it_was_started_with(
    tmp_path: Path, controller: ControllerKind, zookeeper_connect: str
) -> None:
    """The arguments are in the supervisor's state; those given now take precedence."""
    wanted = plan(tmp_path, brokers=5, controller=controller, first_port=19092, zookeepers=3,
                  zookeeper_connect=zookeeper_connect, first_zookeeper_port=12181)  # fmt: skip
    state = StateFile(tmp_path, about(wanted))
    state.acquire()
    state.write({})
    assert plan_of(tmp_path, {"brokers": None}) == wanted
    assert len(plan_of(tmp_path, {"brokers": 4}).nodes) == 4
    state.release()
    assert plan_of(tmp_path, {}) == plan(tmp_path, brokers=3, controller=ControllerKind.KRAFT)
