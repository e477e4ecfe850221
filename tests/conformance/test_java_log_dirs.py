"""Kafka's own tools (4.4) move replicas between the log directories of our brokers, also if the
broker is killed in the middle of a move."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.kafka import run_tool
from deploy.servers.zookeeper import start_ensemble
from tests.rotation import drawn

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("log-dirs"),
]
TOOL_TIMEOUT_S = 120
SETTLED_S = 120.0
RECORDS, VALUE = 3000, bytes(1000)
SLOW = "100000"
"""Bytes per second. The first ten seconds' worth passes immediately, because of Kafka's rate
windows; the rest of the three megabytes is slow enough for a kill in the middle."""

_numbers = itertools.count(1)
"""For names that no test has used before, not even in an earlier attempt."""


@pytest.fixture(scope="module", params=drawn("cluster of the directories", ["kraft", "zookeeper"]))
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningCluster]:
    """Two brokers with two log directories each."""
    folder = tmp_path_factory.mktemp(f"dirs-{request.param}")
    properties = {"log.segment.delete.delay.ms": "0"}
    own = {node: {"log.dirs": f"{folder}/{node}-a,{folder}/{node}-b"} for node in (1, 2)}
    if request.param == "kraft":
        with start_cluster(folder, 2, properties=properties, node_properties=own) as running:
            yield running
        return
    with (
        start_ensemble(folder / "zookeeper") as ensemble,
        start_cluster(
            folder, 2, controller="zookeeper", properties=properties, node_properties=own,
            zookeeper_connect=ensemble.address,
        ) as running,
    ):  # fmt: skip
        yield running


@pytest.fixture
def tool(cluster: RunningCluster, tmp_path: Path) -> Callable[..., str]:
    """Runs a tool; returns its output."""

    def run(name: str, *words: str) -> str:
        words = ("--bootstrap-server", cluster.bootstrap, *words)
        done = run_tool(name, list(words), folder=tmp_path, timeout_s=TOOL_TIMEOUT_S)
        text = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0, f"{name} {words}: {text}\n{cluster.logs()}"
        return text

    return run


def until(ask: Callable[[], str], found: Callable[[str], bool]) -> str:
    """Repeats until the answer is the expected one."""
    end = time.monotonic() + SETTLED_S
    while not found(text := ask()):
        assert time.monotonic() < end, text
    return text


def plan(tmp_path: Path, topic: str, replicas: list[int], log_dirs: list[str]) -> str:
    """Writes a plan with named directories."""
    row = {"topic": topic, "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": [row]}))
    return str(path)


def home_of(cluster: RunningCluster, node: int, topic: str) -> str:
    """The directory in which a broker has the partition: a or b."""
    root = Path(cluster.plan[node].properties["log.dirs"].split(",")[0][:-2])
    (found,) = [letter for letter in "ab" if Path(f"{root}-{letter}/{topic}-0").is_dir()]
    return found


def path_of(cluster: RunningCluster, node: int, letter: str) -> str:
    return cluster.plan[node].properties["log.dirs"].split(",")["ab".index(letter)]


def fill(cluster: RunningCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(RECORDS):
        producer.produce(topic, VALUE, key=str(number), partition=0)
    assert producer.flush(SETTLED_S) == 0


def read_all(cluster: RunningCluster, topic: str) -> list[str]:
    """The keys of all records, in order."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    keys: list[str] = []
    end = time.monotonic() + SETTLED_S
    while len(keys) < RECORDS and time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            keys.append((message.key() or b"").decode())
    consumer.close()
    return keys


def test_a_replica_moves_and_another_is_made_in_the_directory_named(
    tool: Callable[..., str], cluster: RunningCluster, tmp_path: Path
) -> None:
    """`--execute` with "log_dirs" moves broker 1's replica to its other directory under a throttle,
    though broker 1 is killed, and creates broker 2's in the requested one. Nothing is lost."""
    topic = f"dirs-{next(_numbers)}"
    tool("kafka-topics", "--create", "--topic", topic, "--replica-assignment", "1")
    fill(cluster, topic)
    goal = "b" if home_of(cluster, 1, topic) == "a" else "a"
    file = plan(tmp_path, topic, [1, 2], [path_of(cluster, 1, goal), path_of(cluster, 2, "b")])
    begun = tool("kafka-reassign-partitions", "--reassignment-json-file", file, "--execute",
                 "--replica-alter-log-dirs-throttle", SLOW)  # fmt: skip
    started = "Successfully started moving log directory to"
    assert f"{started} {path_of(cluster, 1, goal)} for replica {topic}-0 with broker 1" in begun

    future = Path(path_of(cluster, 1, goal))
    until(lambda: " ".join(str(p) for p in future.glob(f"{topic}-0.*-future/*.log")),
          lambda text: any(Path(p).stat().st_size for p in text.split()))  # fmt: skip
    cluster.kill(1)
    assert list(future.glob(f"{topic}-0.*-future"))
    assert home_of(cluster, 1, topic) != goal
    cluster.restart(1)

    verified = until(
        lambda: tool("kafka-reassign-partitions", "--reassignment-json-file", file, "--verify"),
        lambda text: "still in progress" not in text and "is completed" in text,
    )
    assert re.search(rf"Reassignment of replica {topic}-0-1 completed successfully", verified)
    assert home_of(cluster, 1, topic) == goal
    assert home_of(cluster, 2, topic) == "b"
    described = json.loads(
        next(
            line
            for line in tool("kafka-log-dirs", "--describe", "--topic-list", topic).splitlines()
            if line.startswith("{")
        )
    )
    held = [one["partitions"] for broker in described["brokers"] for one in broker["logDirs"]]
    assert [(p["partition"], p["isFuture"]) for found in held for p in found] == [
        (f"{topic}-0", False)
    ] * 2
    assert read_all(cluster, topic) == [str(number) for number in range(RECORDS)]
