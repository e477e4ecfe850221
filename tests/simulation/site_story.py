"""The story of one seed with two sites: a cluster each, a mirror between them, faults, a switch.

In: a seed, what becomes of the first site. Out: `SiteOutcome` with all violations: of each site by
its own rules, of both beside one another, of what the mirror and the switch have said. Never: a
stand-in for the mirror or for the command; both run as they are.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from dr_mirror.report.plan.switch_report import SwitchStatement
from dr_mirror.settings import MirrorSettings
from tests.checker import rules
from tests.checker.history import Ack, Fail, HistoryEvent, SendEvent
from tests.simulation import blocking
from tests.simulation.admin import SimAdmin
from tests.simulation.aftermath import replica_states, what_differs_at_rest, what_is_wrong
from tests.simulation.client import ClientSurroundings
from tests.simulation.clock import EPOCH_MS
from tests.simulation.cluster import MIRROR_PORT, SimCluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.edge_machine import EDGE_HOST, EDGE_PARTITIONS, EDGE_TOPIC, EdgeMachine
from tests.simulation.faults import Faults
from tests.simulation.kio_dialect import KIO
from tests.simulation.loop import Stuck
from tests.simulation.machine import FIRST_SITE, SECOND_SITE, Place
from tests.simulation.mirror_machine import MIRROR_HOST, OPERATOR_HOST, MirrorMachine, Operator
from tests.simulation.network import Cut
from tests.simulation.observer import Observer
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.site_checks import (
    MADE_ANEW,
    Ends,
    SiteClaims,
    both_sites,
    log_ends,
    missing_values,
    published_tail_ids,
    tail_ids,
    tail_values,
)
from tests.simulation.story import Outcome
from tests.simulation.topic_made_anew import TopicMadeAnew
from tests.simulation.world import SimWorld

TOPICS = {"cars": 2, "faces": 1}
COPIED = {**TOPICS, EDGE_TOPIC: EDGE_PARTITIONS}
TARGETS = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
TOPIC_CONFIGS = {"segment.ms": "5000"}
START_WITHIN_S = 30.0
TROUBLE_S = 30.0
RECOVERY_S = 90.0
"""Longer than a session, an election, a catch-up and a mirror's longest back-off one after the
other."""
COMMAND_S = 120.0
READ_S = 20.0
MIRROR_PAUSES_S = (1.0, 6.0)
LIFE_S = 5.0
"""How long a new primary takes records before the next thing happens."""
BAD_DISK = "cannot be read"
"""What the mirror rightly says of a replica while its disk answers EIO."""
EDGE_KILLS = 0.4
"""Share of the faults of an edge; the others are cut links."""
EDGE_IS_CUT_OFF = 0.5
"""Share of the forced switches whose edge does not reach the lost site; else it goes on sending
there, as long as that site takes records."""
RETURNS = 0.5
"""Share of the planned switches that are followed by one back, and of the forced ones after which
the former primary returns to a sound site."""


class Fate(Enum):
    """What becomes of the first site while faults go on."""

    STAYS = "stays"
    HANDS_OVER = "hands over"
    IS_CUT_OFF = "is cut off"
    DIES = "dies"

    @property
    def is_lost(self) -> bool:
        """Whether the switch is a forced one."""
        return self in (Fate.IS_CUT_OFF, Fate.DIES)


@dataclass(slots=True)
class SiteOutcome(Outcome):
    """The result of one seed. `missing`: records that only the lost site had."""

    fate: Fate = Fate.STAYS
    missing: int = 0


class SiteWorld:
    """One site's view of the world: a history of its own, all else is the world's."""

    def __init__(self, world: SimWorld, name: str) -> None:
        self.world, self.name = world, name
        self.history: list[HistoryEvent] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world, name)

    def record(self, event: HistoryEvent) -> None:
        """Records an event of a client of this site."""
        self.history.append(event)
        self.world.record(event)

    def complain(self, text: str) -> None:
        """Records a violation."""
        self.world.complain(f"site {self.name}: {text}")

    def client_surroundings(self, name: str, bootstrap: list[tuple[str, int]]) -> ClientSurroundings:
        """Everything that a client of this site needs."""
        around = self.world.client_surroundings(name, bootstrap)
        return replace(around, record=self.record, complain=self.complain)


class SimSite:
    """A cluster with its clients, observer and faults."""

    def __init__(
        self, world: SimWorld, name: str, controller: str, place: Place, more: Mapping[str, str]
    ) -> None:
        self.name = name
        self.view = SiteWorld(world, name)
        self.cluster = SimCluster(self.view, 3, controller, more, place=place)  # type: ignore[arg-type]
        self.observer = Observer(self.cluster)
        self.faults = Faults(self.cluster, self.observer, world.dice_of(f"faults of {name}"))
        self.producers: list[SimProducer] = []

    @property
    def mirror_listeners(self) -> str:
        """Bootstrap servers for the mirror."""
        hosts = [machine.host for machine in self.cluster.machines]
        return ",".join(f"{host}:{MIRROR_PORT}" for host in hosts)

    @property
    def client_listeners(self) -> str:
        """Bootstrap servers for everybody else."""
        return ",".join(f"{host}:{port}" for host, port in self.cluster.bootstrap)

    def surroundings(self, name: str) -> ClientSurroundings:
        """Of a client of this site."""
        return self.view.client_surroundings(f"{self.name}-{name}", self.cluster.bootstrap)

    def begin_producers(self) -> None:
        """Those whose records must not be lost; new ones each time."""
        kinds = [
            ProducerKind(in_flight=3, lost_acks=0.1), ProducerKind(dialect=KIO),
            ProducerKind(idempotent=False),
        ]  # fmt: skip
        for kind in kinds:
            name = f"p{len(self.producers)}"
            around = self.surroundings(name)
            producer = SimProducer(f"{self.name}-{name}", around, kind)
            self.producers.append(producer)
            around.clock.spawn(producer.run(TARGETS, 0.25), name=producer.name)

    async def end_producers(self) -> None:
        """Until every batch of theirs is decided."""
        for producer in self.producers:
            producer.stopping = True
        clocks = [producer.around.clock for producer in self.producers]
        done = lambda: all(task.done() for clock in clocks for task in clock.tasks)  # noqa: E731
        if not await self.view.until(done, RECOVERY_S):
            self.view.complain("producers have requests that nobody answers")

    @property
    def acknowledged(self) -> int:
        """Records of its producers that were acknowledged."""
        return sum(producer.acknowledged for producer in self.producers)


class SiteSeedRun:
    """One world from its beginning to its end."""

    def __init__(
        self,
        seed: int,
        fate: Fate | None = None,
        controller: str = "kraft",
        *,
        trouble_s: float = TROUBLE_S,
        show: Callable[[str], None] | None = None,
    ) -> None:
        """`fate` None: drawn from the seed."""
        self.seed, self.controller, self.trouble_s = seed, controller, trouble_s
        self.world = SimWorld(f"two-sites-{seed}", show=show)
        self.dice = self.world.dice_of("story")
        drawn = list(Fate)[self.dice.randrange(0, len(Fate))]
        self.fate = fate or drawn
        self.first = self._site("A", FIRST_SITE, "c2l0ZS1BLWluLWEtd29ybGQ", 1)
        self.second = self._site("B", SECOND_SITE, "c2l0ZS1CLWluLWEtd29ybGQ", 2)
        self.missing = 0
        self._cut_ops: frozenset[int] = frozenset()
        """What the first site has acknowledged and is in a file of its own records."""
        hosts = (MIRROR_HOST, OPERATOR_HOST)
        self._cut_off = (*hosts, EDGE_HOST) if self.dice.random() < EDGE_IS_CUT_OFF else hosts
        self._observing: dict[str, asyncio.Task[None]] = {}

    def _site(self, name: str, place: Place, cluster_id: str, number: int) -> SimSite:
        return SimSite(self.world, name, self.controller, place, {
            "cluster.id": cluster_id, "site.number": str(number), "mirror.listener.name": "MIRROR",
        })  # fmt: skip

    def run(self) -> SiteOutcome:
        """Runs the story; never raises for a fault of the product."""
        outcome = SiteOutcome(self.seed, self.controller, fate=self.fate)
        with ExitStack() as around:
            folder = around.enter_context(tempfile.TemporaryDirectory())
            around.enter_context(blocking.surroundings(self.world.loop))
            self.mirror = MirrorMachine(self.world, self._settings(), Path(folder))
            around.enter_context(self.mirror.installed())
            self.edge = EdgeMachine(
                self.world, self.first.client_listeners, self.second.client_listeners,
                Path(folder) / "edge",
            )  # fmt: skip
            around.enter_context(self.edge.installed())
            self.anew = TopicMadeAnew(self)
            around.enter_context(self.anew.losses.installed())
            self.operator = Operator(self.world, self.mirror)
            self.claims = SiteClaims(self.mirror, (self.first.cluster, self.second.cluster))
            try:
                self.world.run(self._play())
            except Stuck as stuck:
                self.world.complain(f"stuck: {stuck}")
            outcome.wrong = list(self.world.complaints)
            outcome.digest = self.world.digest
            outcome.steps, outcome.virtual_s = self.world.loop.steps, self.world.now_s
            self.world.end()
        outcome.acknowledged = self.first.acknowledged + self.second.acknowledged
        outcome.missing = self.missing
        return outcome

    def _settings(self) -> MirrorSettings:
        return MirrorSettings(
            source_bootstrap_servers=self.first.mirror_listeners,
            target_bootstrap_servers=self.second.mirror_listeners,
            white_list=(*COPIED, MADE_ANEW), carries_state=False, topic_refresh_s=2.0,
            proof_recent_s=10.0, proof_interval_s=5.0,
        )  # fmt: skip

    # --- the story -------------------------------------------------------------------------------

    async def _play(self) -> None:
        if not await self._begin():
            return
        fate = self._keep_and_hand_over if not self.fate.is_lost else self._lose_and_return
        await fate()

    async def _begin(self) -> bool:
        world = self.world
        for site in (self.first, self.second):
            site.cluster.start()
        for site in (self.first, self.second):
            serving = site.cluster.serving
            if not await world.until(lambda: len(serving()) == 3, START_WITHIN_S):  # noqa: B023
                site.view.complain("not all brokers serve after the start")
                return False
        admin = SimAdmin("founder", self.first.surroundings("founder"))
        for topic, partitions in COPIED.items():
            until = world.loop.time() + START_WITHIN_S
            if not await admin.create_surely(topic, partitions, 3, TOPIC_CONFIGS, until):
                world.complain(f"topic {topic} could not be made on a sound cluster")
                return False
        for site in (self.first, self.second):
            self._observe(site)
        claims = world.loop.create_task(self.claims.watch(world.complain))
        self._observing["claims"] = claims
        self.first.begin_producers()
        self.mirror.start()
        self.edge.start()
        if not await world.until(self._all_are_copied, START_WITHIN_S):
            world.complain("the mirror copies nothing between two sound clusters")
            return False
        return True

    def _observe(self, site: SimSite) -> None:
        self._observing[site.name] = self.world.loop.create_task(site.observer.run())

    def _stop_observing(self, site: SimSite) -> None:
        self._observing.pop(site.name).cancel()

    def _all_are_copied(self) -> bool:
        mirror = self.mirror.mirror
        wanted = sum(COPIED.values())
        return mirror is not None and sum(c.copying for c in mirror.copied.copies.values()) == wanted

    async def _keep_and_hand_over(self) -> None:
        loop = self.world.loop
        until = loop.time() + self.trouble_s
        busy = [
            loop.create_task(self.first.faults.run(until)),
            loop.create_task(self.second.faults.run(until)),
            loop.create_task(self._harm_the_mirror(until)),
            loop.create_task(self._harm_the_edge(until)),
            loop.create_task(self.anew.lose_confirmations(until)),
        ]
        making = loop.create_task(self.anew.harm(until)) if self.fate is Fate.STAYS else None
        switching = None
        if self.fate is Fate.HANDS_OVER:
            await asyncio.sleep(self.trouble_s * self.dice.random())
            switching = loop.create_task(self.operator.switch("B"))
        await asyncio.gather(*busy)
        self._heal()
        if switching is not None:
            if not await self._handed_over(switching, self.first, self.second):
                return
            if self.dice.random() < RETURNS:  # now both are sound
                switching = loop.create_task(self.operator.switch("A"))
                if not await self._handed_over(switching, self.second, self.first):
                    return
        if making is not None:
            await making  # what it asked for may have waited for the brokers that were down
        await self._settle()
        await self.anew.settle()

    async def _handed_over(
        self, switching: asyncio.Task[SwitchStatement], former: SimSite, new: SimSite
    ) -> bool:
        """Whether the planned switch has ended; producers have moved then."""
        if await self._ends(switching, f"a planned switch to {new.name}") is None:
            return False
        await former.end_producers()
        new.begin_producers()
        await asyncio.sleep(LIFE_S)
        return True

    async def _lose_and_return(self) -> None:
        loop = self.world.loop
        lost_at = loop.time() + self.trouble_s * (0.3 + 0.4 * self.dice.random())
        until = loop.time() + self.trouble_s
        busy = [
            loop.create_task(self.second.faults.run(until)),
            loop.create_task(self._harm_the_edge(until)),
            loop.create_task(self._harm_the_mirror(lost_at)),
        ]
        await self.first.faults.run(lost_at)
        await busy.pop()
        self._lose_the_first_site()
        await asyncio.sleep(3.0 * self.dice.random())
        forcing = loop.create_task(self.operator.force("B"))
        beginning = loop.create_task(self._begin_after(forcing))
        await asyncio.wait([forcing, *busy], return_when=asyncio.FIRST_COMPLETED)
        if not forcing.done():
            await asyncio.gather(*busy)
            self.second.faults.heal()
            self._lose_the_first_site()
        forced = await self._ends(forcing, "a forced switch")
        if forced is None:
            return
        await beginning
        if self.dice.random() < RETURNS:  # else it returns while the second site is in trouble still
            await asyncio.gather(*busy)
            await asyncio.sleep(LIFE_S)
            self._heal()
        self._first_site_returns()
        await self.first.end_producers()
        await self.world.until_none(partial(what_is_wrong, self.first.cluster), RECOVERY_S)
        truth = log_ends(self.first.cluster, TOPICS)
        self._stop_observing(self.first)  # a log that is cut goes back
        backing = loop.create_task(self.operator.bring_back())
        await asyncio.gather(*busy)
        self._heal()
        back = await self._ends(backing, "the way back")
        if back is None:
            return
        self._compare_with_truth(forced, back, truth)
        self.first.view.history.clear()
        self.first.observer = Observer(self.first.cluster)
        self._observe(self.first)
        await self._settle()

    async def _begin_after(self, switch: asyncio.Task[SwitchStatement]) -> None:
        await asyncio.wait([switch])
        self.second.begin_producers()

    def _lose_the_first_site(self) -> None:
        self.world.trace(f"site A {self.fate.value}")
        for machine in self.first.cluster.machines:
            if self.fate is Fate.DIES:
                machine.kill()
        for host in self._cut_off:
            self._cut(host, self.first, Cut.DROP)

    def _first_site_returns(self) -> None:
        self.world.trace("site A returns")
        self.first.faults.heal_machines()
        hosts = [machine.host for machine in self.first.cluster.machines]
        for host in (*hosts, MIRROR_HOST, OPERATOR_HOST, EDGE_HOST):
            self._repair(host, self.first)

    def _cut(self, host: str, site: SimSite, how: Cut) -> None:
        """Both directions between a host and all brokers of a site."""
        for machine in site.cluster.machines:
            self.world.network.cut(host, machine.host, how)
            self.world.network.cut(machine.host, host, how)

    def _repair(self, host: str, site: SimSite) -> None:
        for machine in site.cluster.machines:
            self.world.network.repair(host, machine.host)
            self.world.network.repair(machine.host, host)

    async def _harm_the_mirror(self, until: float) -> None:
        """Kills, pauses and cut links between the mirror and one of the sites."""
        loop, dice = self.world.loop, self.world.dice_of("faults of the mirror")
        low, high = MIRROR_PAUSES_S
        while loop.time() < until:
            await asyncio.sleep(low + (high - low) * dice.random())
            kind, span_s = dice.randrange(0, 5), 0.2 + 4.0 * dice.random()
            if kind == 0:
                self.mirror.kill()
                await asyncio.sleep(span_s)
                self.mirror.start()
            elif kind == 1:
                self.mirror.pause()
                await asyncio.sleep(span_s)
                self.mirror.resume()
            else:
                sites = [self.first, self.second] if kind == 4 else [(self.first, self.second)[kind - 2]]
                for site in sites:
                    how = Cut.DROP if dice.random() < 0.6 else Cut.REJECT
                    self.world.trace(f"the mirror does not reach site {site.name} ({how.value})")
                    self._cut(MIRROR_HOST, site, how)
                await asyncio.sleep(span_s)
                for site in sites:
                    self._repair(MIRROR_HOST, site)

    async def _harm_the_edge(self, until: float) -> None:
        """Kills, and cut links between the edge and one of the sites."""
        loop, dice = self.world.loop, self.world.dice_of("faults of the edge")
        low, high = MIRROR_PAUSES_S
        while loop.time() < until:
            await asyncio.sleep(low + (high - low) * dice.random())
            span_s = 0.2 + 4.0 * dice.random()
            if dice.random() < EDGE_KILLS:
                self.edge.kill()
                await asyncio.sleep(span_s)
                self.edge.start()
                continue
            site = (self.first, self.second)[dice.randrange(0, 2)]
            self.world.trace(f"the edge does not reach site {site.name}")
            self._cut(EDGE_HOST, site, Cut.DROP if dice.random() < 0.6 else Cut.REJECT)
            await asyncio.sleep(span_s)
            self._repair(EDGE_HOST, site)

    def _heal(self) -> None:
        for site in (self.first, self.second):
            site.faults.heal()
        self.mirror.resume()
        self.mirror.start()
        self.edge.start()

    async def _ends(
        self, command: asyncio.Task[SwitchStatement], what: str
    ) -> SwitchStatement | None:
        """The command's statement; None, with a complaint, if it does not end in time."""
        if await self.world.until(command.done, COMMAND_S, 0.1):
            return command.result()
        last = self.operator.refusals[-1:] or ["it waits"]
        self.world.complain(f"{what} does not end within {COMMAND_S:g} s: {last[0]}")
        return None

    # --- in the end ------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """All is healed: both clusters recover, the mirror catches up, both logs are the same."""
        for site in (self.first, self.second):
            await site.end_producers()
        for site in (self.first, self.second):
            wrong = partial(what_is_wrong, site.cluster)
            for problem in await self.world.until_none(wrong, RECOVERY_S):
                site.view.complain(f"{RECOVERY_S:g} s after healing: {problem}")
        await self._account_for_the_edge()
        differ = partial(both_sites, self.first.cluster, self.second.cluster, COPIED)
        for problem in await self.world.until_none(differ, RECOVERY_S):
            self.world.complain(f"{RECOVERY_S:g} s after healing: {problem}")
        for task in self._observing.values():
            task.cancel()
        for site in (self.first, self.second):
            moves = partial(self._differ_at_rest, site.cluster)
            for problem in await self.world.until_none(moves, RECOVERY_S):
                site.view.complain(f"{RECOVERY_S:g} s after the last write: {problem}")
        await self._read_all()
        mirror = self.mirror.mirror
        if mirror is not None:
            proof = (await mirror.status(EPOCH_MS)).proof
            found = [one for one in proof.differences if BAD_DISK not in one.detail]
            if found:
                self.world.complain(f"the mirror says that sites differ: {found}")

    async def _account_for_the_edge(self) -> None:
        """Each record that a camera was told is safe is at both sites, whichever was lost."""
        edge = self.edge
        edge.stopping = True
        waits = lambda: [edge.waiting] if edge.waiting else []  # noqa: E731
        for problem in await self.world.until_none(waits, RECOVERY_S):
            self.world.complain(f"{RECOVERY_S:g} s after healing: {problem}")
        if edge.uncovered:
            self.world.complain(f"the edge gave up {edge.uncovered} records that B may lack")
        for site in (self.first, self.second):
            lacking = partial(missing_values, site.cluster, EDGE_TOPIC, edge.accepted)
            for problem in await self.world.until_none(lacking, RECOVERY_S):
                site.view.complain(f"{problem}; the edge had accepted it")

    def _differ_at_rest(self, cluster: SimCluster) -> list[str]:
        """Of the copied topics: the mirror says all the time what is confirmed."""
        return [
            problem for problem in what_differs_at_rest(cluster)
            if problem.split("-")[0] in TOPICS
        ]  # fmt: skip

    async def _read_all(self) -> None:
        """Each site by the rules, over what was written at both."""
        written = [e for e in self.world.history if isinstance(e, (SendEvent, Ack, Fail))]
        kept = [e for e in written if not (isinstance(e, Ack) and e.op in self._cut_ops)]
        for site in (self.first, self.second):
            around = site.surroundings("auditor")
            auditor = SimConsumer(f"{site.name}-auditor", around, KIO)
            site.view.history.clear()
            for topic, partition in TARGETS:
                until = self.world.loop.time() + READ_S
                if await auditor.read_all(topic, partition, until) is None:
                    site.view.complain(f"{topic}-{partition} cannot be read to its end")
            states = [
                state for state in replica_states(site.cluster, around.clock.now_ms())
                if state.topic in TOPICS
            ]  # fmt: skip
            for broken in rules.check([*kept, *site.view.history, *states]):
                site.view.complain(str(broken))

    def _compare_with_truth(
        self, forced: SwitchStatement, back: SwitchStatement, truth: Ends
    ) -> None:
        """What the forced switch said, beside what the first site really held."""
        complain = self.world.complain
        ends = {(one.topic, one.partition): one for one in forced.partitions}
        final = {(one.topic, one.partition): one for one in back.partitions}
        acks = self._acknowledged_at_first()
        cut: set[int] = set()
        published = published_tail_ids(self.first.cluster, forced.number)
        for place, end in truth.items():
            said, last = ends.get(place), final.get(place)
            if said is None or last is None:
                complain(f"{place}: the report lacks it")
                continue
            self.missing += last.records
            if said.heard_end > end:
                complain(f"{place}: heard of an end {said.heard_end}, the log ended at {end}")
            if said.known_missing > max(end - said.end, 0):
                complain(f"{place}: {said.known_missing} known to be missing, {end - said.end} were")
            if last.former_end != end:
                complain(f"{place}: the final report says {last.former_end}, the log ended at {end}")
            missing = {acks[place][offset] for offset in acks[place] if offset >= last.end}
            values = tail_values(last.file)
            if len(values) != last.records:
                complain(f"{place}: {last.records} records said, {len(values)} in {last.file}")
            unmarked = tail_ids(last.file, forced.number) - published
            if unmarked:
                complain(f"{place}: {len(unmarked)} records of {last.file} are not said at A")
            for _, value in sorted(missing):
                if value not in values:
                    complain(f"{place}: {value} was acknowledged and is in no file")
            cut |= {op for op, _ in missing}
        self._cut_ops = frozenset(cut)

    def _acknowledged_at_first(self) -> dict[tuple[str, int], dict[int, tuple[int, str]]]:
        """place -> offset -> (operation, value) of what the first site has acknowledged."""
        sends = {e.op: e for e in self.first.view.history if isinstance(e, SendEvent)}
        found: dict[tuple[str, int], dict[int, tuple[int, str]]] = {place: {} for place in TARGETS}
        for event in self.first.view.history:
            if isinstance(event, Ack) and event.offset >= 0:
                send = sends[event.op]
                found[send.topic, send.partition][event.offset] = event.op, send.value
        return found
