"""A real cluster of broker processes on this machine, for tests, tools and benches of any package.

Every node is the program that `databus run broker` starts.

Ports: each listener's port is picked at random, bound as a test and released just before its node
binds it; another process may take it in between, so the ports of a cluster are picked again when a
node finds its port taken. A restarted node keeps its ports.
"""

from __future__ import annotations

import base64
import random
import shutil
import socket
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.servers.databus import (
    BrokerProcess,
    BrokerStartError,
    RunningBroker,
    log_path,
    spawn_broker,
)

KRAFT, ZOOKEEPER = "kraft", "zookeeper"
MIRROR = "MIRROR"
"""The name of the listener for a mirror."""

ATTEMPTS = 5
"""Picks of ports for a cluster. One collision in a thousand starts was seen; five in a row have
another cause."""

START_TIMEOUT_S = 120.0
"""Until all nodes of a cluster serve. Two seconds here; a loaded CI machine takes its time."""

PORT_TAKEN = "cannot listen on"

PORTS = (20_000, 32_000)
"""Below Linux' range of ports for outgoing connections (32768 and up)."""

PORT_ATTEMPTS = 200
"""Most ports are free; so many taken ones have another cause."""

FIRST_CONTROLLER_ID = 100


@dataclass(slots=True)
class PlannedNode:
    """One process of the plan."""

    node_id: int
    role: str
    host: str
    port: int
    controller_port: int
    directory: Path
    prefix: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    mirror_port: int = 0


@dataclass(slots=True)
class RunningCluster:
    """Nodes that serve. Invariant: `nodes` has each node's newest process, dead or alive."""

    cluster_id: str
    nodes: dict[int, RunningBroker]
    plan: dict[int, PlannedNode]

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, as clients want them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def brokers(self) -> list[RunningBroker]:
        """The nodes that serve clients, by id."""
        return [
            self.nodes[node_id]
            for node_id, node in sorted(self.plan.items())
            if "broker" in node.role
        ]

    @property
    def controllers(self) -> list[RunningBroker]:
        """The nodes that are controllers, by id."""
        return [
            self.nodes[node_id]
            for node_id, node in sorted(self.plan.items())
            if "controller" in node.role
        ]

    @property
    def controller_bootstrap(self) -> str:
        """Addresses of all controller listeners."""
        return ",".join(
            f"{node.host}:{node.controller_port}"
            for _, node in sorted(self.plan.items())
            if "controller" in node.role
        )

    @property
    def mirror_bootstrap(self) -> str:
        """Addresses of all brokers' listeners for a mirror; see `start_cluster`."""
        return ",".join(
            f"{node.host}:{node.mirror_port}"
            for _, node in sorted(self.plan.items())
            if "broker" in node.role
        )

    def node(self, node_id: int) -> RunningBroker:
        """A node by its id."""
        return self.nodes[node_id]

    def kill(self, node_id: int) -> None:
        """SIGKILL and wait."""
        self.nodes[node_id].kill()

    def terminate(self, node_id: int) -> int:
        """SIGTERM and wait; the exit status."""
        return self.nodes[node_id].stop()

    def restart(self, node_id: int) -> RunningBroker:
        """Start the same node on the same ports and data; it serves when this returns."""
        node = self.plan[node_id]
        for attempt in range(ATTEMPTS):
            try:
                self.nodes[node_id] = _ready(node, _spawn(node))
                break
            except BrokerStartError as error:
                if PORT_TAKEN not in str(error) or attempt == ATTEMPTS - 1:
                    raise
                time.sleep(1)  # a short-lived process has the port
        return self.nodes[node_id]

    def stop(self) -> None:
        """End every node that lives: brokers at once, then those that are only controllers."""
        for only_controllers in (False, True):
            living = [
                self.nodes[node_id]
                for node_id, node in sorted(self.plan.items())
                if (node.role == "controller") is only_controllers
                and self.nodes[node_id].process.poll() is None
            ]
            for running in living:
                running.process.terminate()
            for running in living:
                running.stop()

    def logs(self) -> str:
        """The end of every node's log, for a failure's text."""
        return "\n".join(
            f"--- node {node_id}\n{_log_end(node.directory)}"
            for node_id, node in sorted(self.plan.items())
        )

    def __enter__(self) -> RunningCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_cluster(
    directory: Path | str,
    brokers: int = 3,
    controller: str = KRAFT,
    properties: Mapping[str, str] | None = None,
    separate_controllers: int = 0,
    *,
    zookeeper_connect: str | None = None,
    hosts: Sequence[str] = (),
    prefixes: Sequence[Sequence[str]] = (),
    node_properties: Mapping[int, Mapping[str, str]] | None = None,
    mirror_listener: bool = False,
) -> RunningCluster:
    """Start brokers 1..n, with `separate_controllers` controllers 100.. or the first three brokers
    as voters; under ZooKeeper at `zookeeper_connect`. They serve when this returns.

    `hosts` and `prefixes` (words before a node's command, such as `ip netns exec a`) are by
    position, brokers first; `node_properties` by node id. With `mirror_listener` every broker has
    one more listener, over which a mirror may write. Raises BrokerStartError with the logs.
    """
    root = Path(directory).absolute()
    failure: BrokerStartError | None = None
    for _ in range(ATTEMPTS):
        nodes = _plan(root, brokers, separate_controllers, controller, hosts, prefixes)
        cluster_id = _configure(
            nodes, controller, properties or {}, zookeeper_connect, node_properties or {},
            MIRROR if mirror_listener else "",
        )  # fmt: skip
        try:
            return _start(nodes, cluster_id)
        except BrokerStartError as error:
            if PORT_TAKEN not in str(error):
                raise
            failure = error
            for node in nodes:
                shutil.rmtree(node.directory, ignore_errors=True)
    raise failure or BrokerStartError("no ports were free")


def new_cluster_id() -> str:
    """A cluster id in Kafka's format; none begins with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free at this moment."""
    with _bound(host) as probe:
        return int(probe.getsockname()[1])


def _bound(host: str) -> socket.socket:
    """A socket bound to a free port below those the system gives to outgoing connections: one of
    these could take a stopped node's port, or a client that looks for the node connect to itself.
    """
    for _ in range(PORT_ATTEMPTS):
        probe = socket.socket()
        try:
            probe.bind((host, random.randrange(*PORTS)))
        except OSError:
            probe.close()
            continue
        return probe
    raise BrokerStartError(f"no free port between {PORTS[0]} and {PORTS[1]} on {host}")


def _plan(
    root: Path,
    brokers: int,
    separate: int,
    controller: str,
    hosts: Sequence[str],
    prefixes: Sequence[Sequence[str]],
) -> list[PlannedNode]:
    combined = 0 if separate or controller == ZOOKEEPER else min(brokers, 3)
    ids = [*range(1, brokers + 1), *range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + separate)]
    nodes = []
    for position, node_id in enumerate(ids):
        role = "controller" if node_id >= FIRST_CONTROLLER_ID else "broker"
        if role == "broker" and position < combined:
            role = "broker,controller"
        host = hosts[position] if position < len(hosts) else "127.0.0.1"
        prefix = tuple(prefixes[position]) if position < len(prefixes) else ()
        nodes.append(
            PlannedNode(
                node_id, role, host, 0, 0, root / f"{role.partition(',')[0]}-{node_id}", prefix
            )
        )
    _pick_ports(nodes)
    return nodes


def _pick_ports(nodes: list[PlannedNode]) -> None:
    """Pick different ports for all nodes: the probes stay bound until the last is picked."""
    probes = []
    try:
        for node in nodes:
            for attribute in ("port", "controller_port", "mirror_port"):
                # A host of another network namespace cannot be bound here; its ports are free.
                probe = _bound("127.0.0.1" if node.prefix else node.host)
                probes.append(probe)
                setattr(node, attribute, probe.getsockname()[1])
    finally:
        for probe in probes:
            probe.close()


def _configure(
    nodes: list[PlannedNode],
    controller: str,
    properties: Mapping[str, str],
    zookeeper_connect: str | None,
    node_properties: Mapping[int, Mapping[str, str]],
    mirror_listener: str,
) -> str:
    """Fill in every node's properties; the id the cluster will have, empty under ZooKeeper."""
    cluster_id = "" if controller == ZOOKEEPER else new_cluster_id()
    voters = ",".join(
        f"{node.node_id}@{node.host}:{node.controller_port}"
        for node in nodes
        if "controller" in node.role
    )
    for node in nodes:
        listeners = []
        if "broker" in node.role:
            listeners.append(f"PLAINTEXT://{node.host}:{node.port}")
        if "broker" in node.role and mirror_listener:
            listeners.append(f"{mirror_listener}://{node.host}:{node.mirror_port}")
        if "controller" in node.role:
            listeners.append(f"CONTROLLER://{node.host}:{node.controller_port}")
        own = {
            "node.id": str(node.node_id),
            "listeners": ",".join(listeners),
            "metrics.port": "0",
            "metrics.host": node.host,
        }
        if mirror_listener:
            names = ["PLAINTEXT", "CONTROLLER", mirror_listener]
            own["mirror.listener.name"] = mirror_listener
            own["listener.security.protocol.map"] = ",".join(f"{one}:PLAINTEXT" for one in names)
        if controller == ZOOKEEPER:
            own |= {"zookeeper.connect": zookeeper_connect or "", "broker.id": str(node.node_id)}
        else:
            own |= {
                "cluster.id": cluster_id,
                "process.roles": node.role,
                "controller.quorum.voters": voters,
            }
        node.properties = {**own, **properties, **node_properties.get(node.node_id, {})}
    return cluster_id


def _start(nodes: list[PlannedNode], cluster_id: str) -> RunningCluster:
    begun: list[BrokerProcess] = []
    try:
        for node in sorted(nodes, key=lambda one: "controller" not in one.role):
            begun.append(_spawn(node))
        by_id = {node.node_id: node for node in nodes}
        running = {one.node_id: _ready(by_id[one.node_id], one) for one in begun}
    except BrokerStartError as error:
        for one in begun:
            one.kill()
        others = "\n".join(f"--- node {one.node_id}\n{_log_end(one.directory)}" for one in nodes)
        raise BrokerStartError(f"{error}\n{others}") from error
    except BaseException:
        for one in begun:
            one.kill()
        raise
    first = next(iter(running.values()))
    return RunningCluster(
        cluster_id or first.cluster_id, running, {node.node_id: node for node in nodes}
    )


def _ready(node: PlannedNode, process: BrokerProcess) -> RunningBroker:
    """The node once it serves; of its addresses clients are given the one that is theirs."""
    running = process.wait_until_ready(START_TIMEOUT_S)
    if "broker" in node.role:
        running.bootstrap = f"{node.host}:{node.port}"
    return running


def _spawn(node: PlannedNode) -> BrokerProcess:
    return spawn_broker(
        node.directory, node.properties, prefix=node.prefix, node_id=node.node_id, role=node.role
    )


def _log_end(directory: Path, size: int = 4000) -> str:
    path = log_path(directory)
    return path.read_text(encoding="utf-8", errors="replace")[-size:] if path.exists() else ""
