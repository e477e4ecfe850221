"""A topic that is deleted and made again at the first site while faults go on.

In: the story of a seed. Out: complaints. Never: a producer of the story's, whose records must not
be lost: an operator has deleted these.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dr_mirror.plan.states import MirrorState
from dr_mirror.switch.copy_anew import ANOTHER
from tests.checker.history import HistoryEvent
from tests.simulation.admin import SimAdmin
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.site_checks import MADE_ANEW as TOPIC
from tests.simulation.site_checks import both_sites, log_ends

if TYPE_CHECKING:
    from tests.simulation.site_story import SimSite, SiteSeedRun

ONE = {TOPIC: 1}
MADE_S, NAMED_S, EQUAL_S = 60.0, 60.0, 90.0
LIVES = 4
"""Batches of each life of the topic, at most."""


class TopicMadeAnew:
    """One operator of the first site and one of the second. Invariant: `held` is what the second
    site had of the old topic when the new one was there."""

    def __init__(self, run: SiteSeedRun) -> None:
        self._run = run
        self._dice = run.world.dice_of("a topic made anew")
        around = run.first.surroundings("operator")
        self._admin = SimAdmin("operator", replace(around, record=_pass_over))
        self._producer = SimProducer("anew", replace(around, record=_pass_over), ProducerKind())
        self.is_anew = False

    async def harm(self, until: float) -> None:
        """The topic, some records, deleted, made again, other records: at any moment of the
        faults."""
        loop = self._run.world.loop
        if not await self._make(until + MADE_S):
            return
        await self._write()
        await asyncio.sleep(max(until - loop.time(), 0.0) * self._dice.random())
        while not await self._admin.delete(TOPIC):
            await asyncio.sleep(0.5)
            if loop.time() > until + MADE_S:
                self._run.world.complain(f"{TOPIC} cannot be deleted")
                return
        is_gone = partial(self._is_gone, self._run.first)
        if not await self._run.world.until(is_gone, MADE_S):
            return  # with ZooKeeper a deletion waits for all brokers
        self.is_anew = await self._make(loop.time() + MADE_S)
        await self._write()

    async def settle(self) -> None:
        """All is healed: it is named, or copied where nothing of the old one was; the operator of
        the second site begins it anew; both sites are the same then, and the old one is in files."""
        world = self._run.world
        if not self.is_anew or not log_ends(self._run.first.cluster, ONE):
            return  # ZooKeeper deletes later: it was there still when it was to be made again
        held = log_ends(self._run.second.cluster, ONE).get((TOPIC, 0), 0)
        if not await world.until(self._is_named_or_equal, NAMED_S):
            world.complain(f"{TOPIC} was made anew, and the mirror does not say so: {self._said()}")
            return
        if not self._said() & ANOTHER:
            return
        command = world.loop.create_task(self._run.operator.copy_anew(TOPIC))
        if not await world.until(command.done, EQUAL_S, 0.1):
            last = self._run.operator.refusals[-1:]
            world.complain(f"mirror copy-anew does not end: {last}")
            return
        for problem in await world.until_none(self._differs, EQUAL_S):
            world.complain(f"begun anew: {problem}")
        kept = [
            json.loads(line)["offset"]
            for path in command.result().files
            for line in open(path, encoding="utf-8")  # noqa: SIM115
        ]
        if len(kept) != held:
            world.complain(f"{TOPIC}: {held} records of the old one were there, {len(kept)} are kept")

    def _is_gone(self, site: SimSite) -> bool:
        return not log_ends(site.cluster, ONE)

    def _differs(self) -> list[str]:
        return both_sites(self._run.first.cluster, self._run.second.cluster, ONE)

    def _is_named_or_equal(self) -> bool:
        said = self._said()
        return bool(said & ANOTHER) or (said == {MirrorState.COPYING} and not self._differs())

    def _said(self) -> set[MirrorState]:
        mirror = self._run.mirror.mirror
        if mirror is None:
            return set()
        found = {plan.state for name, plan in mirror.plans.items() if name == TOPIC}
        return found | {copy.state for place, copy in mirror.copies.items() if place.topic == TOPIC}

    async def _make(self, until: float) -> bool:
        return await self._admin.create_surely(TOPIC, 1, 3, {}, until)

    async def _write(self) -> None:
        for _ in range(self._dice.randrange(0, LIVES)):
            await self._producer.write(TOPIC, 0, 1 + self._dice.randrange(0, 5))


def _pass_over(_: HistoryEvent) -> None:
    """What is deleted by an operator is no loss."""
