"""Faults drawn from the seed, under the fault model of the design, until a given time.

In: the cluster, a random generator. Out: kills, power losses, pauses, partitions, slow and full
disks, clocks that jump; each ends after its time or in `heal`. Never: a second loss of power before
the first one's replicas were all in sync again (in ZooKeeper mode none beside a fault of the last
one in sync), and faults at more than `MOST_AT_ONCE` machines at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from tests.simulation.cluster import SimCluster
from tests.simulation.disk import CAPACITY_BYTES, FLUSH_S, input_output_error, no_fault
from tests.simulation.isr_faults import IsrFaults
from tests.simulation.machine import SimMachine
from tests.simulation.network import Cut
from tests.simulation.observer import Observer
from tests.simulation.quorum_faults import QuorumFaults

MOST_AT_ONCE = 2
PAUSE_BETWEEN_S = (0.3, 4.0)
LONGEST_CATCH_UP_S = 20.0  # in virtual time; then other faults continue

DISK_CALLS = ("", "write", "flush", "read", "truncate", "rename", "remove", "open", "stat")
"""Kinds of calls that a bad disk refuses; the empty one means all."""

Fault = Callable[[SimMachine], Awaitable[None]]


class Faults:
    """One source of faults. Invariant: `_busy` holds the machines with a current fault."""

    def __init__(
        self,
        cluster: SimCluster,
        observer: Observer,
        dice: random.Random,
        only: Sequence[str] = (),
    ) -> None:
        """`only`: names of the kinds to draw from, such as `power`; all kinds if it is empty."""
        self.cluster, self.observer, self.dice = cluster, observer, dice
        self.world = cluster.world
        self._busy: set[int] = set()
        self._power_lost_on: int | None = None
        self._is_alone = False
        self._tasks: list[asyncio.Task[None]] = []
        self.kinds: list[tuple[int, Fault]] = [
            (6, self._kill),
            (3, self._kill_in_mid_write),
            (2, self._kill_two),
            (3, self._power),
            (4, self._pause),
            (3, self._isolate),
            (4, self._cut_pair),
            (2, self._slow_link),
            (3, self._stop),
            (2, self._slow_disk),
            (1, self._stalled_disk),
            (2, self._full_disk),
            (1, self._clock_jumps),
            (3, self._kill_controller),
        ]
        if len(cluster.machines) == 1:
            alone = (self._power, self._isolate, self._cut_pair, self._kill_two)
            self.kinds = [one for one in self.kinds if one[1] not in alone]
        if cluster.ensemble is not None:
            self.kinds += [(3, self._expire_session), (3, self._cut_from_zookeeper)]
            self.kinds.append((1, self._zookeeper_goes_away))
            self.kinds.append((2, self._power_beside_another_fault))
        elif len(cluster.voters) == 3:
            in_sync = IsrFaults(self)
            self.kinds += [(2, in_sync.cut_at_rejoin), (2, in_sync.followers_are_cut_off)]
            quorum = QuorumFaults(self)
            self.kinds += [(1, quorum.power_in_election), (1, quorum.power_in_commit)]
            self.kinds.append((1, quorum.metadata_error))
        self.kinds.append((1, self._bad_disk_at_start))
        if len(cluster.log_dirs) > 1:
            self.kinds += [(4, self._bad_disk), (2, self._bad_disk_at_start)]
        if only:
            self.kinds = [one for one in self.kinds if one[1].__name__.strip("_") in only]

    async def run(self, until: float) -> None:
        """Injects faults until a virtual time; every fault has ended when this returns."""
        loop, dice = self.world.loop, self.dice
        total = sum(weight for weight, _ in self.kinds)
        while loop.time() < until:
            low, high = PAUSE_BETWEEN_S
            await asyncio.sleep(low + (high - low) * dice.random())
            chosen = dice.randrange(0, total)
            for weight, fault in self.kinds:
                chosen -= weight
                if chosen < 0:
                    self._begin(fault)
                    break
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, fault: Fault) -> None:
        free = [m for m in self.cluster.machines if m.node_id not in self._busy]
        if not free or len(self._busy) >= MOST_AT_ONCE or self._is_alone:
            return
        machine = free[self.dice.randrange(0, len(free))]
        self._busy.add(machine.node_id)
        self._tasks.append(self.world.loop.create_task(self._one(fault, machine)))

    async def _one(self, fault: Fault, machine: SimMachine) -> None:
        try:
            await fault(machine)
        finally:
            self._busy.discard(machine.node_id)

    def heal(self) -> None:
        """Repairs everything and starts all machines."""
        self.world.trace("all is healed")
        self.world.network.heal()
        self.heal_machines()

    def heal_machines(self) -> None:
        """All but the network, which other clusters may use."""
        if self.cluster.ensemble is not None:
            self.cluster.ensemble.heal()
        for machine in self.cluster.machines:
            machine.disk.capacity_bytes = CAPACITY_BYTES
            machine.disk.flush_s = FLUSH_S
            machine.break_disk(no_fault)
            if not machine.powered:
                machine.power_up()
            machine.resume()
            if machine.process is not None:
                machine.process.disk.die_after = None
                machine.process.asked_to_stop = False  # a stopping one is restarted
            machine.start()

    async def for_a_while(self, low_s: float, high_s: float) -> None:
        """Waits for a random time."""
        await asyncio.sleep(low_s + (high_s - low_s) * self.dice.random())

    # --- processes -------------------------------------------------------------------------------

    async def _kill(self, machine: SimMachine) -> None:
        machine.kill()
        await self.for_a_while(0.1, 12.0)
        machine.start()

    async def _kill_controller(self, machine: SimMachine) -> None:
        active = self.cluster.active_controllers()
        if active:
            machine = active[0][0]
            self.world.trace(f"the active controller is {machine.name}")
        await self._kill(machine)

    async def _kill_two(self, machine: SimMachine) -> None:
        others = [m for m in self.cluster.machines if m is not machine]
        other = others[self.dice.randrange(0, len(others))]
        machine.kill()
        await self.for_a_while(0.0, 0.5)
        other.kill()
        await self.for_a_while(0.1, 5.0)
        machine.start()
        await self.for_a_while(0.0, 3.0)
        other.start()

    async def _kill_in_mid_write(self, machine: SimMachine) -> None:
        machine.kill_in_mid_write(self.dice.randrange(0, 40))
        await self.world.until(lambda: not machine.alive, 3.0)
        machine.kill()
        await self.for_a_while(0.1, 6.0)
        machine.start()

    async def _stop(self, machine: SimMachine) -> None:
        machine.stop()
        if not await self.world.until(lambda: not machine.alive, 15.0):
            self.world.trace(f"{machine.name} does not stop in 15 s")
            machine.kill()
        await self.for_a_while(0.1, 5.0)
        machine.start()

    async def _pause(self, machine: SimMachine) -> None:
        machine.pause()
        await self.for_a_while(0.2, 14.0)
        machine.resume()

    async def _power(self, machine: SimMachine) -> None:
        if not self.may_lose_power(machine):
            return
        self._is_alone = self.cluster.ensemble is not None
        self.power_goes(machine)
        await self.for_a_while(0.5, 12.0)
        machine.power_up()
        await self.for_a_while(0.0, 0.5)
        machine.start()
        if self._is_alone:
            await self.world.until(self._all_in_sync, LONGEST_CATCH_UP_S)
            self._is_alone = False

    async def _power_beside_another_fault(self, machine: SimMachine) -> None:
        """ZooKeeper mode: all replicas were in sync, another broker has a fault, and this one loses
        its power. A third one is in sync and has no fault until all are in sync again, so that the
        broker that lost records is never the last in sync."""
        if self._busy != {machine.node_id} or not self._all_in_sync():
            return
        others = [m for m in self.cluster.machines if m is not machine]
        other = others[self.dice.randrange(0, len(others))]
        beside = (
            self._kill, self._kill_in_mid_write, self._stop, self._pause, self._isolate,
            self._slow_disk, self._stalled_disk, self._full_disk, self._clock_jumps,
            self._expire_session, self._cut_from_zookeeper,
        )  # fmt: skip
        self._is_alone = True
        self._busy.add(other.node_id)
        fault = beside[self.dice.randrange(0, len(beside))]
        trouble = self.world.loop.create_task(self._one(fault, other))
        self._tasks.append(trouble)
        await self.for_a_while(0.0, 8.0)
        if self._leaves_one_in_sync(machine):
            self.power_goes(machine)
            await self.for_a_while(0.5, 12.0)
            machine.power_up()
            machine.start()
        await asyncio.wait((trouble,))
        await self.world.until(self._all_in_sync, LONGEST_CATCH_UP_S)
        self._is_alone = False

    def _leaves_one_in_sync(self, machine: SimMachine) -> bool:
        """Whether every partition has another replica in sync whose broker serves."""
        image = self.cluster.image()
        serving = {m.node_id for m, _ in self.cluster.serving()} - {machine.node_id}
        return image is not None and len(self.cluster.active_controllers()) == 1 and all(
            serving & set(partition.isr)
            for topic in image.topics.values()
            for partition in topic.partitions
        )

    def power_goes(self, machine: SimMachine) -> None:
        """Takes a machine's power now."""
        self._power_lost_on = machine.node_id
        self.observer.on_power_loss(machine.node_id)
        machine.lose_power()

    def may_lose_power(self, machine: SimMachine) -> bool:
        """The fault model: fewer than min.insync.replicas (2) lose unflushed writes between two
        full catch-ups. ZooKeeper mode (no ELR) does not survive it if the last replica in sync
        loses them, or has lost them before it becomes the last: there everything has to be in sync
        and healthy, and stays so until the machine that lost its power has caught up."""
        caught_up = self._all_in_sync()
        if caught_up:
            self._power_lost_on = None
        if self._power_lost_on not in (None, machine.node_id):
            return False
        return self.cluster.ensemble is None or (caught_up and self._busy == {machine.node_id})

    def _all_in_sync(self) -> bool:
        image = self.cluster.image()
        if image is None or len(self.cluster.serving()) < len(self.cluster.machines):
            return False
        return all(
            set(partition.isr) == set(partition.replicas)
            for topic in image.topics.values()
            for partition in topic.partitions
        )

    # --- network ---------------------------------------------------------------------------------

    def _how(self) -> Cut:
        return Cut.DROP if self.dice.random() < 0.7 else Cut.REJECT

    async def _isolate(self, machine: SimMachine) -> None:
        """Cuts a machine from all other brokers, sometimes in one direction only; clients still
        reach it."""
        how, direction = self._how(), self.dice.randrange(0, 4)
        self.world.trace(f"{machine.name} is cut off ({how.value}, direction {direction})")
        for other in self.cluster.machines:
            if other is not machine:
                if direction != 1:
                    self.world.network.cut(machine.host, other.host, how)
                if direction != 2:
                    self.world.network.cut(other.host, machine.host, how)
        await self.for_a_while(1.0, 14.0)
        self.repair(machine)

    def repair(self, machine: SimMachine) -> None:
        """Repairs the machine's links."""
        self.world.trace(f"{machine.name} is reachable again")
        network = self.world.network
        for other in self.cluster.machines:
            network.repair(machine.host, other.host)
            network.repair(other.host, machine.host)

    async def _cut_pair(self, machine: SimMachine) -> None:
        others = [m for m in self.cluster.machines if m is not machine]
        other = others[self.dice.randrange(0, len(others))]
        how = self._how()
        self.world.trace(f"{machine.name} and {other.name} do not reach each other ({how.value})")
        self.world.network.cut(machine.host, other.host, how)
        self.world.network.cut(other.host, machine.host, how)
        await self.for_a_while(1.0, 14.0)
        self.repair(machine)

    async def _slow_link(self, machine: SimMachine) -> None:
        slow_s = 0.02 + 0.5 * self.dice.random()
        self.world.trace(f"{machine.name}'s links are slow ({slow_s:.3f} s)")
        for other in self.cluster.machines:
            self.world.network.link(machine.host, other.host).slow_s = slow_s
        await self.for_a_while(1.0, 8.0)
        for other in self.cluster.machines:
            self.world.network.link(machine.host, other.host).slow_s = 0.0

    # --- disks and clocks ------------------------------------------------------------------------

    async def _slow_disk(self, machine: SimMachine) -> None:
        self.world.trace(f"{machine.name}'s disk flushes slowly")
        machine.disk.flush_s = (0.1, 1.5)
        await self.for_a_while(2.0, 10.0)
        machine.disk.flush_s = FLUSH_S

    async def _stalled_disk(self, machine: SimMachine) -> None:
        """Each flush takes seconds; only operations that need it may wait for it."""
        self.world.trace(f"{machine.name}'s disk stalls")
        machine.disk.flush_s = (1.0, 4.0)
        await self.for_a_while(3.0, 12.0)
        machine.disk.flush_s = FLUSH_S

    async def _full_disk(self, machine: SimMachine) -> None:
        room = self.dice.randrange(0, 20_000)
        self.world.trace(f"{machine.name}'s disk has {room} bytes left")
        machine.disk.fill_up(room)
        await self.for_a_while(1.0, 8.0)
        machine.disk.capacity_bytes = CAPACITY_BYTES
        self.world.trace(f"{machine.name}'s disk has room again")
        await self.for_a_while(0.0, 2.0)
        # A failed log directory stays offline until the broker restarts, as in Kafka.
        machine.kill()
        await self.for_a_while(0.1, 1.0)
        machine.start()

    async def _bad_disk(self, machine: SimMachine) -> None:
        """After some calls one log directory answers EIO to one kind of call or to all. Raft's log
        is excluded: a voter that cannot write it ends on purpose."""
        if machine.broker is None or not self._may_be_in_doubt(machine):
            return
        self._break_a_directory(machine, "/__cluster_metadata-0")
        try:
            await self.for_a_while(1.0, 10.0)
        finally:
            await self._replace_disk(machine)

    async def _bad_disk_at_start(self, machine: SimMachine) -> None:
        """Does the same while the broker starts. Without its metadata, or without any directory,
        the broker ends and is restarted until the disk is replaced."""
        if machine.broker is None or not self._may_be_in_doubt(machine):
            return
        machine.kill()
        await self.for_a_while(0.1, 3.0)
        self._break_a_directory(machine)
        machine.start()
        try:
            await self.for_a_while(2.0, 10.0)
        finally:
            await self._replace_disk(machine)

    async def _replace_disk(self, machine: SimMachine) -> None:
        """Repairs the disk and restarts the broker: failed directories stay offline until then."""
        machine.break_disk(no_fault)
        machine.kill()
        await self.for_a_while(0.1, 1.0)
        machine.start()

    def _break_a_directory(self, machine: SimMachine, spared: str = "\n") -> None:
        """Breaks one directory after some calls; `spared`: paths that contain this still work."""
        directories = machine.properties(machine.node_id)["log.dirs"].split(",")
        directory = directories[self.dice.randrange(0, len(directories))]
        kind = DISK_CALLS[self.dice.randrange(0, len(DISK_CALLS))]
        left = self.dice.randrange(0, 60)

        def fault(call: str, path: str) -> None:
            nonlocal left
            if not f"{path}/".startswith(directory + "/") or spared in path:
                return
            if kind in (call, ""):
                left -= 1
                if left == -1:
                    self.world.trace(f"{machine.name}: {call} of {path} fails, and so on")
                if left < 0:
                    raise input_output_error(path)

        machine.break_disk(fault)

    def _may_be_in_doubt(self, machine: SimMachine) -> bool:
        """Whether the broker's logs may be incomplete: after a disk failure it cannot prove at the
        next start that they are complete, which a quorum treats as a power loss."""
        if self.cluster.ensemble is not None:
            return True
        if not self.may_lose_power(machine):
            return False
        self._power_lost_on = machine.node_id
        return True

    async def _clock_jumps(self, machine: SimMachine) -> None:
        machine.jump_clock(self.dice.randrange(-600_000, 600_000))
        await self.for_a_while(0.1, 1.0)

    # --- ZooKeeper -------------------------------------------------------------------------------

    async def _expire_session(self, machine: SimMachine) -> None:
        self.cluster.ensemble.expire(machine.node_id)
        await self.for_a_while(0.5, 3.0)

    async def _cut_from_zookeeper(self, machine: SimMachine) -> None:
        self.cluster.ensemble.cut(machine.node_id)
        await self.for_a_while(0.5, 12.0)
        self.cluster.ensemble.repair(machine.node_id)

    async def _zookeeper_goes_away(self, machine: SimMachine) -> None:
        self.cluster.ensemble.go_away()
        await self.for_a_while(0.5, 12.0)
        self.cluster.ensemble.come_back()
