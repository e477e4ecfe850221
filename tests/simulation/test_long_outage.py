"""ZooKeeper is unavailable for an hour of virtual time, with a whole cluster and its clients."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.checker.history import Healed
from tests.simulation.member import Member
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.story import TOPICS, SeedRun

AWAY_S = 3600.0
ANEW_WITHIN_S = 15.0
PAUSE_S = 10.0
MOST_OF_ONE = 45
"""Lines of one kind by all three brokers in the hour: about a dozen each, not one per second."""


class Lines(logging.Handler):
    """The log lines of brokers, counted."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.said: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.said[str(record.msg)] += 1


@pytest.fixture
def lines() -> Iterator[Lines]:
    """All lines of level INFO and above."""
    heard, root = Lines(), logging.getLogger("broker")
    before = root.level
    root.addHandler(heard)
    root.setLevel(logging.INFO)
    yield heard
    root.removeHandler(heard)
    root.setLevel(before)


class HourWithoutZooKeeper(SeedRun):
    """`sessions_end`: the returning ensemble has lost all sessions; `one_dies`: a broker is killed
    in the middle, and no other broker can be elected in its place."""

    def __init__(self, lines: Lines, *, sessions_end: bool, one_dies: bool) -> None:
        super().__init__(1, "zookeeper", brokers=3)
        self.sessions_end, self.one_dies = sessions_end, one_dies
        self.acknowledged_while_away = 0
        self.said: Counter[str] = Counter()
        self._lines = lines

    async def _play(self) -> None:
        if not await self._begin():
            return
        world, ensemble = self.world, self.cluster.ensemble
        await asyncio.sleep(5.0)
        epochs, before, written = self._epochs(), self._acknowledged(), len(ensemble.log)
        self._lines.said.clear()
        ensemble.go_away()
        await asyncio.sleep(AWAY_S / 2)
        if self.one_dies:
            self.cluster.machines[1].kill()
        await asyncio.sleep(AWAY_S / 2)
        self.acknowledged_while_away = self._acknowledged() - before
        self.said = Counter(self._lines.said)
        if len(ensemble.log) != written:
            world.complain("something was written to an ensemble that was away")
        await self._come_back(epochs)
        world.record(Healed(at_ms=self.producers[0].client.now_ms))
        await self._recover()
        await self._drain()
        await self._read_all()

    async def _come_back(self, epochs: list[int]) -> None:
        """With the old sessions no broker re-registers; without them all do."""
        if self.sessions_end:
            for machine in self.cluster.machines:
                self.cluster.ensemble.expire(machine.node_id)
        self.cluster.ensemble.come_back()
        self.cluster.machines[1].start()

        def everybody_is_new() -> bool:
            now = self._epochs()
            return len(now) == len(epochs) and all(b > a for a, b in zip(epochs, now, strict=True))

        if self.sessions_end:
            if not await self.world.until(everybody_is_new, ANEW_WITHIN_S):
                self.world.complain(f"not all registered again: {epochs} -> {self._epochs()}")
        elif not self.one_dies:
            await asyncio.sleep(ANEW_WITHIN_S)
            if self._epochs() != epochs:
                self.world.complain(f"registered again under a session: {epochs} {self._epochs()}")

    def _begin_clients(self) -> None:
        """Starts few, slow clients, because an hour is long."""
        bootstrap = self.cluster.bootstrap
        for number in range(2):
            around = self.world.client_surroundings(f"p{number}", bootstrap)
            producer = SimProducer(f"p{number}", around, ProducerKind())
            self.producers.append(producer)
            around.clock.spawn(producer.run(self.targets, PAUSE_S), name=producer.name)
        around = self.world.client_surroundings("m0", bootstrap)
        member = Member("m0", around, "group")
        self.members.append(member)
        around.clock.spawn(member.run(list(TOPICS)), name="m0")

    def _epochs(self) -> list[int]:
        return [broker.control_plane.broker_epoch() for _, broker in self.cluster.serving()]

    def _acknowledged(self) -> int:
        return sum(producer.acknowledged for producer in self.producers)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("an hour without ZooKeeper")
@pytest.mark.parametrize(
    ("sessions_end", "one_dies"), [(False, False), (True, False), (True, True)]
)
def test_a_cluster_outlives_an_hour_without_zookeeper(
    lines: Lines, sessions_end: bool, one_dies: bool
) -> None:
    """It goes on serving; afterwards all brokers re-register and serve, nothing is lost, and the
    log has named the remedy without too many lines."""
    story = HourWithoutZooKeeper(lines, sessions_end=sessions_end, one_dies=one_dies)
    outcome = story.run()
    assert outcome.wrong == []
    assert story.acknowledged_while_away > 100
    assert any("start the ensemble's servers until a majority runs" in one for one in story.said)
    assert {one: count for one, count in story.said.items() if count > MOST_OF_ONE} == {}
    assert any("answers again after" in one for one in lines.said)
