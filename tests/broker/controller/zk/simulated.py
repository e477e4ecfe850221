"""Brokers of a ZooKeeper cluster on a simulated ensemble, in virtual time: session, znode, and a
controller whose requests get no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from broker.controller.decisions.decision import Decision
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.zk import znodes
from broker.controller.zk.broker_znode import BrokerZnode, ensure_paths, get_or_create_cluster_id
from broker.controller.zk.channels import SendError
from broker.controller.zk.controller import ZooKeeperController
from broker.controller.zk.port import SessionState, WatchEvent
from broker.metadata.delta import MetadataDelta
from broker.metadata.image import Endpoint, MetadataImage
from bus.errors import ErrorCode
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife
from tests.simulation.world import SimWorld
from tests.simulation.zookeeper import Ensemble


class SimulatedBroker:
    """Broker `node_id`; `image` holds the configurations it has read."""

    def __init__(self, world: SimWorld, ensemble: Ensemble, node_id: int) -> None:
        life = ProcessLife(f"party{node_id}")
        clock = SimClock(world.loop, life, world.dice_of(f"clock{node_id}"))
        process = SimpleNamespace(life=life, clock=clock)
        self.session = ensemble.session(SimpleNamespace(node_id=node_id), process)
        self.image = MetadataImage(cluster_id="cluster")
        self.controller = ZooKeeperController(
            node_id, self.session, clock, policy=PartitionPolicy, send=self.send, committed=lambda: self.image
        )
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9000 + node_id)
        self.member = BrokerZnode(
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
        """Makes one decision as the controller and returns its reply."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def failed(error: ErrorCode) -> None:
            answer.set_exception(AssertionError(error.name))

        self.controller.write(decide, answer.set_result, failed)
        return await answer

    async def read_change_notifications(self) -> None:
        """Does what the control plane does when the watch has fired."""
        self.controller.on_change_notifications(await self.member.read_change_notifications())

    async def note(self, entity: str) -> None:
        """Creates the notification that a tool leaves after it has written a configuration."""
        await self.session.create(
            znodes.CONFIG_CHANGE_PREFIX, znodes.encode_change(entity), sequence=True
        )


async def settled() -> None:
    """Waits until the ensemble's servers have caught up and all events are processed."""
    await asyncio.sleep(2.0)


def run_story(story: Callable[[SimulatedBroker, SimulatedBroker], Awaitable[None]]) -> None:
    """Runs the story with broker 1 as controller and broker 2 registered beside it."""
    world = SimWorld("zookeeper-parties")
    ensemble = Ensemble(world)

    async def whole() -> None:
        one, two = SimulatedBroker(world, ensemble, 1), SimulatedBroker(world, ensemble, 2)
        await asyncio.sleep(1.0)
        await ensure_paths(one.session, has_authorizer=True, has_tokens=True)
        await get_or_create_cluster_id(one.session, "cluster")
        await settled()
        for party in (one, two):
            await party.member.register()
            await party.member.read_configs()
        one.controller.start()
        one.controller.elect()
        while not one.controller.is_active:
            await asyncio.sleep(0.05)
        await settled()
        await story(one, two)

    world.run(whole())
    world.end()
