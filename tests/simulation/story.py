"""The story of one seed: a cluster, clients, faults; then healing, and all must be healthy again.

In: a seed, which controller, how long. Out: `Outcome` with all violations. Never: a check of
records (`tests.checker.rules` has those) or of brokers (`observer`); this module checks liveness:
within `RECOVERY_S` after healing everything works and agrees.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from tests.checker import rules
from tests.checker.history import Healed, ReplicaStateEvent
from tests.simulation.admin import SimAdmin
from tests.simulation.aftermath import (
    is_in_sync,
    replica_states,
    what_differs_at_rest,
    what_is_wrong,
)
from tests.simulation.cluster import SimCluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.faults import Faults
from tests.simulation.guests import COME, Guests
from tests.simulation.kio_dialect import KIO
from tests.simulation.log_starts import LogStarts
from tests.simulation.loop import Stuck
from tests.simulation.member import Member
from tests.simulation.membership import Ownership
from tests.simulation.observer import Observer
from tests.simulation.operations import Mover, Operations
from tests.simulation.producer import LOST_ACKS, MOST_IN_FLIGHT, ProducerKind, SimProducer
from tests.simulation.workload import AGED, TOPICS, Workload, draw
from tests.simulation.world import SimWorld

START_WITHIN_S = 30.0
TROUBLE_S = 40.0
RECOVERY_S = 60.0
"""Longer than a session, an election, a full catch-up and a rebalance one after the other."""
DRAIN_S = 60.0
READ_S = 20.0


@dataclass(slots=True)
class Outcome:
    """The result of one seed. Invariant: an empty `wrong` means that no check failed."""

    seed: int
    controller: str
    wrong: list[str] = field(default_factory=list)
    digest: str = ""
    acknowledged: int = 0
    steps: int = 0
    virtual_s: float = 0.0


class SeedRun:
    """One world from its beginning to its end."""

    def __init__(
        self,
        seed: int,
        controller: str = "kraft",
        *,
        brokers: int | None = None,
        trouble_s: float = TROUBLE_S,
        faults: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        workload: Workload | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """`workload`: the world's additional workload; None: the one drawn from the seed."""
        self.seed, self.controller, self.trouble_s = seed, controller, trouble_s
        self.world = SimWorld(f"{controller}-{seed}", show=show)
        if brokers is None:
            brokers = 3 if self.world.dice.random() < 0.8 else 5
        self.workload = workload or draw(self.world.dice_of("workload"), brokers)
        more = self.workload.properties | dict(properties or {})
        cleans = self.workload.cleaned
        self.cluster = SimCluster(self.world, brokers, controller, more, cleans=cleans)
        self.observer = Observer(self.cluster)
        self.faults = Faults(self.cluster, self.observer, self.world.dice_of("faults"), faults)
        self.targets = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        self.aged = [(AGED, 0)] if self.workload.retention else []
        self.ownership = Ownership(self.world.complain)
        self.producers: list[SimProducer] = []
        self.members: list[Member] = []
        self.consumers: list[SimConsumer] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._moving: asyncio.Task[None] | None = None

    def run(self) -> Outcome:
        """Runs the story; never raises for a broker's fault."""
        outcome = Outcome(self.seed, self.controller)
        try:
            self.world.run(self._play())
        except Stuck as stuck:
            self.world.complain(f"stuck: {stuck}")
        outcome.wrong = [*self.world.complaints, *map(str, rules.check(self.world.history))]
        outcome.digest = self.world.digest
        outcome.acknowledged = sum(producer.acknowledged for producer in self.producers)
        outcome.steps, outcome.virtual_s = self.world.loop.steps, self.world.now_s
        self.world.end()
        return outcome

    async def _play(self) -> None:
        if not await self._begin():
            return
        world, loop = self.world, self.world.loop
        operations = Operations(
            self.cluster, self._admin("operator"), world.dice_of("operations"), self.targets,
            self.workload,
        )  # fmt: skip
        busy = loop.create_task(operations.run(loop.time() + self.trouble_s))
        if len(self.cluster.log_dirs) > 1:
            mover = Mover(self.cluster, self._admin("mover"), world.dice_of("mover"))
            self._moving = loop.create_task(mover.run(loop.time() + self.trouble_s))
        visit = loop.create_task(self._guests(loop.time() + self.trouble_s))
        await self.faults.run(loop.time() + self.trouble_s)
        self.faults.heal()
        await busy
        await visit
        if self._moving is not None:
            await self._moving
            await self._repair_directories()
        await operations.settle()
        world.record(Healed(at_ms=self.producers[0].client.now_ms))
        await self._recover()
        await self._drain()
        await self._read_all()
        self._tasks[0].cancel()

    async def _begin(self) -> bool:
        self.cluster.start()
        serving = self.cluster.serving
        count = len(self.cluster.machines)
        if not await self.world.until(lambda: len(serving()) == count, START_WITHIN_S):
            self.world.complain(f"{len(serving())} of {count} brokers serve after the start")
            return False
        admin = self._admin("founder")
        for topic, partitions in self.workload.topics.items():
            configs = self.workload.configs(topic)
            until = self.world.loop.time() + START_WITHIN_S
            copies = self.cluster.replication_factor
            if not await admin.create_surely(topic, partitions, copies, configs, until):
                self.world.complain(f"topic {topic} could not be made on a sound cluster")
                return False
        self._begin_clients()
        return True

    def _admin(self, name: str) -> SimAdmin:
        return SimAdmin(name, self.world.client_surroundings(name, self.cluster.bootstrap))

    def _begin_clients(self) -> None:
        self._spawn(self.observer.run())
        many = {"in_flight": MOST_IN_FLIGHT, "lost_acks": LOST_ACKS}
        kinds = [
            ProducerKind(**many), ProducerKind(**many, dialect=KIO), ProducerKind(idempotent=False),
            ProducerKind(acks=1, idempotent=False), ProducerKind(acks=0, idempotent=False),
        ]  # fmt: skip
        for kind in kinds:
            self._begin_producer(kind, self.targets)
        self._begin_reader("reader", self.targets)
        if self.aged:
            self._begin_producer(ProducerKind(idempotent=False), self.aged)
            self._begin_reader("aged-reader", self.aged)
            self.observer.also.append(LogStarts(self.cluster).check)
        for number in range(2):
            around = self.world.client_surroundings(f"m{number}", self.cluster.bootstrap)
            member = Member(
                f"m{number}", around, "group", self.workload.membership, self.ownership
            )
            self.members.append(member)
            around.clock.spawn(member.run(list(self.workload.topics)), name=f"m{number}")

    def _begin_producer(self, kind: ProducerKind, targets: list[tuple[str, int]]) -> None:
        name = f"p{len(self.producers)}"
        around = self.world.client_surroundings(name, self.cluster.bootstrap)
        producer = SimProducer(name, around, kind)
        self.producers.append(producer)
        pause_s = 0.25 if kind.acks == -1 else 1.0
        around.clock.spawn(producer.run(targets, pause_s), name=name)

    def _begin_reader(self, name: str, targets: list[tuple[str, int]]) -> None:
        around = self.world.client_surroundings(name, self.cluster.bootstrap)
        reader = SimConsumer(name, around, KIO)
        self.consumers.append(reader)
        around.clock.spawn(reader.run(targets), name=name)

    def _spawn(self, coroutine: object) -> None:
        self._tasks.append(self.world.loop.create_task(coroutine))  # type: ignore[arg-type]

    async def _guests(self, until: float) -> None:
        """Adds misbehaving clients in some worlds."""
        dice = self.world.dice_of("guests")
        if dice.random() >= COME:
            return
        guests = Guests(self.cluster, dice)
        self.observer.also.append(guests.check)
        await guests.run(until)

    # --- after healing ---------------------------------------------------------------------------

    async def _repair_directories(self) -> None:
        """Restarts brokers with offline directories one after the other: a directory that was full
        stays offline until then (KIP-112). A broker that has lost all its directories ends
        itself."""
        for machine in self.cluster.machines:
            broker = machine.broker
            if broker is None or not broker.components.replicas.offline_dirs:
                continue
            self.world.trace(f"operator: {machine.name} has a failed directory")
            machine.kill()
            machine.start()
            in_sync = partial(is_in_sync, self.cluster, machine)
            await self.world.until(in_sync, RECOVERY_S, 0.25)

    async def _recover(self) -> None:
        """Checks that everything is available, in sync and agreed on within the time."""
        for problem in await self.world.until_none(partial(what_is_wrong, self.cluster), RECOVERY_S):
            self.world.complain(f"{RECOVERY_S:g} s after healing: {problem}")
        before = [producer.acknowledged for producer in self.producers]
        commits = [member.commits for member in self.members]

        def all_go_on() -> bool:
            now = [producer.acknowledged for producer in self.producers]
            going = sum(member.commits for member in self.members) > sum(commits) + 1
            return going and all(b > a for a, b in zip(before, now, strict=True))

        if not await self.world.until(all_go_on, RECOVERY_S):
            self.world.complain(
                f"clients do not go on after healing: acknowledged {before} -> "
                f"{[p.acknowledged for p in self.producers]}, commits {commits} -> "
                f"{[m.commits for m in self.members]}"
            )
        await self.world.until(lambda: not self.ownership.without_owner(), RECOVERY_S)
        for topic, partition in self.ownership.without_owner():
            self.world.complain(f"no member of the group reads {topic}-{partition}")

    async def _drain(self) -> None:
        """Stops the clients and waits until every batch in flight is decided."""
        for client in (*self.producers, *self.members, *self.consumers):
            client.stopping = True
        clocks = [one.around.clock for one in (*self.producers, *self.members, *self.consumers)]
        done = lambda: all(task.done() for clock in clocks for task in clock.tasks)  # noqa: E731
        if not await self.world.until(done, DRAIN_S):
            self.world.complain("clients have requests that nobody answers")
        await self.world.until(lambda: not what_is_wrong(self.cluster), RECOVERY_S, 0.25)
        differs = partial(what_differs_at_rest, self.cluster)
        for problem in await self.world.until_none(differs, RECOVERY_S):
            self.world.complain(f"{RECOVERY_S:g} s after the last write: {problem}")

    async def _read_all(self) -> None:
        around = self.world.client_surroundings("auditor", self.cluster.bootstrap)
        auditor = SimConsumer("auditor", around, KIO)
        for topic, partition in [*self.targets, *self.aged]:
            until = self.world.loop.time() + READ_S
            if await auditor.read_all(topic, partition, until) is None:
                self.world.complain(f"{topic}-{partition} cannot be read to its end")
        self.observer.check()
        for state in replica_states(self.cluster, around.clock.now_ms()):
            if self._is_compared(state):
                self.world.record(state)

    def _is_compared(self, state: ReplicaStateEvent) -> bool:
        """Whether the bytes of its replicas are the same."""
        return True


def run_seed(seed: int, controller: str = "kraft", **more: object) -> Outcome:
    """Runs the story of one seed."""
    return SeedRun(seed, controller, **more).run()  # type: ignore[arg-type]
