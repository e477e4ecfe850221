"""Kafka's own administration tools (4.4), unmodified, against three brokers of ours.

The file uses one cluster of each kind; every test has its own topics. Tools run one after the
other: each is a Java process.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.kafka import run_tool
from deploy.servers.zookeeper import start_ensemble
from tests.rotation import drawn

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("cluster-tools"),
]
TOOL_TIMEOUT_S = 120
SETTLED_S = 90.0
PROPERTIES = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "log.segment.delete.delay.ms": "0",
}
RACKS = {node: {"broker.rack": f"rack-{node}"} for node in (1, 2, 3)}

Tool = Callable[..., str]
_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=drawn("cluster of the tools", ["kraft", "zookeeper"]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Three brokers that are voters themselves or use an ensemble of three."""
    folder = tmp_path_factory.mktemp(f"tools-{request.param}")
    if request.param == "kraft":
        with start_cluster(folder, 3, properties=PROPERTIES, node_properties=RACKS) as running:
            yield running
        return
    with (
        start_ensemble(folder / "zookeeper") as ensemble,
        start_cluster(
            folder, 3, controller="zookeeper", properties=PROPERTIES, node_properties=RACKS,
            zookeeper_connect=ensemble.address,
        ) as running,
    ):  # fmt: skip
        yield running


@pytest.fixture
def is_kraft(request: pytest.FixtureRequest) -> bool:
    """Whether the cluster is a KRaft one."""
    return bool(request.node.callspec.params["cluster"] == "kraft")


@pytest.fixture
def tool(cluster: RunningCluster, tmp_path: Path) -> Tool:
    """Runs a tool; returns its output. It must fail if `fails`, and succeed otherwise."""

    def run(name: str, *words: str, fails: bool = False, where: str = "") -> str:
        address = [] if where == "none" else ["--bootstrap-server", cluster.bootstrap]
        if where == "controllers":
            address = ["--bootstrap-controller", cluster.controller_bootstrap]
        done = run_tool(name, [*address, *words], folder=tmp_path, timeout_s=TOOL_TIMEOUT_S)
        text = done.stdout.decode() + done.stderr.decode()
        assert (done.returncode != 0) is fails, f"{name} {words}: {text}\n{cluster.logs()}"
        return text

    return run


@pytest.fixture
def topic() -> str:
    """A name that no test has used before, not even in an earlier attempt."""
    return f"tools-{next(_numbers)}"


def until(ask: Callable[[], str], found: Callable[[str], bool]) -> str:
    """Repeats until the answer is the expected one."""
    end = time.monotonic() + SETTLED_S
    while not found(text := ask()):
        assert time.monotonic() < end, text
    return text


def plan(tmp_path: Path, topic: str, *replicas: list[int]) -> str:
    """Writes a file of reassignments."""
    rows = [{"topic": topic, "partition": i, "replicas": r} for i, r in enumerate(replicas)]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def test_kafka_topics_creates_describes_grows_and_deletes_replicated_topics(
    tool: Tool, topic: str
) -> None:
    """Covers replicas in every rack, the filters of describe, and a refusal with Kafka's
    message."""
    tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3",
         "--replication-factor", "3", "--config", "min.insync.replicas=2")
    described = tool("kafka-topics", "--describe", "--topic", topic)
    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    assert "min.insync.replicas=2" in described
    leaders = re.findall(r"Leader: (\d)\tReplicas: (\d),\d,\d\tIsr: \d,\d,\d", described)
    assert sorted(leader for leader, _ in leaders) == ["1", "2", "3"]
    assert all(leader == first for leader, first in leaders)
    for flag in ("--under-replicated-partitions", "--unavailable-partitions",
                 "--under-min-isr-partitions"):  # fmt: skip
        assert topic not in tool("kafka-topics", "--describe", flag)
    tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "4")
    refused = tool("kafka-topics", "--create", "--topic", f"{topic}-four", "--partitions", "1",
                   "--replication-factor", "4", fails=True)  # fmt: skip
    assert "replication factor" in refused.lower()
    tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool("kafka-topics", "--list").split()


def test_kafka_reassign_partitions_generates_executes_verifies(
    tool: Tool, topic: str, tmp_path: Path
) -> None:
    """Throttles are set during the move and removed by the verification."""
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1:2,1:2")
    wanted = tmp_path / "topics.json"
    wanted.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))
    proposed = tool("kafka-reassign-partitions", "--topics-to-move-json-file", str(wanted),
                    "--broker-list", "2,3", "--generate")  # fmt: skip
    assert "Proposed partition reassignment configuration" in proposed
    file = plan(tmp_path, topic, [2, 3], [3, 1, 2])
    begun = tool("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute",
                 "--throttle", "50000000")  # fmt: skip
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in begun
    until(
        lambda: tool("kafka-reassign-partitions", "--reassignment-json-file", file, "--verify"),
        lambda text: text.count("is completed") == 2,
    )
    described = tool("kafka-topics", "--describe", "--topic", topic)
    assert re.search(r"Partition: 0\tLeader: [23]\tReplicas: 2,3\tIsr: (2,3|3,2)", described)
    assert "Replicas: 3,1,2" in described
    assert "throttled" not in tool("kafka-configs", "--describe", "--entity-type", "brokers")
    again = tool("kafka-reassign-partitions", "--reassignment-json-file", file, "--cancel")
    assert "None of the specified partition reassignments are active" in again
    assert "No partition reassignments found" in tool("kafka-reassign-partitions", "--list")


def test_kafka_leader_election_prefers_and_tells_what_is_not_needed(
    tool: Tool, topic: str, cluster: RunningCluster
) -> None:
    """After a broker's absence others lead its partitions until an election is requested."""
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "3:1:2")
    assert cluster.terminate(3) == 0
    cluster.restart(3)

    def describe() -> str:
        return tool("kafka-topics", "--describe", "--topic", topic)

    until(describe, lambda text: bool(re.search(r"Isr: (?=[\d,]*3)\d,\d,\d", text)))
    elect = ("kafka-leader-election", "--election-type", "preferred")
    tool(*elect, "--topic", topic, "--partition", "0")
    assert "Leader: 3" in until(describe, lambda text: "Leader: 3" in text)
    again = tool(*elect, "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in again
    tool(*elect, "--all-topic-partitions")
    unclean = tool("kafka-leader-election", "--election-type", "unclean",
                   "--topic", topic, "--partition", "0")  # fmt: skip
    assert "already elected" in unclean


def test_kafka_configs_on_topics_brokers_defaults_and_clients(tool: Tool, topic: str) -> None:
    """It shows the source of a value; changes of fixed keys are refused."""
    tool("kafka-topics", "--create", "--topic", topic, "--replication-factor", "3")
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool("kafka-configs", "--alter", *entity,
         "--add-config", "retention.ms=5000,cleanup.policy=[delete,compact]")
    described = tool("kafka-configs", "--describe", *entity)
    assert "retention.ms=5000" in described
    assert "cleanup.policy=delete,compact" in described
    tool("kafka-configs", "--alter", *entity, "--delete-config", "retention.ms")
    assert "retention.ms=5000" not in tool("kafka-configs", "--describe", *entity)
    brokers = ("--entity-type", "brokers")
    tool("kafka-configs", "--alter", *brokers, "--entity-default",
         "--add-config", "log.cleaner.threads=2")
    tool("kafka-configs", "--alter", *brokers, "--entity-name", "2",
         "--add-config", "log.cleaner.threads=3")
    both = until(
        lambda: tool("kafka-configs", "--describe", *brokers, "--entity-name", "2"),
        lambda text: "DYNAMIC_BROKER_CONFIG:log.cleaner.threads=3" in text,
    )
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleaner.threads=2" in both
    refused = tool("kafka-configs", "--alter", *brokers, "--entity-name", "2",
                   "--add-config", "node.id=7", fails=True)  # fmt: skip
    assert "node.id" in refused
    clients = ("--entity-type", "clients", "--entity-name", "c1")
    limit = ("--add-config", "producer_byte_rate=100000")
    tool("kafka-configs", "--alter", *clients, *limit)
    quotas = until(
        lambda: tool("kafka-configs", "--describe", "--entity-type", "clients"),
        lambda text: "producer_byte_rate=100000" in text,
    )
    assert "c1" in quotas
    both = ("--entity-type", "users", "--entity-name", "cam", "--entity-type", "clients")
    tool("kafka-configs", "--alter", *both, "--entity-default",
         "--add-config", "request_percentage=12.5")
    until(
        lambda: tool("kafka-configs", "--describe", *both),
        lambda text: "request_percentage=12.5" in text,
    )
    tool("kafka-configs", "--describe", "--entity-type", "users")


def test_kafka_configs_changes_the_level_of_a_running_brokers_log(
    tool: Tool, cluster: RunningCluster
) -> None:
    """The level changes on that broker only."""
    def describe(broker: str) -> str:
        return tool("kafka-configs", "--describe", "--entity-type", "broker-loggers",
                    "--entity-name", broker)  # fmt: skip

    tool("kafka-configs", "--alter", "--entity-type", "broker-loggers", "--entity-name", "2",
         "--add-config", "broker.replica=DEBUG")
    assert "broker.replica=DEBUG" in describe("2")
    assert "broker.replica=INFO" in describe("1")
    tool("kafka-configs", "--alter", "--entity-type", "broker-loggers", "--entity-name", "2",
         "--delete-config", "broker.replica")
    assert "broker.replica=INFO" in describe("2")


def test_kafka_metadata_quorum_describes_voters_at_either_listener(
    tool: Tool, is_kraft: bool
) -> None:
    """ZooKeeper mode has no quorum, and the tool gets the same answer as from Kafka 3.9."""
    if not is_kraft:
        refused = tool("kafka-metadata-quorum", "describe", "--status", fails=True)
        assert "UnsupportedVersion" in refused
        return
    status = tool("kafka-metadata-quorum", "describe", "--status")
    assert re.search(r"LeaderId:\s+[123]\n", status)
    assert status.count("CONTROLLER://") == 3
    assert tool("kafka-metadata-quorum", "describe", "--status", where="controllers")
    replication = tool("kafka-metadata-quorum", "describe", "--replication")
    assert replication.count("Follower") == 2
    assert replication.count("Leader") == 1


def test_kafka_log_dirs_and_cluster_and_api_versions(
    tool: Tool, topic: str, cluster: RunningCluster, is_kraft: bool
) -> None:
    """They show the replicas' directories, the brokers and their API versions."""
    tool("kafka-topics", "--create", "--topic", topic, "--replication-factor", "3")
    told = tool("kafka-log-dirs", "--describe", "--broker-list", "1,3", "--topic-list", topic)
    found = json.loads(next(line for line in told.splitlines() if line.startswith("{")))
    assert [one["broker"] for one in found["brokers"]] == [1, 3]
    assert all(
        place["error"] is None and place["partitions"][0]["partition"] == f"{topic}-0"
        for one in found["brokers"]
        for place in one["logDirs"]
    )
    words = ("--bootstrap-server", cluster.bootstrap)
    assert cluster.cluster_id in tool("kafka-cluster", "cluster-id", *words, where="none")
    endpoints = tool("kafka-cluster", "list-endpoints", *words, where="none")
    assert endpoints.count("broker") >= 3
    assert "rack-2" in endpoints
    if is_kraft:
        at_controllers = ("--bootstrap-controller", cluster.controller_bootstrap)
        listed = tool("kafka-cluster", "list-endpoints", *at_controllers, where="none")
        assert listed.count("controller") >= 3
    versions = tool("kafka-broker-api-versions")
    assert versions.count("ElectLeaders(43): 0 to 2") == 3


def test_kafka_features_describes_and_changes_a_feature(tool: Tool, is_kraft: bool) -> None:
    """It shows the finalised levels of a KRaft cluster; an unsafe downgrade is refused."""
    described = tool("kafka-features", "describe")
    if not is_kraft:
        return
    assert re.search(r"metadata\.version\s+.*FinalizedVersionLevel: 4\.4-IV2", described)
    feature = "eligible.leader.replicas.version"
    tool("kafka-features", "downgrade", "--feature", f"{feature}=0")
    assert re.search(rf"{feature}.*FinalizedVersionLevel: 0", tool("kafka-features", "describe"))
    tool("kafka-features", "upgrade", "--feature", f"{feature}=1")
    assert re.search(rf"{feature}.*FinalizedVersionLevel: 1", tool("kafka-features", "describe"))
    refused = tool("kafka-features", "downgrade", "--feature", "metadata.version=21", fails=True)
    assert "1 out of 1 operation(s) failed" in refused
