"""A small world with scripted faults: one partition, three brokers, the usual checkers.

In: a name, steps in a subclass. Out: all violations. Never: a stand-in; brokers, network and disks
are those of the random worlds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.checker import rules
from tests.checker.history import Healed
from tests.simulation.admin import SimAdmin
from tests.simulation.aftermath import replica_states
from tests.simulation.cluster import SimCluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.machine import SimMachine
from tests.simulation.network import Cut
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.world import SimWorld

WITHIN_S = 60.0
TOPIC = "t"


class Directed:
    """Invariant: a step that does not happen fails; a world that did not run as scripted is not
    checked."""

    def __init__(self, name: str) -> None:
        self.world = SimWorld(f"directed, {name}")
        self.cluster = SimCluster(self.world, 3)
        around = self.world.client_surroundings("admin", self.cluster.bootstrap)
        self.admin = SimAdmin("admin", around)

    def run(self) -> list[str]:
        """Runs the world; returns all violations."""
        self.world.run(self._story())
        self.world.end()
        return [*self.world.complaints, *map(str, rules.check(self.world.history))]

    async def play(self) -> None:
        """The steps; called when all brokers serve."""
        raise NotImplementedError

    async def _story(self) -> None:
        self.cluster.start()
        await self.until(lambda: len(self.cluster.serving()) == 3)
        await self.play()
        self.world.network.heal()
        for machine in self.cluster.machines:
            machine.start()
        await self.until(self._is_whole)
        around = self.world.client_surroundings("auditor", self.cluster.bootstrap)
        self.world.record(Healed(at_ms=around.clock.now_ms()))
        assert await self.producer("last").write(TOPIC, 0, 1)
        until = self.world.loop.time() + WITHIN_S
        assert await SimConsumer("auditor", around).read_all(TOPIC, 0, until) is not None
        for state in replica_states(self.cluster, around.clock.now_ms()):
            self.world.record(state)

    def _is_whole(self) -> bool:
        return len(self.cluster.serving()) == 3 and set(self.partition_image().isr) == {1, 2, 3}

    # --- steps -----------------------------------------------------------------------------------

    async def until(self, test: Callable[[], bool]) -> None:
        """Waits until `test` holds; fails if it does not in time."""
        assert await self.world.until(test, WITHIN_S, 0.001)

    async def create(self, *machines: SimMachine) -> None:
        """Creates the topic, led by the first machine."""
        assert await self.admin.create_on(TOPIC, [m.node_id for m in machines], {})
        await self.until(lambda: len(self.replicas()) == 3)

    async def rejoin(self, follower: SimMachine) -> None:
        """Restarts the follower and waits until it is in sync; its leader now has a connection for
        the request."""
        follower.kill()
        await self.until(lambda: follower.node_id not in self.partition_image().isr)
        follower.start()
        await self.until(self._is_whole)

    def producer(self, name: str, *, idempotent: bool = True) -> SimProducer:
        """Starts another producer with acks=all."""
        around = self.world.client_surroundings(name, self.cluster.bootstrap)
        return SimProducer(name, around, ProducerKind(idempotent=idempotent))

    def cut(self, source: SimMachine, targets: Sequence[SimMachine], port: int | None = None) -> None:
        """Cuts one direction."""
        for target in targets:
            self.world.network.cut(source.host, target.host, Cut.DROP, port)

    def part(self, one: SimMachine, others: Sequence[SimMachine], port: int | None = None) -> None:
        """Cuts both directions."""
        self.cut(one, others, port)
        for other in others:
            self.cut(other, [one], port)

    def when_asked(self, leader: SimMachine, happens: Callable[[Any], bool]) -> Callable[[], bool]:
        """Calls `happens` with every in-sync set that the leader proposes, until it returns true;
        the returned function says whether it did."""
        assert leader.broker is not None
        manager: Any = leader.broker.components.replicas
        propose = manager.propose
        heard: list[bool] = []

        def proposes(partition: Any, proposal: Any) -> None:
            propose(partition, proposal)
            if partition.topic == TOPIC and not heard and happens(proposal):
                heard.append(True)

        manager.propose = proposes
        return lambda: bool(heard)

    # --- queries ---------------------------------------------------------------------------------

    def by_controller(self) -> list[SimMachine]:
        """All machines, that of the active controller last."""
        ((active, _),) = self.cluster.active_controllers()
        return sorted(self.cluster.machines, key=lambda one: one is active)

    def partition_image(self) -> Any:
        """The partition in the newest metadata."""
        return self.cluster.image().topics[TOPIC].partitions[0]

    def replicas(self) -> dict[int, Any]:
        """The partition's replica on every broker that serves."""
        return {m.node_id: p for m, p in self.cluster.partitions() if p.topic == TOPIC}

    def end_of(self, machine: SimMachine) -> int:
        """The end offset of its log; -1 if it does not serve."""
        replica = self.replicas().get(machine.node_id)
        return -1 if replica is None else int(replica.log.end_offset)
