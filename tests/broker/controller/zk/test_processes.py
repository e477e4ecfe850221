"""Three broker processes on a real ensemble of three, and their move to KRaft."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from broker.controller.decisions.quotas import Match
from broker.server.process import migrate_controller
from bus.client.wire.sync_client import SyncClient
from bus.protocol.apis import ApiKey
from bus.protocol.generated import describe_client_quotas
from deploy.errors import Unavailable
from deploy.servers.databus import BrokerStartError, spawn_broker
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.process import free_port
from deploy.servers.zookeeper import ZookeeperEnsemble, start_ensemble
from tests.broker.controller.zk.test_quotas import RECORDED

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

DEADLINE_S = 90.0
PROPERTIES = {
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "8000",
}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperEnsemble]:
    """Three real ZooKeeper servers."""
    try:
        started = start_ensemble(tmp_path_factory.mktemp("ensemble"))
    except Unavailable as missing:
        pytest.skip(str(missing))
    with started:
        yield started


@pytest.fixture
def connect(ensemble: ZookeeperEnsemble, tmp_path: Path) -> str:
    """`zookeeper.connect` with a chroot for this test and run only."""
    return f"{ensemble.address}/{tmp_path.name}"


@pytest.fixture
def cluster(connect: str, tmp_path: Path) -> Iterator[RunningCluster]:
    """Three brokers."""
    with start_cluster(
        tmp_path / "cluster", 3, "zookeeper", PROPERTIES, zookeeper_connect=connect
    ) as running:
        yield running


def until(holds: Callable[[], object], what: str) -> None:
    """Waits until it holds; fails after a generous time."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            if holds():
                return
        except KafkaException:
            pass  # between two controllers a request may fail; it is retried
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def create(bootstrap: str, topic: str, partitions: int = 3) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(DEADLINE_S)
    return admin


def new_producer(bootstrap: str) -> Producer:
    return Producer({
        "bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True,
        "message.timeout.ms": int(DEADLINE_S * 1000), "log_level": 0,
    })  # fmt: skip


def produce(
    bootstrap: str, topic: str, first: int, end: int, by: Producer | None = None
) -> set[bytes]:
    """Produces records; returns those acknowledged by all in-sync replicas."""
    acked: set[bytes] = set()
    producer = new_producer(bootstrap) if by is None else by

    def delivered(error: object, message: object) -> None:
        if error is None:
            acked.add(message.value())  # type: ignore[attr-defined]

    for number in range(first, end):
        producer.produce(topic, b"%d" % number, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    return acked


def consume(bootstrap: str, topic: str, count: int) -> set[bytes]:
    """Reads the topic's records from its start."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"reader-{topic}",
        "auto.offset.reset": "earliest", "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([topic])
    found: set[bytes] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(found) < count and time.monotonic() < deadline:
        found |= {m.value() for m in consumer.consume(500, 1.0) if m.error() is None}
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def in_sync(admin: AdminClient, topic: str, count: int) -> bool:
    partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions.values()
    return all(len(one.isrs) == count and one.leader >= 0 for one in partitions)


def controller_of(admin: AdminClient) -> int:
    return int(admin.list_topics(timeout=10).controller_id)


def test_nothing_acknowledged_is_lost_when_the_controller_is_killed(
    cluster: RunningCluster,
) -> None:
    """The killed broker is in sync again after its restart, and another is controller."""
    admin = create(cluster.bootstrap, "vehicle")
    acked = produce(cluster.bootstrap, "vehicle", 0, 500)
    first = controller_of(admin)
    cluster.kill(first)
    acked |= produce(cluster.bootstrap, "vehicle", 500, 1000)
    until(lambda: controller_of(admin) not in (-1, first), "no new controller")
    cluster.restart(first)
    until(lambda: in_sync(admin, "vehicle", 3), "the killed broker is not in sync again")
    assert len(acked) == 1000
    assert consume(cluster.bootstrap, "vehicle", 1000) == acked


def test_a_broker_whose_session_expired_leads_nothing_and_comes_back(
    cluster: RunningCluster,
) -> None:
    """After SIGSTOP past the session others lead under the next epoch, and it follows when it
    resumes."""
    admin = create(cluster.bootstrap, "paused", 6)
    victim = next(b for b in (1, 2, 3) if b != controller_of(admin))
    pid = cluster.node(victim).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        until(
            lambda: all(
                one.leader not in (-1, victim)
                for one in admin.list_topics("paused", timeout=10).topics["paused"]
                .partitions.values()
            ),
            "the paused broker still leads",
        )
        acked = produce(cluster.bootstrap, "paused", 0, 300)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: in_sync(admin, "paused", 3), "the woken broker is not in sync again")
    assert len(acked) == 300
    assert consume(cluster.bootstrap, "paused", 300) == acked


def test_an_ensemble_without_quorum_stops_no_leader_and_is_waited_for(
    tmp_path: Path,
) -> None:
    """Brokers go on serving what they lead; when ZooKeeper is back they accept changes again."""
    try:
        ensemble = start_ensemble(tmp_path / "ensemble")
    except Unavailable as missing:
        pytest.skip(str(missing))
    with ensemble, start_cluster(
        tmp_path / "cluster", 3, "zookeeper", PROPERTIES, zookeeper_connect=ensemble.address
    ) as cluster:
        admin = create(cluster.bootstrap, "t")
        producer = new_producer(cluster.bootstrap)
        assert len(produce(cluster.bootstrap, "t", 0, 100, producer)) == 100
        for index in (0, 1):
            ensemble.stop_member(index)
        assert len(produce(cluster.bootstrap, "t", 100, 200, producer)) == 100
        for index in (0, 1):
            ensemble.launch(index)
        until(lambda: _creates(admin, "after"), "no topic can be made after the outage")
        assert len(produce(cluster.bootstrap, "t", 200, 400)) == 400 - 200


def _creates(admin: AdminClient, topic: str) -> bool:
    try:
        admin.create_topics([NewTopic(topic, 1, 3)], request_timeout=5)[topic].result(10)
    except KafkaException as error:
        return error.args[0].name() == "TOPIC_ALREADY_EXISTS"
    return True


def test_a_stopping_controller_hands_everything_over_first(cluster: RunningCluster) -> None:
    """Its leaderships move and it resigns as controller before the process ends."""
    admin = create(cluster.bootstrap, "handed", 6)
    first = controller_of(admin)
    assert cluster.terminate(first) == 0
    partitions = admin.list_topics("handed", timeout=10).topics["handed"].partitions.values()
    assert all(one.leader not in (-1, first) for one in partitions)
    assert len(produce(cluster.bootstrap, "handed", 0, 100)) == 100
    assert controller_of(admin) not in (-1, first)


def test_the_directories_of_a_kafka_broker_are_taken_over_and_those_of_others_are_refused(
    cluster: RunningCluster, connect: str
) -> None:
    """`meta.properties` of Kafka 3.9 have no directory id and no epoch of the clean stop."""
    create(cluster.bootstrap, "kept")
    acked = produce(cluster.bootstrap, "kept", 0, 100)
    assert cluster.terminate(3) == 0
    logs = cluster.plan[3].directory / "logs"
    meta = logs / "meta.properties"
    ours = dict(line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
    assert (ours["version"], ours["broker.id"]) == ("0", "3")
    kafkas = f"#\nbroker.id=3\nversion=0\ncluster.id={ours['cluster.id']}\n"
    for wrong, remedy in (
        (kafkas.replace("broker.id=3", "broker.id=9"), "set broker.id or name"),
        (kafkas.replace("cluster.id=", "cluster.id=x"), "check zookeeper.connect"),
    ):
        meta.write_text(wrong)
        with pytest.raises(BrokerStartError, match=remedy):
            cluster.restart(3)
        assert meta.read_text() == wrong
    meta.write_text(kafkas)
    (logs / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    cluster.restart(3)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    until(lambda: in_sync(admin, "kept", 3), "the broker is not in sync on its directory")
    assert consume(cluster.bootstrap, "kept", 100) == acked
    assert "version=0" in meta.read_text()


def test_a_stopped_cluster_moves_to_kraft_with_its_logs(
    cluster: RunningCluster, connect: str
) -> None:
    """Topic ids, records, configurations, quotas and committed offsets stay the same."""
    admin = create(cluster.bootstrap, "moved", 4)
    acked = produce(cluster.bootstrap, "moved", 0, 400)
    assert consume(cluster.bootstrap, "moved", 400) == acked
    before = committed(cluster.bootstrap, "moved", 4)
    tool = KazooClient(hosts=connect)
    tool.start()
    tool.set("/config/topics/moved", b'{"version":1,"config":{"retention.ms":"777000"}}')
    tool.create("/config/users/cam", RECORDED)
    tool.create(
        "/config/changes/config_change_", b'{"version":2,"entity_path":"users/cam"}', sequence=True
    )
    tool.stop()
    until(lambda: quotas(cluster.bootstrap) == {"cam": 1e6}, "the quota is not taken up")
    del admin
    directories = {i: cluster.plan[i].directory for i in (1, 2, 3)}
    ports = {i: int(cluster.node(i).bootstrap.rsplit(":", 1)[1]) for i in (1, 2, 3)}
    assert migrate_controller(kraft(1, ports, {1: 1}), directories[1] / "logs", connect) == 1
    cluster.stop()
    controllers = {i: free_port() for i in (1, 2)}
    with pytest.raises(BrokerStartError, match="databus broker migrate"):
        spawn_broker(directories[1], kraft(1, ports, controllers)).wait_until_ready(60)
    for i in (1, 2, 3):
        properties = kraft(i, ports, controllers)
        assert migrate_controller(properties, directories[i] / "logs", connect) == 0
    with pytest.raises(BrokerStartError, match="moved to KRaft"):
        cluster.restart(1)
    started = [
        spawn_broker(directories[i], kraft(i, ports, controllers)) for i in (1, 2, 3)
    ]
    running = []
    try:
        running = [one.wait_until_ready(DEADLINE_S) for one in started]
        bootstrap = ",".join(one.bootstrap for one in running)
        moved = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        until(lambda: in_sync(moved, "moved", 3), "not every replica is in sync after the move")
        assert committed(bootstrap, "moved", 4) == before
        assert quotas(bootstrap) == {"cam": 1e6}
        more = produce(bootstrap, "moved", 400, 500)
        assert len(more) == 100
        consumer = Consumer({
            "bootstrap.servers": bootstrap, "group.id": "afterwards",
            "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        consumer.subscribe(["moved"])
        found: set[bytes] = set()
        until(
            lambda: found.update(m.value() for m in consumer.consume(500, 1.0) if not m.error())
            or len(found) == 500,
            "not all records are there after the move",
        )
        consumer.close()
        assert found == acked | more
    finally:
        for one in running or started:
            one.process.terminate()
        for one in running or started:
            one.process.wait(30)


def kraft(node_id: int, ports: dict[int, int], controllers: dict[int, int]) -> dict[str, str]:
    """A node's properties after the move: all are brokers, those in `controllers` also
    controllers."""
    role = "broker,controller" if node_id in controllers else "broker"
    listeners = f"PLAINTEXT://127.0.0.1:{ports[node_id]}"
    if node_id in controllers:
        listeners += f",CONTROLLER://127.0.0.1:{controllers[node_id]}"
    return PROPERTIES | {
        "node.id": str(node_id),
        "metrics.port": "0",
        "process.roles": role,
        "listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(
            f"{i}@127.0.0.1:{port}" for i, port in sorted(controllers.items())
        ),
    }


def quotas(bootstrap: str) -> dict[str, float]:
    """The users' producer quotas, as a broker returns them."""
    anybody = describe_client_quotas.ComponentData("user", Match.ANY, None)
    request = describe_client_quotas.DescribeClientQuotasRequest([anybody], strict=True)
    with SyncClient(bootstrap, "test") as nodes:
        answer = nodes.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    return {
        one.entity[0].entity_name: value.value
        for one in answer.entries
        for value in one.values
        if value.key == "producer_byte_rate"
    }


def committed(bootstrap: str, topic: str, partitions: int) -> list[int]:
    """The offsets that the group has committed."""
    consumer = Consumer({
        "bootstrap.servers": bootstrap, "group.id": f"reader-{topic}", "log_level": 0,
    })  # fmt: skip
    asked = [TopicPartition(topic, index) for index in range(partitions)]
    found = [one.offset for one in consumer.committed(asked, timeout=DEADLINE_S)]
    consumer.close()
    return found
