"""The two clusters of a comparison, behind one set of verbs.

In: a folder. Out: a running `ClusterTarget`. Never: settings that favour one of them: three copies,
two in sync, everything else as each comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from deploy.bench.targets import KAFKA, OURS
from deploy.cluster.layout import ControllerKind
from deploy.servers.databus_cluster import RunningCluster, start_cluster
from deploy.servers.kafka_cluster import KafkaCluster, start_kafka_cluster
from deploy.servers.zookeeper import start_zookeeper

NODES = (1, 2, 3)
LARGE_MACHINE_BYTES = 16 << 30
COPIES = {"default.replication.factor": "3", "min.insync.replicas": "2"}


class ClusterTarget(Protocol):
    """Three nodes under measurement, by number from 1."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    def pid(self, node_id: int) -> int:
        """The process of a node that runs."""

    def kill(self, node_id: int) -> None:
        """SIGKILL, and wait for the end."""

    def terminate(self, node_id: int) -> None:
        """SIGTERM, and wait for the end."""

    def restart(self, node_id: int) -> None:
        """The same node on its port and data; it serves when this returns."""


def memory_mb(target: ClusterTarget) -> float:
    """Resident memory of a node, on average."""
    sizes = [psutil.Process(target.pid(node_id)).memory_info().rss for node_id in NODES]
    return sum(sizes) / len(sizes) / 1_000_000


def kafka_heap() -> str:
    """1 GB as Kafka's own script gives it; half of it where three of them would not fit."""
    return "1g" if psutil.virtual_memory().total >= LARGE_MACHINE_BYTES else "512m"


class OurTarget:
    """Our brokers, as `start_cluster` starts them."""

    name = OURS

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def pid(self, node_id: int) -> int:
        return self._cluster.node(node_id).pid

    def kill(self, node_id: int) -> None:
        self._cluster.kill(node_id)

    def terminate(self, node_id: int) -> None:
        self._cluster.terminate(node_id)

    def restart(self, node_id: int) -> None:
        self._cluster.restart(node_id)


class KafkaTarget:
    """Apache Kafka's nodes."""

    name = KAFKA

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def pid(self, node_id: int) -> int:
        return self._cluster.nodes[node_id].process.pid

    def kill(self, node_id: int) -> None:
        self._cluster.kill(node_id)

    def terminate(self, node_id: int) -> None:
        self._cluster.terminate(node_id)
        self._cluster.nodes[node_id].process.wait()

    def restart(self, node_id: int) -> None:
        self._cluster.restart(node_id)


@contextmanager
def our_cluster(folder: Path, controller: ControllerKind) -> Iterator[ClusterTarget]:
    """Three brokers of this repository."""
    if controller is ControllerKind.ZOOKEEPER:
        with start_zookeeper(folder / "zookeeper") as server:
            yield from _ours(folder, controller, server.address)
    else:
        yield from _ours(folder, controller, None)


def _ours(
    folder: Path, controller: ControllerKind, zookeeper: str | None
) -> Iterator[ClusterTarget]:
    cluster = start_cluster(
        folder, len(NODES), controller.value, COPIES, zookeeper_connect=zookeeper
    )
    try:
        yield OurTarget(cluster)
    finally:
        cluster.stop()


@contextmanager
def kafka_cluster(folder: Path) -> Iterator[ClusterTarget]:
    """Three nodes of Apache Kafka 4.4, each broker and controller."""
    with start_kafka_cluster(folder, nodes=len(NODES), heap=kafka_heap()) as cluster:
        yield KafkaTarget(cluster)
