"""The machines of one world and how they are configured, for either kind of controller.

In: how many brokers, which controller. Out: machines, and their state as seen from outside.
Never: a change of a broker's state except as an operator would make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from broker.config.views import BrokerConfig
from broker.controller.kraft.raft.roles import RaftRole
from broker.server.broker import Broker
from broker.server.control_plane import StartError
from broker.settings import ProcessSettings
from tests.simulation.cleaner_process import SimCleanerProcess
from tests.simulation.machine import FIRST_SITE, PORT, Place, SimMachine, SimProcess
from tests.simulation.processor import Costs, WorkingBroker
from tests.simulation.world import SimWorld

CONTROLLER_PORT = 9093
MIRROR_PORT = 9094
LOG_DIR = "/data/logs"

PROPERTIES = {
    "cluster.id": "c2ltdWxhdGVkLXdvcmxkMQ",
    "metrics.port": "-1",
    "log.dirs": LOG_DIR,
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": "4000",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "leader.imbalance.check.interval.seconds": "20",
    "log.flush.offset.checkpoint.interval.ms": "10000",
    "log.retention.check.interval.ms": "30000",
}
"""Shorter timeouts than Kafka's, so that much happens in two minutes."""

TWO_DIRECTORIES = {
    "log.dirs": f"{LOG_DIR},/data/more",
    "replica.alter.log.dirs.io.max.bytes.per.second": "4000",
    "alter.log.dirs.replication.quota.window.num": "2",
}
"""Moves are so slow that machines fail in the middle of one."""

ALONE = {
    "min.insync.replicas": "1",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
}


class SimCluster:
    """Machines 1..n. In KRaft the first three are voters; the others are brokers only."""

    def __init__(
        self,
        world: SimWorld,
        brokers: int = 3,
        controller: str = "kraft",
        more: Mapping[str, str] | None = None,
        costs: Costs | None = None,
        place: Place = FIRST_SITE,
        cleans: bool = False,
    ) -> None:
        """`more`: properties of every broker; `costs`: the CPU time of its requests; `cleans`:
        whether compacted topics are cleaned."""
        self.cleans = cleans
        self.world = world
        self.place = place
        self.costs = costs or Costs()
        self.common = PROPERTIES | dict(more or {})
        self.controller = controller
        self.ensemble: Any = None
        if controller == "zookeeper":
            from tests.simulation.zookeeper import Ensemble

            self.ensemble = Ensemble(world)
        self.replication_factor = min(brokers, 3)
        self.voters = list(range(1, min(brokers, 3) + 1))
        self.machines: list[SimMachine] = []
        self.machines += [
            SimMachine(world, node_id, self.properties, self._make, place)
            for node_id in range(1, brokers + 1)
        ]
        for machine in self.machines:
            machine.is_excused = partial(self._is_without_ensemble, machine.node_id)

    def _is_without_ensemble(self, node_id: int, error: BaseException) -> bool:
        """A broker gives up a start without an answer of ZooKeeper's, and is started again."""
        ensemble = self.ensemble
        is_away = ensemble is not None and ensemble.is_away_from(node_id)
        return is_away and isinstance(error, StartError)

    @property
    def log_dirs(self) -> list[str]:
        """Every broker's log directories."""
        return self.common["log.dirs"].split(",")

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        """All brokers' addresses."""
        return [(machine.host, PORT) for machine in self.machines]

    def properties(self, node_id: int) -> dict[str, str]:
        """One broker's properties."""
        found = self._properties(node_id, host := self.place.host(node_id))
        mirror = found.get("mirror.listener.name")
        if mirror:
            found["listeners"] += f",{mirror}://{host}:{MIRROR_PORT}"
            names = ("PLAINTEXT", "CONTROLLER", mirror)
            found["listener.security.protocol.map"] = ",".join(f"{one}:PLAINTEXT" for one in names)
        return found

    def _properties(self, node_id: int, host: str) -> dict[str, str]:
        own = {"node.id": str(node_id), "listeners": f"PLAINTEXT://{host}:{PORT}"}
        if len(self.machines) == 1:
            return self.common | own | ALONE
        if self.controller == "zookeeper":
            own |= {"zookeeper.connect": "10.0.2.1:2181", "broker.id": str(node_id)}
            own |= {"zookeeper.session.timeout.ms": "6000"}
            return self.common | own
        host_of = self.place.host
        quorum = ",".join(f"{one}@{host_of(one)}:{CONTROLLER_PORT}" for one in self.voters)
        own |= {
            "process.roles": "broker",
            "controller.quorum.voters": quorum,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
        if node_id in self.voters:
            own["process.roles"] = "broker,controller"
            own["listeners"] += f",CONTROLLER://{host}:{CONTROLLER_PORT}"
        return self.common | own

    def _make(
        self, machine: SimMachine, process: SimProcess, config: BrokerConfig, settings: ProcessSettings
    ) -> Broker:
        ports = config, process.clock, process.disk, process.network, settings
        session = None if self.ensemble is None else self.ensemble.session(machine, process)
        if self.cleans:
            process.cleaner = SimCleanerProcess(
                self.world.loop, process.life, machine.disk,
                self.world.dice_of(f"{process.life.name}/cleaner"), lambda: machine.fault,
            )  # fmt: skip
        return WorkingBroker(
            *ports, zookeeper=session, costs=self.costs, spend=process.clock.spend,
            cleaner_process=process.cleaner,
        )  # fmt: skip

    def start(self) -> None:
        """Starts all machines."""
        for machine in self.machines:
            machine.start()

    # --- queries ---------------------------------------------------------------------------------

    def serving(self) -> list[tuple[SimMachine, Broker]]:
        """The brokers that currently serve."""
        return [(m, m.broker) for m in self.machines if m.broker is not None]

    def partitions(self) -> Iterator[tuple[SimMachine, Any]]:
        """Every replica of every broker that serves."""
        for machine, broker in self.serving():
            for partition in broker.components.replicas.partitions():
                yield machine, partition

    def active_controllers(self) -> list[tuple[SimMachine, Any]]:
        """The brokers that believe they are the active controller."""
        return [
            (machine, broker.components.controller)
            for machine, broker in self.serving()
            if broker.components.controller.is_active
        ]

    def quorum_leaders(self) -> list[tuple[int, int]]:
        """(node id, epoch) of every node that believes a majority has elected it, whether anything
        of its epoch is committed or not."""
        if self.ensemble is not None or len(self.machines) == 1:
            return []
        nodes = [(m.node_id, broker.components.controller) for m, broker in self.serving()]
        return [(one, node.epoch) for one, node in nodes if node.raft.role is RaftRole.LEADER]

    def image(self) -> Any:
        """The newest committed metadata of any broker; None if none serves."""
        best, best_rank = None, (-1, -1)
        for _, broker in self.serving():
            controller = broker.components.controller
            rank = (int(controller.is_active) * controller.epoch, controller.end_offset)
            if rank > best_rank:
                best, best_rank = broker.components.metadata.image, rank
        return best
