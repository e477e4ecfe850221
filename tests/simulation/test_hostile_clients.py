"""Clients that ask without end: the others are served, in virtual time, and nobody is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bus.protocol.apis import ApiKey
from bus.protocol.generated.metadata import MetadataRequest
from tests.simulation.client import Client
from tests.simulation.cluster import Cluster
from tests.simulation.hostile import Hostile, many_api_versions
from tests.simulation.machine import PORT
from tests.simulation.processor import Costs
from tests.simulation.world import World

FLOODERS = 10
REQUESTS = 3_500
COSTS = Costs(request_s=200e-6)
"""As was measured on a busy machine: all of them together keep a broker busy for seven seconds, longer
than its session with the controller lasts."""

MOST_WAIT_S = 0.05


class Town:
    """Three brokers, a client that asks every 20 ms, and those that flood."""

    def __init__(self) -> None:
        self.world = World("hostile")
        self.cluster = Cluster(self.world, 3, costs=COSTS)
        self.waits_s: list[float] = []
        self.worst: list[str] = []
        self.flooders: list[Hostile] = []

    async def begin(self) -> None:
        self.cluster.start()
        ready = await self.world.until(lambda: len(self.cluster.serving()) == 3, 30)
        assert ready
        self.controller = self.cluster.active_controllers()[0]
        self.epoch = self.controller[1].epoch
        self.world.loop.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(0.05)
            image = self.cluster.image()
            self.worst += [f"{node} is fenced" for node, b in image.brokers.items() if b.fenced]
            for _, controller in self.cluster.active_controllers():
                if controller.epoch != self.epoch:
                    self.worst.append(f"controller epoch {controller.epoch}")

    async def flood(self, host: str) -> None:
        around = self.world.client_surroundings("flood", self.cluster.bootstrap)
        data = many_api_versions(REQUESTS)
        for _ in range(FLOODERS):
            one = await Hostile.open(around, host, PORT, reads=True)
            one.write(data)
            self.flooders.append(one)

    async def ask_for(self, seconds: float, host: str) -> None:
        around = self.world.client_surroundings("other", [(host, PORT)])
        client = Client("other", around)
        ends = self.world.loop.time() + seconds
        while self.world.loop.time() < ends:
            began = self.world.loop.time()
            wire = await client._wire_to((host, PORT))
            await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[]), timeout_s=60)
            self.waits_s.append(self.world.loop.time() - began)
            await asyncio.sleep(0.02)


@pytest.fixture
def town() -> Iterator[Town]:
    town = Town()
    yield town
    town.world.end()


def test_ten_connections_of_pipelined_requests_stop_nobody_else(town: Town) -> None:
    """A whole read used to be served in one turn: others waited for seconds, the broker's heartbeat
    too, and a new controller was elected."""

    async def story() -> None:
        await town.begin()
        host = town.controller[0].host
        await town.flood(host)
        await town.ask_for(8, host)
        await town.world.until(lambda: all(one.read_bytes for one in town.flooders), 30)

    town.world.run(story())
    late = [wait for wait in town.waits_s if wait > MOST_WAIT_S]
    assert len(late) <= len(town.waits_s) // 100, (len(town.waits_s), sorted(late)[-5:])
    assert town.worst == []
    assert all(one.read_bytes for one in town.flooders)
