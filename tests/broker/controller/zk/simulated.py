"""Brokers of a ZooKeeper cluster on a simulated ensemble, in virtual time: session, member, and a
controller whose requests nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.rules import Rules
from broker.controller.zk import znodes
from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.member import Member, ensure_paths, find_or_make_cluster_id
from broker.controller.zk.port import SessionState, WatchEvent
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, MetadataImage
from bus.errors import ErrorCode
from tests.simulation.clock import SimClock
from tests.simulation.loop import Life
from tests.simulation.world import World
from tests.simulation.zookeeper import Ensemble


class Party:
    """Broker `node_id`; `image` is what it read of configurations."""

    def __init__(self, world: World, ensemble: Ensemble, node_id: int) -> None:
        life = Life(f"party{node_id}")
        clock = SimClock(world.loop, life, world.dice_of(f"clock{node_id}"))
        process = SimpleNamespace(life=life, clock=clock)
        self.session = ensemble.session(SimpleNamespace(node_id=node_id), process)
        self.image = MetadataImage(cluster_id="cluster")
        self.controller = ZooKeeperController(
            node_id, self.session, clock, rules=Rules, send=self.send, committed=lambda: self.image
        )
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + node_id)
        self.member = Member(
            self.session, clock, znodes.BrokerInfo(node_id, (endpoint,)), 6_000, self.replay,
            lambda: self.image,
        )  # fmt: skip
        self.session.start(self)

    def on_session(self, state: SessionState, session_id: int) -> None:
        self.controller.on_session(state)

    def on_watch(self, event: WatchEvent) -> None:
        self.controller.on_watch(event)

    async def send(self, broker_id: int, key: int, body: object) -> Any:
        raise SendError("nobody is here")

    def replay(self, records: list[object]) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)
        self.image = delta.apply(self.image.offset + len(records), 1).image

    async def write(self, decide: Callable[[MetadataImage], Decision[Any]]) -> Any:
        """One decision of the controller; its reply."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def failed(error: ErrorCode) -> None:
            answer.set_exception(AssertionError(error.name))

        self.controller.write(decide, answer.set_result, failed)
        return await answer

    async def take_notes(self) -> None:
        """As the plane does when the watch has fired."""
        self.controller.on_notes(await self.member.take_notes())

    async def note(self, entity: str) -> None:
        """What a tool leaves when it has written a configuration."""
        await self.session.create(
            znodes.CONFIG_CHANGE_PREFIX, znodes.encode_change(entity), sequence=True
        )


async def settled() -> None:
    """Servers of the ensemble have caught up, events have been worked off."""
    await asyncio.sleep(2.0)


def tell(story: Callable[[Party, Party], Awaitable[None]]) -> None:
    """Broker 1 is controller, broker 2 is not; both are registered."""
    world = World("zookeeper-parties")
    ensemble = Ensemble(world)

    async def whole() -> None:
        one, two = Party(world, ensemble, 1), Party(world, ensemble, 2)
        await asyncio.sleep(1.0)
        await ensure_paths(one.session, has_authorizer=True)
        await find_or_make_cluster_id(one.session, "cluster")
        await settled()
        for party in (one, two):
            await party.member.register()
            await party.member.read_configs()
        one.controller.start()
        one.controller.stand()
        while not one.controller.is_active:
            await asyncio.sleep(0.05)
        await settled()
        await story(one, two)

    world.run(whole())
    world.end()
