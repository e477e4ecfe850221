"""Faults timed for a quorum: power losses between a voter's answer and its fsync; a metadata log on
a broken disk.

In: the source of faults, whose random generator, network and fault model these use. Out: three
kinds of faults. Never: more than the fault model allows: one machine loses its power, the others
are killed or cut off.

A random power loss hits the milliseconds in which a vote is being stored once in thousands of
seeds. Here it is timed: a correct broker survives it, but a vote or an append that was answered
before it was stored leads to two leaders of one epoch or to two histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.disk import FLUSH_S, input_output_error, no_fault
from tests.simulation.machine import SimMachine
from tests.simulation.network import Cut

if TYPE_CHECKING:
    from tests.simulation.faults import Faults

SLOW_S = (0.3, 1.2)
"""Duration of a flush on the machine that will lose its power."""

ELECTION_S = 8.0
COMMIT_S = 6.0
APART_S = (4.0, 9.0)


class QuorumFaults:
    """Faults for three machines that all vote."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._world = faults.world
        self._machines = [
            machine
            for machine in faults.cluster.machines
            if machine.node_id in faults.cluster.voters
        ]

    async def power_in_election(self, _: SimMachine) -> None:
        """A voter whose vote has just been decisive loses power, and votes again together with one
        that does not know of that election."""
        active = self._faults.cluster.active_controllers()
        if len(active) != 1 or not self._is_whole():
            return
        old, before = active[0][0], active[0][1].epoch
        others = [machine for machine in self._machines if machine is not old]
        old.kill()
        for machine in others:
            machine.disk.flush_s = SLOW_S
        elected: list[SimMachine] = []

        def somebody_leads() -> bool:
            elected[:] = [m for m in others if self._leads(m, before)]
            return bool(elected)

        await self._world.until(somebody_leads, ELECTION_S, 0.001)
        for machine in others:
            machine.disk.flush_s = FLUSH_S
        if elected:
            voter = next(machine for machine in others if machine is not elected[0])
            await self._power_gone_apart(voter, elected[0], old)
        old.start()

    async def power_in_commit(self, _: SimMachine) -> None:
        """A follower whose append was decisive for a commit loses power, and elects a leader
        together with a voter that lacks the record."""
        active = self._faults.cluster.active_controllers()
        if len(active) != 1 or not self._is_whole():
            return
        leader = active[0][0]
        follower, absent = [machine for machine in self._machines if machine is not leader]
        absent.kill()
        follower.disk.flush_s = SLOW_S
        began = active[0][1].raft.high_watermark
        committed = await self._world.until(
            lambda: active[0][1].raft.high_watermark > began + 1, COMMIT_S, 0.001
        )
        follower.disk.flush_s = FLUSH_S
        if committed:
            await self._power_gone_apart(follower, leader, absent)
        absent.start()

    async def metadata_error(self, machine: SimMachine) -> None:
        """One call on the metadata log, or all of them for a while, fail with EIO."""
        dice = self._faults.dice
        calls, every = iter(range(dice.randrange(0, 40), -1, -1)), dice.random() < 0.5

        def fault(kind: str, path: str) -> None:
            if "__cluster_metadata" in path and next(calls, 0 if every else 1) == 0:
                self._world.trace(f"{machine.name}: {kind} of {path} fails")
                raise input_output_error(path)

        machine.break_disk(fault)
        await self._faults.for_a_while(2.0, 8.0)
        machine.break_disk(no_fault)

    async def _power_gone_apart(self, victim: SimMachine, apart: SimMachine, third: SimMachine) -> None:
        """Makes `victim` lose its power; with `third` it is a majority without `apart`, which is
        cut off."""
        if not self._faults.may_lose_power(victim):
            return
        network = self._world.network
        self._world.trace(f"{apart.name} is cut off, {victim.name} and {third.name} go on")
        for other in self._machines:
            if other is not apart:
                network.cut(apart.host, other.host, Cut.DROP)
                network.cut(other.host, apart.host, Cut.DROP)
        self._faults.power_goes(victim)
        victim.power_up()
        victim.start()
        third.start()
        await self._faults.for_a_while(*APART_S)
        self._faults.repair(apart)

    def _is_whole(self) -> bool:
        """Whether all voters serve and each of them may lose its power."""
        return all(m.broker and self._faults.may_lose_power(m) for m in self._machines)

    @staticmethod
    def _leads(machine: SimMachine, before: int) -> bool:
        broker = machine.broker
        node: Any = None if broker is None else broker.components.controller
        return node is not None and node.leader_id == machine.node_id and node.epoch > before
