"""The raw client and what operators ask and change, on three real brokers."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from bus.client.admin import commands, queries
from bus.client.admin.commands import ElectionType
from bus.client.admin.config_resources import BROKER, BROKER_LOGGER, AlterConfigOp
from bus.client.admin.metadata_log import MetadataLogReader
from bus.client.admin.reassignment_json import read_plan
from bus.client.wire.ports import Address, addresses
from bus.client.wire.sync_client import SyncClient, SyncConnection
from bus.errors import BusError, ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from bus.settings import BusSettings, SiteSettings
from deploy.cli import mount_commands
from deploy.servers.databus_cluster import RunningCluster, start_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(240),
    pytest.mark.xdist_group("operate-cluster"),
]
SETTLED_S = 90.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """Three brokers in three racks, each with two log directories."""
    folder = tmp_path_factory.mktemp("operate")
    own = {
        node: {"broker.rack": f"rack-{node}", "log.dirs": f"{folder}/{node}-a,{folder}/{node}-b"}
        for node in (1, 2, 3)
    }
    with start_cluster(folder, 3, node_properties=own) as running:
        yield running


@pytest.fixture
def nodes(cluster: RunningCluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap, "test") as made:
        yield made


@pytest.fixture
def topic() -> str:
    """A name of one's own, in a second try too."""
    return f"operate-{next(_numbers)}"


Run = Callable[..., Result]


@pytest.fixture(scope="module")
def run(cluster: RunningCluster) -> Run:
    """Run words as `databus` would."""
    app = typer.Typer()
    mount_commands(app, lambda row: row.module.startswith("bus.cli."))
    settings = SimpleNamespace(
        bus=BusSettings(bootstrap_servers=cluster.bootstrap), site=SiteSettings()
    )

    def run(words: str, *, fails: bool = False) -> Result:
        done = CliRunner().invoke(app, words.split(), obj=settings)
        assert (done.exit_code != 0) is fails, done.output
        return done

    return run


def until(found: Callable[[], Any], what: str) -> Any:
    """Ask again until it is so."""
    end = time.monotonic() + SETTLED_S
    while not (answer := found()):
        assert time.monotonic() < end, what
        time.sleep(0.05)
    return answer


def replicas_of(nodes: SyncClient, topic: str) -> list[tuple[int, ...]]:
    return [partition.replicas for partition in queries.topics(nodes, [topic])[0].partitions]


def known(nodes: SyncClient, topic: str) -> list[tuple[int, ...]]:
    """Like `replicas_of`, but empty while the broker does not know the topic yet."""
    return replicas_of(nodes, topic) if topic in {t.name for t in queries.topics(nodes)} else []


def test_every_broker_is_seen_with_its_rack_and_asked_by_its_id(
    nodes: SyncClient, cluster: RunningCluster
):
    def all_three() -> Any:
        seen = queries.cluster(nodes)  # a busy machine has let one miss its heartbeats
        return seen if len(seen.alive) == 3 else None

    found = until(all_three, "three brokers alive")
    assert found.cluster_id == cluster.cluster_id
    assert [(b.broker_id, b.rack) for b in found.alive] == [(n, f"rack-{n}") for n in (1, 2, 3)]
    for broker in (1, 2, 3):
        (entry,) = [e for e in queries.configs(nodes, BROKER, str(broker)) if e.name == "node.id"]
        assert entry.value == str(broker)


def test_a_broker_that_is_not_there_is_an_error_with_its_id(nodes: SyncClient):
    with pytest.raises(BusError, match="no broker 9") as raised:
        queries.log_dirs(nodes, 9)
    assert raised.value.code is ErrorCode.BROKER_NOT_AVAILABLE


def test_the_next_bootstrap_server_is_tried_when_one_is_away(cluster: RunningCluster):
    with SyncClient(f"127.0.0.1:1,{cluster.bootstrap}", "test") as nodes:
        assert len(queries.cluster(nodes).brokers) == 3


def test_nobody_there_is_told_and_an_address_is_checked():
    with pytest.raises(BusError) as raised:
        SyncClient("127.0.0.1:1", "test").request(ApiKey.METADATA, MetadataRequest())
    assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(BusError, match="host:port"):
        addresses("somewhere")
    assert addresses("a:1, [::1]:2") == [Address("a", 1), Address("::1", 2)]


def test_what_nobody_serves_is_unsupported(cluster: RunningCluster):
    connection = SyncConnection(addresses(cluster.bootstrap)[0], "test")
    assert not connection.supports(ApiKey.SHARE_FETCH)
    with pytest.raises(BusError) as raised:
        connection.request(ApiKey.SHARE_FETCH, object())
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION
    connection.close()


def test_topics_are_made_grown_and_deleted(nodes: SyncClient, topic: str):
    commands.create_topic(nodes, topic, partitions=2, replication_factor=3)
    whole = until(lambda: known(nodes, topic), "the topic is not known")
    assert all(sorted(replicas) == [1, 2, 3] for replicas in whole)
    commands.add_partitions(nodes, topic, 3, [[2, 3, 1]])
    until(lambda: replicas_of(nodes, topic)[2:] == [(2, 3, 1)], "the topic has not grown")
    with pytest.raises(BusError) as raised:
        commands.create_topic(nodes, topic)
    assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    commands.delete_topic(nodes, topic)
    with pytest.raises(BusError) as raised:
        until(lambda: queries.topics(nodes, [topic]) is None, "the topic stayed")
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_quorum_and_its_log_tell_of_a_new_topic(nodes: SyncClient, topic: str):
    """The metadata log is read from the active controller, as an observer would."""
    quorum = queries.quorum(nodes)
    assert len(quorum.voters) == 3
    assert set(quorum.endpoints) == {1, 2, 3}
    tail = MetadataLogReader(nodes)
    commands.create_topic(nodes, topic, partitions=2, replication_factor=2)
    seen: list[tuple[str, Any]] = []

    def topic_logged() -> bool:
        page = tail.read()
        seen.extend((one.kind, one.record) for one in page.records)
        return any(kind == "TopicRecord" and one.name == topic for kind, one in seen)

    until(topic_logged, "the log did not tell of the topic")
    tail.close()
    assert seen[0][0] == "FeatureLevelRecord"


def test_verbs_plan_move_verify_and_elect(run: Run, nodes: SyncClient, topic: str, tmp_path: Any):
    """A skewed topic is evened out, throttled while it moves, and the throttles are removed."""
    run(f"topics create {topic} --assignment 1:2,1:2,1:2")
    until(lambda: known(nodes, topic), "the topic is not known")
    plan = tmp_path / "plan.json"
    result = run(f"reassign plan --topic {topic} --out {plan}")
    assert "replicas to copy" in result.output
    wanted = read_plan(plan.read_text())
    run(f"reassign apply {plan} --throttle 50MB")
    verified = run(f"reassign verify {plan}")
    assert "moving" not in verified.output
    assert "not as planned" not in verified.output
    then = [tuple(wanted.get((topic, index), [1, 2])) for index in range(3)]
    until(lambda: replicas_of(nodes, topic) == then, "not everybody heard of the move")

    def throttles() -> set[str]:
        return {
            entry.name
            for broker in (1, 2, 3)
            for entry in queries.configs(nodes, BROKER, str(broker))
            if entry.source == 2 and "throttled" in entry.name
        }

    until(lambda: not throttles(), "the throttles are still set")
    run(f"leaders elect {topic}-0 {topic}-1 {topic}-2")
    until(
        lambda: [p.leader for p in queries.topics(nodes, [topic])[0].partitions]
        == [replicas[0] for replicas in then],
        "not led by the first replicas",
    )
    assert "nothing of it moves" in run(f"reassign cancel {plan} --yes").output
    assert "the way back" in run(f"reassign apply {plan}.rollback").output
    until(lambda: replicas_of(nodes, topic) == [(1, 2)] * 3, "the way back was not gone")


def test_verbs_move_replicas_to_the_directories_a_plan_names(
    run: Run, nodes: SyncClient, topic: str, tmp_path: Any
):
    """One moves within its broker, one to a directory of a broker without a replica."""
    run(f"topics create {topic} --assignment 1:2")
    until(lambda: known(nodes, topic), "the topic is not known")
    place = (topic, 0)

    def home(broker: int) -> str | None:
        return next((d.path for d in queries.log_dirs(nodes, broker) if place in d.replicas), None)

    present = until(lambda: home(1), "broker 1 has no replica")
    other = next(d.path for d in queries.log_dirs(nodes, 1) if d.path != present)
    third = queries.log_dirs(nodes, 3)[1].path
    row = {"topic": topic, "partition": 0, "replicas": [1, 3], "log_dirs": [other, third]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [row]}))
    assert "not as planned" in run(f"reassign verify {plan}", fails=True).output
    run(f"reassign apply {plan} --throttle 50MB")
    until(lambda: (home(1), home(3)) == (other, third), "the replicas are elsewhere")
    verified = json.loads(run(f"reassign verify {plan} --json").output)
    assert [one["state"] for one in verified] == ["done"] * 3
    assert verified[1]["partition"] == f"{topic}-0 on 1"
    row["log_dirs"] = ["/nowhere", "any"]
    plan.write_text(json.dumps({"partitions": [row]}))
    assert "LOG_DIR_NOT_FOUND" in run(f"reassign apply {plan}", fails=True).output


def test_verbs_refuse_what_cannot_be_and_say_what_to_do(run: Run, topic: str, tmp_path: Any):
    assert "databus topics list" in run("reassign plan --topic nowhere", fails=True).output
    assert "may be used" in run("reassign plan --replication-factor 4", fails=True).output
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1, "partitions": [{"topic": "a", "partition": 0}]}')
    assert "list of broker ids" in run(f"reassign verify {bad}", fails=True).output
    assert "is not like 50MB" in run(f"reassign apply {bad} --throttle fast", fails=True).output
    assert "no more replicas" in run(f"topics create {topic} --replication-factor 4",
                                     fails=True).output  # fmt: skip
    assert "say --all" in run("leaders elect", fails=True).output
    assert "databus brokers list" in run("brokers describe 9", fails=True).output
    assert "quorum describe" in run("quorum add 9 --endpoint CONTROLLER://h:1", fails=True).output


def test_scripts_get_names_without_spaces_and_numbers_as_numbers(run: Run):
    rows = json.loads(run("brokers list --json").output)
    assert [row["broker"] for row in rows] == [1, 2, 3]
    assert set(rows[0]) >= {"address", "rack", "roles", "leads", "not_in_sync", "size_bytes"}
    quorum = json.loads(run("quorum describe --json").output)
    assert {node["role"] for node in quorum["nodes"]} == {"leader", "voter"}
    assert all(isinstance(node["log_end"], int) for node in quorum["nodes"])
    moves = json.loads(run("reassign list --json").output)
    assert moves == []


def test_configurations_are_set_where_they_belong(run: Run, nodes: SyncClient):
    """On all brokers, on one, on one broker's logs; and taken back."""
    run("configs set brokers - log.cleaner.threads=2")
    run("configs set broker 2 log.cleaner.threads=3")

    def values(broker: str) -> dict[str, str | None]:
        return {e.name: e.value for e in queries.configs(nodes, BROKER, broker)}

    until(lambda: values("2")["log.cleaner.threads"] == "3", "not set on broker 2")
    until(lambda: values("1")["log.cleaner.threads"] == "2", "not set on all")
    run("configs unset broker 2 log.cleaner.threads")
    run("configs unset brokers - log.cleaner.threads")
    until(lambda: values("2")["log.cleaner.threads"] == "1", "not taken back")
    run("configs set logger 3 broker.replica=DEBUG")
    assert "DEBUG" in run("configs get logger 3 --word replica").output
    assert "DEBUG" not in run("configs get logger 1 --word replica").output
    commands.alter_configs(
        nodes, {(BROKER_LOGGER, "3"): [("broker.replica", AlterConfigOp.DELETE, None)]}
    )


def test_a_dead_broker_is_a_row_and_its_partitions_are_named(
    run: Run, nodes: SyncClient, cluster: RunningCluster, topic: str
):
    """And when it is back, an election gives its partitions back to it."""
    commands.create_topic(nodes, topic, assignment={0: [3, 1, 2]})
    until(lambda: known(nodes, topic), "the topic is not known")
    cluster.kill(3)
    until(lambda: queries.topics(nodes, [topic])[0].partitions[0].leader in (1, 2), "no new leader")
    until(lambda: topic in run("topics describe --under-replicated").output, "still whole")
    fenced = {1: False, 2: False, 3: True}
    until(
        lambda: {b.broker_id: b.fenced for b in queries.cluster(nodes).brokers} == fenced,
        "broker 3 is not fenced",
    )
    until(lambda: "fenced" in run("brokers list").output, "the table does not show it")
    cluster.restart(3)
    until(lambda: not queries.topics(nodes, [topic])[0].partitions[0].under_replicated, "not whole")
    outcomes = commands.elect(nodes, ElectionType.PREFERRED, [(topic, 0)])
    assert [one.code for one in outcomes] in ([ErrorCode.NONE], [ErrorCode.ELECTION_NOT_NEEDED])
    until(lambda: queries.topics(nodes, [topic])[0].partitions[0].leader == 3, "not led by 3")
