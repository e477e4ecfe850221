"""What operators do while there is trouble: topics come, grow and go, replicas move, leaders change.

In: the cluster, dice. Out: orders through an `Admin`. Never: an order that would break the fault
model (a replication factor below three); `settle` leaves nothing half done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.simulation.admin import Admin
from tests.simulation.cluster import Cluster

PAUSE_S = (0.5, 5.0)
SETTLE_S = 40.0
MOVED, LED = "events", "orders"


MOVER_PAUSE_S = (0.2, 1.5)


class Mover:
    """Another operator, who moves replicas between their brokers' several log directories."""

    def __init__(self, cluster: Cluster, admin: Admin, dice: random.Random) -> None:
        self.cluster, self.admin, self.dice = cluster, admin, dice

    async def run(self, until: float) -> None:
        """Orders until a virtual time."""
        machines, directories = self.cluster.machines, self.cluster.log_dirs
        while self.admin.client.clock.monotonic() < until:
            low, high = MOVER_PAUSE_S
            await asyncio.sleep(low + (high - low) * self.dice.random())
            node = machines[self.dice.randrange(0, len(machines))].node_id
            topic, partition = (MOVED, LED)[self.dice.randrange(0, 2)], self.dice.randrange(0, 2)
            directory = directories[self.dice.randrange(0, len(directories))]
            done = await self.admin.move_directory(node, topic, partition, directory)
            self.cluster.world.trace(
                f"mover: {topic}-{partition} of {node} to {directory} {'goes' if done else 'fails'}"
            )


class Operations:
    """One operator's day. Invariant: `_temporary` names the topics made here and not yet gone."""

    def __init__(self, cluster: Cluster, admin: Admin, dice: random.Random) -> None:
        self.cluster, self.admin, self.dice = cluster, admin, dice
        self._temporary: list[str] = []
        self._made = 0
        self.kinds: list[tuple[int, Callable[[], Awaitable[bool]]]] = [
            (3, self._create), (2, self._grow), (2, self._delete), (3, self._reassign),
            (3, self._elect), (1, self._configure), (1, self._delete_records),
        ]  # fmt: skip

    async def run(self, until: float) -> None:
        """Orders until a virtual time."""
        total = sum(weight for weight, _ in self.kinds)
        while self.admin.client.clock.monotonic() < until:
            low, high = PAUSE_S
            await asyncio.sleep(low + (high - low) * self.dice.random())
            chosen = self.dice.randrange(0, total)
            for weight, order in self.kinds:
                chosen -= weight
                if chosen < 0:
                    done = await order()
                    name = order.__name__.strip("_")  # type: ignore[attr-defined]
                    self.cluster.world.trace(f"operator: {name} {'done' if done else 'failed'}")
                    break

    async def settle(self) -> None:
        """Delete what was made here, in a cluster that is whole again."""
        until = self.admin.client.clock.monotonic() + SETTLE_S
        for topic in list(self._temporary):
            while not await self.admin.delete(topic):
                await self.admin.client.refresh_quietly([topic])
                if topic not in self.admin.client.topics:
                    break
                if self.admin.client.clock.monotonic() > until:
                    self.cluster.world.complain(f"topic {topic} cannot be deleted after healing")
                    return
                await asyncio.sleep(0.5)

    async def _create(self) -> bool:
        self._made += 1
        name = f"temporary-{self._made}"
        self._temporary.append(name)
        copies = self.cluster.replication_factor
        return await self.admin.create(name, 1 + self.dice.randrange(0, 3), copies, {})

    async def _grow(self) -> bool:
        if not self._temporary:
            return True
        name = self._temporary[self.dice.randrange(0, len(self._temporary))]
        return await self.admin.grow(name, 4 + self.dice.randrange(0, 2))

    async def _delete(self) -> bool:
        if not self._temporary:
            return True
        name = self._temporary[self.dice.randrange(0, len(self._temporary))]
        return await self.admin.delete(name)

    async def _reassign(self) -> bool:
        nodes = [machine.node_id for machine in self.cluster.machines]
        self.dice.shuffle(nodes)
        partition = self.dice.randrange(0, 2)
        if self.dice.random() < 0.2:
            return await self.admin.reassign(MOVED, partition, None)
        return await self.admin.reassign(MOVED, partition, nodes[:3])

    async def _elect(self) -> bool:
        return await self.admin.elect_preferred(LED, [0, 1, 2])

    async def _configure(self) -> bool:
        value = str(3000 + self.dice.randrange(0, 4000))
        return await self.admin.configure(LED, "segment.ms", value)

    async def _delete_records(self) -> bool:
        image = self.cluster.image()
        if image is None or MOVED not in image.topics:
            return False
        return await self.admin.delete_records(MOVED, 0, self.dice.randrange(0, 30))
