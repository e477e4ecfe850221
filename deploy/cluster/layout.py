"""Which nodes a cluster on one machine has, on which ports, with which of Kafka's keys. Pure.

In: how many, which controller, the first port, a folder. Out: a `ClusterPlan`. Never: a free port:
the same words give the same addresses every time, so that clients find the cluster again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

HOST = "127.0.0.1"
FIRST_PORT = 9092
DEFAULT_BROKERS = 3
PORT_STEP = 10  # node 2 answers on 9102, its controller on 9103, its metrics on 9104
FIRST_ZOOKEEPER_PORT = 2181  # with its peers' port and its election's port behind it
MAX_BROKERS = 30  # one machine; a JVM-less broker takes some 60 MB
MAX_VOTERS = 3  # more would not make one machine safer
REPLICATION = 3  # of all topics, where there are as many brokers
MIN_IN_SYNC = 2


class ControllerKind(StrEnum):
    """Who keeps the cluster's metadata."""

    KRAFT = "kraft"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """One broker process; `controller_port` is 0 where it is no voter."""

    node_id: int
    port: int
    controller_port: int
    metrics_port: int
    properties: Mapping[str, str]

    @property
    def name(self) -> str:
        """What the supervisor and the log folder call it."""
        return f"broker-{self.node_id}"

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class ZooKeeperNode:
    """One server of the ensemble; `servers` is the whole of it, as `zoo.cfg` says it."""

    server_id: int
    port: int
    folder: Path
    servers: Mapping[str, str]

    @property
    def name(self) -> str:
        """What the supervisor and the log folder call it."""
        return f"zookeeper-{self.server_id}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """All nodes of one cluster."""

    controller: ControllerKind
    home: Path
    nodes: tuple[BrokerNode, ...]
    zookeepers: tuple[ZooKeeperNode, ...] = ()

    @property
    def bootstrap(self) -> str:
        """Every broker, comma separated."""
        return ",".join(node.address for node in self.nodes)


def plan_options(plan: ClusterPlan) -> dict[str, object]:
    """The words that made a plan, as `plan` takes them."""
    ours = bool(plan.zookeepers)
    return {
        "brokers": len(plan.nodes),
        "controller": plan.controller.value,
        "first_port": plan.nodes[0].port,
        "zookeepers": len(plan.zookeepers) or 1,
        "zookeeper_connect": "" if ours else plan.nodes[0].properties.get("zookeeper.connect", ""),
        "first_zookeeper_port": plan.zookeepers[0].port if ours else FIRST_ZOOKEEPER_PORT,
    }


def plan(
    folder: Path,
    *,
    brokers: int,
    controller: ControllerKind,
    first_port: int = FIRST_PORT,
    zookeepers: int = 1,
    zookeeper_connect: str = "",
    first_zookeeper_port: int = FIRST_ZOOKEEPER_PORT,
) -> ClusterPlan:
    """A cluster whose data lie in `folder`; an ensemble of ours unless one is named."""
    home = folder / "cluster" / controller.value
    ensemble: tuple[ZooKeeperNode, ...] = ()
    if controller is ControllerKind.ZOOKEEPER and not zookeeper_connect:
        ensemble = _ensemble(home, zookeepers, first_zookeeper_port)
        zookeeper_connect = ",".join(f"{HOST}:{server.port}" for server in ensemble)
    nodes = []
    for number in range(brokers):
        port = first_port + number * PORT_STEP
        own = _kraft(number, brokers, first_port)
        if controller is ControllerKind.ZOOKEEPER:
            own = _zookeeper(number, first_port, zookeeper_connect)
        voter = controller is ControllerKind.KRAFT and number < _voters(brokers)
        common = {
            "log.dirs": str(home / f"broker-{number + 1}"),
            "metrics.port": str(port + 2),
            **_replication(brokers),
        }
        nodes.append(BrokerNode(number + 1, port, port + 1 if voter else 0, port + 2, own | common))
    return ClusterPlan(controller, home, tuple(nodes), ensemble)


def _voters(brokers: int) -> int:
    """An odd number: a fourth voter makes no loss bearable that three do not bear."""
    most = min(brokers, MAX_VOTERS)
    return most if most % 2 else most - 1


def _kraft(number: int, brokers: int, first_port: int) -> dict[str, str]:
    port = first_port + number * PORT_STEP
    voters = ",".join(
        f"{each + 1}@{HOST}:{first_port + each * PORT_STEP + 1}" for each in range(_voters(brokers))
    )
    own = {
        "node.id": str(number + 1),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
    }
    if number < _voters(brokers):
        listeners = f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{port + 1}"
        return own | {"process.roles": "broker,controller", "listeners": listeners}
    return own | {"process.roles": "broker", "listeners": f"PLAINTEXT://{HOST}:{port}"}


def _zookeeper(number: int, first_port: int, connect: str) -> dict[str, str]:
    port = first_port + number * PORT_STEP
    return {
        "broker.id": str(number + 1),
        "zookeeper.connect": connect,
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
    }


def _replication(brokers: int) -> dict[str, str]:
    """Three copies, two of them in sync, of everything; fewer where there are fewer brokers."""
    copies = min(brokers, REPLICATION)
    in_sync = min(MIN_IN_SYNC, max(1, copies - 1))
    return {
        "default.replication.factor": str(copies),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(copies),
        "transaction.state.log.replication.factor": str(copies),
        "transaction.state.log.min.isr": str(in_sync),
    }


def _ensemble(home: Path, servers: int, first_port: int) -> tuple[ZooKeeperNode, ...]:
    ports = [first_port + number * PORT_STEP for number in range(servers)]
    whole = {
        f"server.{number + 1}": f"{HOST}:{port + 1}:{port + 2}" for number, port in enumerate(ports)
    }
    return tuple(
        ZooKeeperNode(number + 1, port, home / f"zookeeper-{number + 1}",
                      whole if servers > 1 else {})
        for number, port in enumerate(ports)
    )  # fmt: skip
