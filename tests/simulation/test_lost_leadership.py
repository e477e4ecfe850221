"""A leader that loses the leadership and regains it has no old responses left to send.

The bug planted here (an acknowledgement that ignores the leader epoch of its append) alone loses
nothing in any world: waiting requests are retried in the call that ends the leadership, and get its
error. Only both bugs together lose a record.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.checker import rules
from tests.checker.history import Healed
from tests.simulation import dialect, producer
from tests.simulation.admin import SimAdmin
from tests.simulation.cluster import SimCluster
from tests.simulation.consumer import SimConsumer
from tests.simulation.machine import PORT
from tests.simulation.network import Cut
from tests.simulation.planted import (
    an_acknowledgement_outlives_its_leadership,
    waiting_requests_are_asked_of_leaders_only,
)
from tests.simulation.producer import ProducerKind, SimProducer
from tests.simulation.world import SimWorld

pytestmark = pytest.mark.slow

WITHIN_S = 60.0
PATIENT_S = 90.0
"""Longer than the whole story: the producer must wait for its answer, not ask again."""


class AwayAndBack:
    """Broker 1 appends a batch that no other broker has, follows broker 2, leads again."""

    def __init__(self, name: str) -> None:
        self.world = SimWorld(f"lost leadership, {name}")
        self.cluster = SimCluster(self.world, 3)
        around = self.world.client_surroundings("admin", self.cluster.bootstrap)
        self.admin = SimAdmin("admin", around)

    def run(self) -> list[str]:
        """Runs the story; returns all violations."""
        self.world.run(self._play())
        self.world.end()
        return [*self.world.complaints, *map(str, rules.check(self.world.history))]

    async def _play(self) -> None:
        self.cluster.start()
        await self._until(lambda: len(self.cluster.serving()) == 3)
        assert await self.admin.create_on("t", [1, 2, 3], {})
        writer, other = self._producer("writer"), self._producer("other")
        assert await writer.write("t", 0, 1)
        self._cut_followers_off()
        unheard = asyncio.ensure_future(writer.write("t", 0, 1, within_s=PATIENT_S))
        await self._until(lambda: self._end_of(1) == 2)
        await self._lead(2)
        self.world.network.heal()
        assert await other.write("t", 0, 1)
        await self._until(lambda: self._end_of(1) == self._end_of(2))
        await self._lead(1)
        assert await other.write("t", 0, 1)
        assert await unheard
        self.world.record(Healed(at_ms=writer.client.now_ms))
        assert await self._read_all()

    def _producer(self, name: str) -> SimProducer:
        around = self.world.client_surroundings(name, self.cluster.bootstrap)
        return SimProducer(name, around, ProducerKind(idempotent=False))

    async def _read_all(self) -> bool:
        around = self.world.client_surroundings("auditor", self.cluster.bootstrap)
        until = self.world.loop.time() + WITHIN_S
        return await SimConsumer("auditor", around).read_all("t", 0, until) is not None

    def _cut_followers_off(self) -> None:
        first, *others = self.cluster.machines
        for other in others:
            self.world.network.cut(other.host, first.host, Cut.DROP, PORT)
            self.world.network.cut(first.host, other.host, Cut.DROP, PORT)

    async def _lead(self, node: int) -> None:
        """Makes the broker preferred leader and leader; waits until all brokers know."""
        order = sorted([1, 2, 3], key=lambda one: one != node)
        assert await self.admin.reassign("t", 0, order)
        assert await self.admin.elect_preferred("t", [0])
        await self._until(lambda: {p.leader_id for _, p in self._replicas()} == {node})

    def _replicas(self) -> list[tuple[int, object]]:
        return [(m.node_id, p) for m, p in self.cluster.partitions() if p.topic == "t"]

    def _end_of(self, node: int) -> int:
        return {one: p.log.end_offset for one, p in self._replicas()}.get(node, -1)

    async def _until(self, test: object) -> None:
        assert await self.world.until(test, WITHIN_S)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the producer nor the request times out while the leadership moves away and back."""
    monkeypatch.setattr(producer, "ASK_TIMEOUT_S", PATIENT_S)
    monkeypatch.setattr(dialect, "PRODUCE_TIMEOUT_MS", int(PATIENT_S * 1000))


def test_who_waits_hears_of_it_when_the_leadership_ends() -> None:
    """The producer asks the new leader, and its record is stored once."""
    assert AwayAndBack("as it is").run() == []


def test_without_the_epoch_whoever_waits_still_hears_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug alone cannot be caught: no request is left that could get a wrong
    response."""
    an_acknowledgement_outlives_its_leadership(monkeypatch)
    assert AwayAndBack("epoch ignored").run() == []


def test_with_both_gone_an_acknowledged_record_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkers find the loss: only the two checks prevent it."""
    an_acknowledgement_outlives_its_leadership(monkeypatch)
    waiting_requests_are_asked_of_leaders_only(monkeypatch)
    wrong = AwayAndBack("nobody told").run()
    assert any("lost write" in one or "unseen" in one for one in wrong), wrong


def test_the_epoch_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch check is not dead code: it refuses waiting requests that were overlooked."""
    waiting_requests_are_asked_of_leaders_only(monkeypatch)
    assert AwayAndBack("overlooked").run() == []
