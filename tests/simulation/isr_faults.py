"""Trouble aimed at a change of an in-sync set: the network fails when a leader asks for another one.

In: the source of trouble, whose dice and network these use. Out: two kinds of faults, for clusters
whose controllers have a listener of their own. Never: a change of what a broker does; a proposal is
only listened for.

Between a leader's question and the controller's answer lie a few milliseconds, in which a fault
drawn at random hardly ever begins. There either set may be in force (KIP-497), a replica may count
as in sync that a new leader would miss records of, and a question may arrive long after its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster import CONTROLLER_PORT
from tests.simulation.machine import PORT, Machine
from tests.simulation.network import Cut

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

Ear = Callable[[Machine, Any, Any], bool]
"""``(who asks, which partition, what for)``: whether that was what one has waited for."""

LISTEN_EVERY_S = 0.05
ANSWER_S = 0.1
SOONER_THAN_A_PIECE_S = 0.0001
"""Between two looks at the controller: what it answers is on its way longer than that."""
REJOIN_S = 20.0
SHRINK_S = 9.0
"""Longer than `replica.lag.time.max.ms` and half of it, the pause between two looks at it."""
CUT_S = (6.0, 12.0)
"""Until a session has ended and another broker leads for a while."""


class IsrFaults:
    """Invariant: `_ears` holds who waits for a proposal now; each hears it before it is sent."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._cluster, self._world, self._dice = faults.cluster, faults.world, faults.dice
        self._heard_of: list[Any] = []
        self._ears: list[Ear] = []

    async def cut_at_rejoin(self, machine: Machine) -> None:
        """A broker starts again, at times with its leader dying behind it. When it is asked to be
        in sync again, the leader hears no answer and nothing of it, or it hears nothing of the
        leader."""
        dice = self._dice
        other = self._other_than(machine) if dice.random() < 0.5 else None
        strike = self._leader_is_deaf if dice.random() < 0.5 else self._joiner_is_deaf
        machine.kill()
        if other is not None:
            await self._faults.for_a_while(0.0, 2.0)
            other.kill()
        await self._faults.for_a_while(0.2, 3.0)
        machine.start()

        def rejoins(leader: Machine, partition: Any, proposal: Any) -> bool:
            joined = machine.node_id in proposal.isr and machine.node_id not in partition.isr
            return joined and strike(leader, machine, partition)

        struck = await self._listen(rejoins, REJOIN_S)
        if other is not None:
            await self._faults.for_a_while(0.5, 4.0)
            other.start()
        if struck is not None:
            await self._faults.for_a_while(*CUT_S)
            self._faults.mend(struck)

    async def followers_are_cut_off(self, machine: Machine) -> None:
        """Nobody fetches from a leader that its controllers still hear. When it asks for a smaller
        set it dies somewhat later, or is cut off from everybody; or nothing more happens."""
        self._world.trace(f"{machine.name} is cut off from the other brokers, not from controllers")
        self._cut(machine, PORT)
        dies, apart = self._dice.random() < 0.5, self._dice.random() < 0.7

        def shrinks(leader: Machine, partition: Any, proposal: Any) -> bool:
            if leader is not machine or proposal.grows:
                return False
            if apart and not dies:
                self._world.trace(f"{machine.name} asks for a smaller set and is cut off")
                self._cut(machine)
            return True

        asked = await self._listen(shrinks, SHRINK_S)
        if dies and asked is not None:
            await self._faults.for_a_while(0.5, 4.0)
            machine.kill()
            await self._faults.for_a_while(0.1, 1.0)
        elif asked is not None:
            await self._faults.for_a_while(*CUT_S)
            self._faults.mend(machine)
            self._cut(machine, PORT)  # controllers hear it before its leaders do
            await self._faults.for_a_while(0.5, 4.0)
        self._faults.mend(machine)
        machine.start()

    # --- what is cut -----------------------------------------------------------------------------

    def _leader_is_deaf(self, leader: Machine, joiner: Machine, partition: Any) -> bool:
        """It still says what it has to say; its session ends for want of answers."""
        if any(leader is active for active, _ in self._cluster.active_controllers()):
            return False
        loop = self._world.loop
        task = self._no_answer(leader, joiner, (partition.topic_id, partition.index))
        loop.create_task(task, context=loop.kernel)
        return True

    async def _no_answer(self, leader: Machine, joiner: Machine, place: tuple[bytes, int]) -> None:
        """What the controller has stored reaches everybody but the leader."""

        def stored() -> bool:
            image = self._cluster.image()
            partition = None if image is None else image.partition(*place)
            return partition is not None and joiner.node_id in partition.isr

        self._world.network.cut(joiner.host, leader.host, Cut.DROP, PORT)
        await self._world.until(stored, ANSWER_S, SOONER_THAN_A_PIECE_S)
        self._world.trace(f"{leader.name} hears no controller any more, and not {joiner.name}")
        for other in self._cluster.machines:
            if other is not leader:
                self._world.network.cut(other.host, leader.host, Cut.DROP, CONTROLLER_PORT)

    def _joiner_is_deaf(self, leader: Machine, joiner: Machine, _: Any) -> bool:
        self._world.trace(f"{joiner.name} hears nothing of {leader.name} any more")
        self._world.network.cut(leader.host, joiner.host, Cut.DROP, PORT)
        return True

    def _cut(self, machine: Machine, port: int | None = None) -> None:
        for other in self._cluster.machines:
            if other is not machine:
                self._world.network.cut(machine.host, other.host, Cut.DROP, port)
                self._world.network.cut(other.host, machine.host, Cut.DROP, port)

    def _other_than(self, machine: Machine) -> Machine:
        others = [one for one in self._cluster.machines if one is not machine]
        return others[self._dice.randrange(0, len(others))]

    # --- what is heard ---------------------------------------------------------------------------

    async def _listen(self, ear: Ear, within_s: float) -> Machine | None:
        """Who asked for what `ear` waits for; None: nobody did within the time."""
        heard: list[Machine] = []

        def once(machine: Machine, partition: Any, proposal: Any) -> bool:
            if not heard and ear(machine, partition, proposal):
                heard.append(machine)
            return bool(heard)

        ends = self._world.loop.time() + within_s
        self._ears.append(once)
        try:
            while not heard and self._world.loop.time() < ends:
                self._attend()
                await asyncio.sleep(LISTEN_EVERY_S)
        finally:
            self._ears.remove(once)
        return heard[0] if heard else None

    def _attend(self) -> None:
        """Listen to the brokers that have begun to serve since."""
        for machine, broker in self._cluster.serving():
            manager = broker.rooms.replicas
            if manager not in self._heard_of:
                self._heard_of.append(manager)
                manager.propose = self._heard(machine, manager.propose)

    def _heard(self, machine: Machine, propose: Callable[[Any, Any], None]) -> Any:
        def proposes(partition: Any, proposal: Any) -> None:
            propose(partition, proposal)
            for ear in list(self._ears):
                ear(machine, partition, proposal)

        return proposes
