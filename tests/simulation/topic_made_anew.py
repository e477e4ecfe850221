"""A topic of the first site that grows, loses records, is deleted and made again while faults go on.

In: the story of a seed. Out: complaints. Never: a producer of the story's, whose records must not
be lost: an operator has deleted these.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bus.contracts.topics import CONTROL_MIRROR_CONFIRMED
from dr_mirror.switch.copy_again import ANOTHER, CopiedAgain
from dr_mirror.topics.states import MirrorState
from tests.checker.history import HistoryEvent
from tests.simulation.admin import SimAdmin
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.site_checks import MADE_ANEW as TOPIC
from tests.simulation.site_checks import both_sites, held_offsets, log_bounds
from tests.simulation.told_losses import MOST_RECORDS, ToldLosses

if TYPE_CHECKING:
    from tests.simulation.site_story import SiteSeedRun

MADE_S, NAMED_S, EQUAL_S = 60.0, 60.0, 90.0
MOST_PARTITIONS = 3
PAUSE_S = (0.1, 4.0)
TWICE = 0.3
"""Share of the worlds in which it is made anew a second time."""
UNREAD = 0.5
"""Share of what comes to it while no mirror runs: all that was not copied is deleted."""
COPIES = frozenset({MirrorState.COPYING, MirrorState.HOLE, MirrorState.MORE_PARTITIONS})


class TopicMadeAnew:
    """One operator of the first site and one of the second.

    Invariant: `_deleted` has, of each partition of the topic that there is, the offset below which
    records were to be deleted.
    """

    def __init__(self, run: SiteSeedRun) -> None:
        self._run = run
        self._dice = run.world.dice_of("a topic made anew")
        around = run.first.surroundings("operator")
        self._admin = SimAdmin("operator", replace(around, record=_pass_over))
        self._producer = SimProducer("anew", replace(around, record=_pass_over), ProducerKind())
        self._deleted: dict[int, int] = {}
        self.losses = ToldLosses(TOPIC)
        self.is_anew = False

    async def harm(self, until: float) -> None:
        """The topic, deleted and made again once or twice, each life with what comes to a topic: at
        any moment of the faults."""
        loop = self._run.world.loop
        if not await self._make(until + MADE_S):
            return
        for _ in range(2 if self._dice.random() < TWICE else 1):
            await self._live(loop.time() + max(until - loop.time(), 0.0) * self._dice.random())
            while not await self._admin.delete(TOPIC):
                await asyncio.sleep(0.5)
                if self._is_gone():
                    break  # only the answer was lost
                if loop.time() > until + MADE_S:
                    self._run.world.complain(f"{TOPIC} cannot be deleted")
                    return
            if not await self._run.world.until(self._is_gone, MADE_S):
                return  # with ZooKeeper a deletion waits for all brokers
            self.is_anew = await self._make(loop.time() + MADE_S)
            if not self.is_anew:
                return
        await self._live(until)

    async def lose_confirmations(self, until: float) -> None:
        """The topic that says what the second site holds is deleted once or twice; the mirror makes
        it again, and an edge goes on with the new one."""
        loop = self._run.world.loop
        for _ in range(1 + self._dice.randrange(0, 2)):
            await asyncio.sleep(max(until - loop.time(), 0.0) * self._dice.random())
            done = await self._admin.delete(CONTROL_MIRROR_CONFIRMED)
            self._run.world.trace(
                f"operator: {CONTROL_MIRROR_CONFIRMED} {'goes' if done else 'may go'}"
            )

    async def settle(self) -> None:
        """All is healed: it is named, or copied where nothing of the old one was; the operator of
        the second site begins it anew; both sites are the same then, and the old one is in files."""
        world = self._run.world
        if not self.is_anew or not log_bounds(self._run.first.cluster, TOPIC):
            return  # ZooKeeper deletes later: it was there still when it was to be made again
        await self._delete_surely()
        if not await world.until(self._is_named_or_equal, NAMED_S):
            world.complain(f"{TOPIC} was made anew, and the mirror does not say so: {self._said()}, "
                           f"{self._differs()}")  # fmt: skip
            return
        if self._said() & ANOTHER:
            bounds = log_bounds(self._run.second.cluster, TOPIC)
            held = held_offsets(self._run.second.cluster, TOPIC)
            command = world.loop.create_task(self._run.operator.copy_again(TOPIC))
            if not await world.until(command.done, EQUAL_S, 0.1):
                last = self._run.operator.refusals[-1:]
                world.complain(f"mirror copy-anew does not end: {last}")
                return
            for problem in await world.until_none(self._differs, EQUAL_S):
                world.complain(f"begun anew: {problem}")
            kept = [at for at in _kept(command.result()) if at[1] >= bounds[TOPIC, at[0]][0]]
            if kept != held:
                world.complain(f"{TOPIC}: {held} of the old one were there, {kept} are kept")
        for problem in self.losses.differences():
            world.complain(problem)

    # --- what comes to it ------------------------------------------------------------------------

    async def _live(self, ends: float) -> None:
        """Until a virtual time. Records come several at a time, so that a deletion may end within
        a batch."""
        loop, dice = self._run.world.loop, self._dice
        acts: list[Callable[[], Awaitable[object]]] = [
            self._write, self._write, self._write, self._delete_records, self._delete_records,
            self._grow,
        ]  # fmt: skip
        while loop.time() < ends:
            act = acts[dice.randrange(0, len(acts))]
            if not self._run.mirror.runs and dice.random() < UNREAD:
                act = self._delete_unread
            await act()
            low, high = PAUSE_S
            await asyncio.sleep(min(low + (high - low) * dice.random(), max(ends - loop.time(), 0)))

    async def _make(self, until: float) -> bool:
        self._deleted = {}
        count = 1 + self._dice.randrange(0, MOST_PARTITIONS)
        return await self._admin.create_surely(TOPIC, count, 3, {}, until)

    async def _write(self) -> None:
        index = self._dice.randrange(0, max(len(self._partitions()), 1))
        await self._producer.write(TOPIC, index, 1 + self._dice.randrange(0, MOST_RECORDS))

    async def _grow(self) -> None:
        count = len(self._partitions())
        if 0 < count < MOST_PARTITIONS:
            await self._admin.grow(TOPIC, count + 1)

    async def _delete_records(self) -> None:
        """Some or all, of one partition: also those that the mirror has not copied."""
        await self._write()
        for (_, index), (start, end) in sorted(log_bounds(self._run.first.cluster, TOPIC).items()):
            if start < end and self._dice.random() < 0.5:
                deleted = self._dice.randrange(0, 2 * (end - start))  # often all of them
                before = min(start + 1 + deleted, end)
                self._deleted[index] = max(before, self._deleted.get(index, 0))
                await self._admin.delete_records(TOPIC, index, before)

    async def _delete_unread(self) -> None:
        """All records of each partition, with one that no mirror can have read: what was copied
        goes on behind a hole."""
        for index in self._partitions():
            await self._producer.write(TOPIC, index, 1)
        for (_, index), (_, end) in sorted(log_bounds(self._run.first.cluster, TOPIC).items()):
            self._deleted[index] = max(end, self._deleted.get(index, 0))
            await self._admin.delete_records(TOPIC, index, end)

    async def _delete_surely(self) -> None:
        """What a leader that has died may have told nobody of."""
        bounds = log_bounds(self._run.first.cluster, TOPIC)
        for index, asked in sorted(self._deleted.items()):
            before = min(asked, bounds.get((TOPIC, index), (0, 0))[1])  # its end may have gone back
            ends = self._run.world.loop.time() + EQUAL_S
            while not await self._admin.delete_records(TOPIC, index, before):
                await asyncio.sleep(0.5)
                if self._run.world.loop.time() > ends:
                    self._run.world.complain(f"{TOPIC}-{index}: records cannot be deleted")
                    return

    # --- what there is ---------------------------------------------------------------------------

    def _partitions(self) -> list[int]:
        image = self._run.first.cluster.image()
        topic = image.topics.get(TOPIC) if image is not None else None
        return [] if topic is None else list(range(len(topic.partitions)))

    def _is_gone(self) -> bool:
        return not self._partitions()

    def _differs(self) -> list[str]:
        count = len(self._partitions())
        return both_sites(self._run.first.cluster, self._run.second.cluster, {TOPIC: count})

    def _is_named_or_equal(self) -> bool:
        said = self._said()
        return bool(said & ANOTHER) or (bool(said) and said <= COPIES and not self._differs())

    def _said(self) -> set[MirrorState]:
        mirror = self._run.mirror.mirror
        if mirror is None:
            return set()
        found = {plan.state for name, plan in mirror.copied.plans.items() if name == TOPIC}
        return found | {copy.state for place, copy in mirror.copied.copies.items() if place.topic == TOPIC}


def _kept(done: CopiedAgain) -> list[tuple[int, int]]:
    """Partitions and offsets of the records in files: whole batches, also where the log begins
    within one."""
    found = []
    for path in done.files:
        with open(path, encoding="utf-8") as file:
            found += [(line["partition"], line["offset"]) for line in map(json.loads, file)]
    return sorted(found)


def _pass_over(_: HistoryEvent) -> None:
    """What is deleted by an operator is no loss."""
