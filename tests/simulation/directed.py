"""A small world whose trouble is told step by step: one partition, three brokers, checkers as ever.

In: a name, steps in a subclass. Out: what is wrong in the end. Never: a stand-in; brokers, network
and disks are those of the worlds that are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.checker import rules
from tests.checker.history import Healed
from tests.simulation.admin import Admin
from tests.simulation.aftermath import replica_states
from tests.simulation.cluster import Cluster
from tests.simulation.consumer import Consumer
from tests.simulation.machine import Machine
from tests.simulation.network import Cut
from tests.simulation.producer import Producer, ProducerKind
from tests.simulation.world import World

WITHIN_S = 60.0
TOPIC = "t"


class Directed:
    """Invariant: a step that does not come about fails; nothing is judged of a world not told."""

    def __init__(self, name: str) -> None:
        self.world = World(f"directed, {name}")
        self.cluster = Cluster(self.world, 3)
        around = self.world.client_surroundings("admin", self.cluster.bootstrap)
        self.admin = Admin("admin", around)

    def run(self) -> list[str]:
        """What is wrong in the end."""
        self.world.run(self._story())
        self.world.end()
        return [*self.world.complaints, *map(str, rules.check(self.world.history))]

    async def tell(self) -> None:
        """The steps; all brokers serve."""
        raise NotImplementedError

    async def _story(self) -> None:
        self.cluster.start()
        await self.until(lambda: len(self.cluster.serving()) == 3)
        await self.tell()
        self.world.network.heal()
        for machine in self.cluster.machines:
            machine.start()
        await self.until(self._is_whole)
        around = self.world.client_surroundings("auditor", self.cluster.bootstrap)
        self.world.record(Healed(at_ms=around.clock.now_ms()))
        assert await self.producer("last").write(TOPIC, 0, 1)
        until = self.world.loop.time() + WITHIN_S
        assert await Consumer("auditor", around).read_all(TOPIC, 0, until) is not None
        for state in replica_states(self.cluster, around.clock.now_ms()):
            self.world.record(state)

    def _is_whole(self) -> bool:
        return len(self.cluster.serving()) == 3 and set(self.told().isr) == {1, 2, 3}

    # --- steps -----------------------------------------------------------------------------------

    async def until(self, test: Callable[[], bool]) -> None:
        """Something is so; it fails if it does not become so."""
        assert await self.world.until(test, WITHIN_S, 0.001)

    async def create(self, *machines: Machine) -> None:
        """The topic, led by the first."""
        assert await self.admin.create_on(TOPIC, [m.node_id for m in machines], {})
        await self.until(lambda: len(self.replicas()) == 3)

    async def rejoin(self, follower: Machine) -> None:
        """It starts again and is asked to be in sync; its leader has a connection for that now."""
        follower.kill()
        await self.until(lambda: follower.node_id not in self.told().isr)
        follower.start()
        await self.until(self._is_whole)

    def producer(self, name: str, *, idempotent: bool = True) -> Producer:
        """Another client with acks=all."""
        around = self.world.client_surroundings(name, self.cluster.bootstrap)
        return Producer(name, around, ProducerKind(idempotent=idempotent))

    def cut(self, source: Machine, targets: Sequence[Machine], port: int | None = None) -> None:
        """One direction."""
        for target in targets:
            self.world.network.cut(source.host, target.host, Cut.DROP, port)

    def part(self, one: Machine, others: Sequence[Machine], port: int | None = None) -> None:
        """Both directions."""
        self.cut(one, others, port)
        for other in others:
            self.cut(other, [one], port)

    def when_asked(self, leader: Machine, happens: Callable[[Any], bool]) -> Callable[[], bool]:
        """`happens` hears every in-sync set that the leader is about to ask for, until it says
        that it was the one; whether it was."""
        assert leader.broker is not None
        manager: Any = leader.broker.rooms.replicas
        propose = manager.propose
        heard: list[bool] = []

        def proposes(partition: Any, proposal: Any) -> None:
            propose(partition, proposal)
            if partition.topic == TOPIC and not heard and happens(proposal):
                heard.append(True)

        manager.propose = proposes
        return lambda: bool(heard)

    # --- looking ---------------------------------------------------------------------------------

    def by_controller(self) -> list[Machine]:
        """All machines, that of the active controller last."""
        ((active, _),) = self.cluster.active_controllers()
        return sorted(self.cluster.machines, key=lambda one: one is active)

    def told(self) -> Any:
        """The partition as the newest metadata have it."""
        return self.cluster.image().topics[TOPIC].partitions[0]

    def replicas(self) -> dict[int, Any]:
        """The partition on every broker that serves."""
        return {m.node_id: p for m, p in self.cluster.partitions() if p.topic == TOPIC}

    def end_of(self, machine: Machine) -> int:
        """Where its log ends; -1: it does not serve."""
        replica = self.replicas().get(machine.node_id)
        return -1 if replica is None else int(replica.log.end_offset)
