"""Operations during faults: topics are created, grown and deleted, replicas and leaders move.

In: the cluster, a random generator. Out: commands through an `SimAdmin`. Never: a command that
would break the fault model (a replication factor below three); `settle` leaves nothing unfinished.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from tests.checker.history import Deleted
from tests.simulation.admin import SimAdmin
from tests.simulation.cluster import SimCluster
from tests.simulation.workload import Workload

PAUSE_S = (0.5, 5.0)
SETTLE_S = 40.0
MOVED, LED = "events", "orders"


MOVER_PAUSE_S = (0.2, 1.5)

MOST_GROWN = 4
"""Partitions of the topic that grows while clients use it."""
MOST_SHORT_LIVED = 2
EVERYTHING = 1 << 62
THROTTLES_BYTES = (4_000, 40_000)
"""Bytes per second; more than is written, so that a move ends."""


class Mover:
    """A second operator, who moves replicas between their brokers' log directories."""

    def __init__(self, cluster: SimCluster, admin: SimAdmin, dice: random.Random) -> None:
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
    """One operator. Invariant: `_temporary` names the topics created here and not yet deleted;
    `targets` are the partitions that clients use; created and deleted ones are updated there."""

    def __init__(
        self,
        cluster: SimCluster,
        admin: SimAdmin,
        dice: random.Random,
        targets: list[tuple[str, int]],
        workload: Workload,
    ) -> None:
        self.cluster, self.admin, self.dice, self.targets = cluster, admin, dice, targets
        self._temporary: list[str] = []
        self._made = 0
        self.kinds: list[tuple[int, Callable[[], Awaitable[bool]]]] = [
            (3, self._create), (2, self._grow), (2, self._delete), (3, self._reassign),
            (3, self._elect), (1, self._configure), (1, self._delete_records),
        ]  # fmt: skip
        if workload.growth:
            self.kinds.append((2, self._grow_in_use))
        if workload.short_lived:
            self.kinds += [(3, self._create_in_use), (2, self._delete_in_use)]
        if workload.throttled:
            self.kinds.append((3, self._throttle))

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
        """Deletes unused topics created here, in a healthy cluster."""
        until = self.admin.client.clock.monotonic() + SETTLE_S
        for topic in self._unused():
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
        names = self._unused()
        if not names:
            return True
        name = names[self.dice.randrange(0, len(names))]
        return await self.admin.grow(name, 4 + self.dice.randrange(0, 2))

    async def _delete(self) -> bool:
        names = self._unused()
        if not names:
            return True
        name = names[self.dice.randrange(0, len(names))]
        return await self.admin.delete(name)

    async def _grow_in_use(self) -> bool:
        """Adds a partition: clients write to it immediately; the existing ones keep their
        records."""
        count = sum(topic == MOVED for topic, _ in self.targets)
        if count >= MOST_GROWN:
            return True
        done = await self.admin.grow(MOVED, count + 1)
        if done:
            self.targets.append((MOVED, count))
        return done

    async def _create_in_use(self) -> bool:
        if len(self._short_lived()) >= MOST_SHORT_LIVED:
            return True
        self._made += 1
        name = f"short-lived-{self._made}"
        self._temporary.append(name)
        done = await self.admin.create(name, 1, self.cluster.replication_factor, {})
        if done:
            self.targets.append((name, 0))
        return done

    async def _delete_in_use(self) -> bool:
        """Deletes a topic with batches in flight. The event precedes the request: the answer may be
        lost."""
        names = self._short_lived()
        if not names:
            return True
        name = names[self.dice.randrange(0, len(names))]
        self.targets.remove((name, 0))
        client = self.admin.client
        self.admin.around.record(
            Deleted(at_ms=client.now_ms, topic=name, partition=0, before=EVERYTHING)
        )
        return await self.admin.delete(name)

    def _unused(self) -> list[str]:
        used = {topic for topic, _ in self.targets}
        return [topic for topic in self._temporary if topic not in used]

    def _short_lived(self) -> list[str]:
        return [topic for topic, _ in self.targets if topic in self._temporary]

    async def _throttle(self) -> bool:
        return await self.admin.throttle(MOVED, self.dice.randrange(*THROTTLES_BYTES))

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
