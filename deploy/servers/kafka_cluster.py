"""Three (or more) Apache Kafka 4.4 nodes, KRaft, each broker and controller: what ours is compared
with.

In: a folder of its own. Out: a running cluster; nodes can be killed, ended, paused, started again.
Never: used by the product itself; a signal to a process it did not start.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deploy.servers.kafka import format_storage, launch_broker, new_cluster_id, started
from deploy.servers.process import JavaServer, free_port
from deploy.setup.server_jars import kafka_jars

HEAP = "512m"  # three of them beside each other; Kafka's own script gives a single one 1 GB


@dataclass(slots=True)
class KafkaCluster:
    """The nodes by number, from 1."""

    folder: Path
    heap: str
    nodes: dict[int, JavaServer]

    @property
    def bootstrap(self) -> str:
        """Every node, comma separated."""
        return ",".join(node.address for node in self.nodes.values())

    def kill(self, node_id: int) -> None:
        """SIGKILL, and wait for the end."""
        self.nodes[node_id].process.kill()
        self.nodes[node_id].process.wait()

    def terminate(self, node_id: int) -> None:
        """SIGTERM: a controlled shutdown; not awaited."""
        self.nodes[node_id].process.send_signal(signal.SIGTERM)

    def restart(self, node_id: int) -> None:
        """The same node on its port and data; serves when this returns."""
        old = self.nodes[node_id]
        old.process.wait()
        new = launch_broker(old.folder, old.port, self.heap)
        self.nodes[node_id] = new.wait_until(lambda: started(new))

    def stop(self) -> None:
        """End all of them, together."""
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.process.terminate()
        for node in self.nodes.values():
            node.stop()

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_kafka_cluster(
    folder: Path,
    *,
    nodes: int = 3,
    heap: str = HEAP,
    settings: Mapping[str, str] | None = None,
) -> KafkaCluster:
    """A formatted cluster whose nodes all serve."""
    jars, cluster_id = kafka_jars(), new_cluster_id()
    ports = {number: (free_port(), free_port()) for number in range(1, nodes + 1)}
    voters = ",".join(f"{number}@127.0.0.1:{own[1]}" for number, own in ports.items())
    cluster = KafkaCluster(folder, heap, {})
    try:
        for number, (port, controller) in ports.items():
            home = folder / f"node-{number}"
            home.mkdir(parents=True, exist_ok=True)
            values = {**_properties(home, number, port, controller, voters), **(settings or {})}
            properties = home / "server.properties"
            properties.write_text("".join(f"{k}={v}\n" for k, v in values.items()), "utf-8")
            format_storage(properties, jars, cluster_id)
            cluster.nodes[number] = launch_broker(home, port, heap)
        for node in cluster.nodes.values():
            node.wait_until(partial(started, node))
    except BaseException:
        cluster.stop()
        raise
    return cluster


def _properties(home: Path, number: int, port: int, controller: int, voters: str) -> dict[str, str]:
    """Kafka's defaults; only what three copies need."""
    return {
        "process.roles": "broker,controller",
        "node.id": str(number),
        "controller.quorum.voters": voters,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(home / "data"),
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "group.initial.rebalance.delay.ms": "0",
    }
