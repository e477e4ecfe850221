"""Faults timed by changes of in-sync sets: the network fails when a leader proposes one.

In: the source of faults, whose random generator and network these use. Out: two kinds of faults,
for clusters whose controllers have their own listener. Never: a change of a broker's behaviour;
proposals are only observed.

Between a leader's request and the controller's answer are a few milliseconds, in which a random
fault hardly ever begins. During that time either set may be in force (KIP-497), a replica may count
as in sync that lacks records as a new leader, and a request may arrive very late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.cluster import CONTROLLER_PORT
from tests.simulation.machine import PORT, SimMachine
from tests.simulation.network import Cut

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

OnProposal = Callable[[SimMachine, Any, Any], bool]
"""``(leader, partition, proposal)``: returns whether it waited for this proposal."""

LISTEN_EVERY_S = 0.05
ANSWER_S = 0.1
SOONER_THAN_A_PIECE_S = 0.0001
"""Interval between two polls of the controller; its answer takes longer than that to arrive."""
REJOIN_S = 20.0
SHRINK_S = 9.0
"""Longer than 1.5 times `replica.lag.time.max.ms`: the lag is checked at half that interval."""
CUT_S = (6.0, 12.0)
"""Long enough for a session to expire and another broker to lead for a while."""


class IsrFaults:
    """Invariant: `_callbacks` wait for a proposal; each is called before it is sent."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._cluster, self._world, self._dice = faults.cluster, faults.world, faults.dice
        self._observed: list[Any] = []
        self._callbacks: list[OnProposal] = []

    async def cut_at_rejoin(self, machine: SimMachine) -> None:
        """Restarts a broker, sometimes with its leader dying afterwards. When the leader proposes
        the broker as in sync, the leader gets no answer and no fetches of it, or the broker gets no
        responses of the leader."""
        dice = self._dice
        other = self._other_than(machine) if dice.random() < 0.5 else None
        strike = self._cut_off_leader if dice.random() < 0.5 else self._cut_off_joiner
        machine.kill()
        if other is not None:
            await self._faults.for_a_while(0.0, 2.0)
            other.kill()
        await self._faults.for_a_while(0.2, 3.0)
        machine.start()

        def rejoins(leader: SimMachine, partition: Any, proposal: Any) -> bool:
            joined = machine.node_id in proposal.isr and machine.node_id not in partition.isr
            return joined and strike(leader, machine, partition)

        struck = await self._await_proposal(rejoins, REJOIN_S)
        if other is not None:
            await self._faults.for_a_while(0.5, 4.0)
            other.start()
        if struck is not None:
            await self._faults.for_a_while(*CUT_S)
            self._faults.repair(struck)

    async def followers_are_cut_off(self, machine: SimMachine) -> None:
        """Cuts all followers off a leader that still reaches its controllers. When it requests a
        smaller set it dies a little later, or is cut off from all, or nothing more happens."""
        self._world.trace(f"{machine.name} is cut off from the other brokers, not from controllers")
        self._cut(machine, PORT)
        dies, apart = self._dice.random() < 0.5, self._dice.random() < 0.7

        def shrinks(leader: SimMachine, partition: Any, proposal: Any) -> bool:
            if leader is not machine or proposal.expands:
                return False
            if apart and not dies:
                self._world.trace(f"{machine.name} asks for a smaller set and is cut off")
                self._cut(machine)
            return True

        asked = await self._await_proposal(shrinks, SHRINK_S)
        if dies and asked is not None:
            await self._faults.for_a_while(0.5, 4.0)
            machine.kill()
            await self._faults.for_a_while(0.1, 1.0)
        elif asked is not None:
            await self._faults.for_a_while(*CUT_S)
            self._faults.repair(machine)
            self._cut(machine, PORT)  # its messages reach controllers before they reach leaders
            await self._faults.for_a_while(0.5, 4.0)
        self._faults.repair(machine)
        machine.start()

    # --- what is cut -----------------------------------------------------------------------------

    def _cut_off_leader(self, leader: SimMachine, joiner: SimMachine, partition: Any) -> bool:
        """Cuts all links to the leader, which can still send; its session expires without
        answers."""
        if any(leader is active for active, _ in self._cluster.active_controllers()):
            return False
        loop = self._world.loop
        task = self._no_answer(leader, joiner, (partition.topic_id, partition.index))
        loop.create_task(task, context=loop.kernel)
        return True

    async def _no_answer(self, leader: SimMachine, joiner: SimMachine, place: tuple[bytes, int]) -> None:
        """Delivers the controller's decision to all brokers but the leader."""

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

    def _cut_off_joiner(self, leader: SimMachine, joiner: SimMachine, _: Any) -> bool:
        self._world.trace(f"{joiner.name} hears nothing of {leader.name} any more")
        self._world.network.cut(leader.host, joiner.host, Cut.DROP, PORT)
        return True

    def _cut(self, machine: SimMachine, port: int | None = None) -> None:
        for other in self._cluster.machines:
            if other is not machine:
                self._world.network.cut(machine.host, other.host, Cut.DROP, port)
                self._world.network.cut(other.host, machine.host, Cut.DROP, port)

    def _other_than(self, machine: SimMachine) -> SimMachine:
        others = [one for one in self._cluster.machines if one is not machine]
        return others[self._dice.randrange(0, len(others))]

    # --- proposals -------------------------------------------------------------------------------

    async def _await_proposal(self, callback: OnProposal, within_s: float) -> SimMachine | None:
        """Waits for the proposal that `callback` accepts; returns its leader, None on timeout."""
        heard: list[SimMachine] = []

        def once(machine: SimMachine, partition: Any, proposal: Any) -> bool:
            if not heard and callback(machine, partition, proposal):
                heard.append(machine)
            return bool(heard)

        ends = self._world.loop.time() + within_s
        self._callbacks.append(once)
        try:
            while not heard and self._world.loop.time() < ends:
                self._observe_new_brokers()
                await asyncio.sleep(LISTEN_EVERY_S)
        finally:
            self._callbacks.remove(once)
        return heard[0] if heard else None

    def _observe_new_brokers(self) -> None:
        """Observes the brokers that have started to serve since the last call."""
        for machine, broker in self._cluster.serving():
            manager = broker.components.replicas
            if manager not in self._observed:
                self._observed.append(manager)
                manager.propose = self._observing(machine, manager.propose)

    def _observing(self, machine: SimMachine, propose: Callable[[Any, Any], None]) -> Any:
        def proposes(partition: Any, proposal: Any) -> None:
            propose(partition, proposal)
            for callback in list(self._callbacks):
                callback(machine, partition, proposal)

        return proposes
