"""The start of a broker in ZooKeeper mode on a simulated ensemble: which cluster it finds there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller.zk import znodes
from broker.controller.zk.port import SessionState, WatchEvent
from broker.server.control_plane import StartError
from broker.server.zk.startup import Startup
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife
from tests.simulation.world import SimWorld
from tests.simulation.zookeeper import Ensemble

META = "broker.id=1\nversion=0\ncluster.id=ours\n"


class Config(dict[str, Any]):
    log_dirs = ("/data",)


class StartupDisk:
    """One log directory, which may know its cluster."""

    def __init__(self, meta: str | None) -> None:
        self._meta = meta

    def exists(self, path: str) -> bool:
        return self._meta is not None

    def read_text(self, path: str) -> str:
        return self._meta or ""


class Start:
    """One broker's start, and the ensemble it meets."""

    def __init__(self, world: SimWorld, meta: str | None) -> None:
        life = ProcessLife("broker")
        clock = SimClock(world.loop, life, world.dice_of("clock"))
        self.ensemble = Ensemble(world)
        process = SimpleNamespace(life=life, clock=clock)
        self.session = self.ensemble.session(SimpleNamespace(node_id=1), process)
        ports = SimpleNamespace(
            clock=clock,
            disk=StartupDisk(meta),
            roles=SimpleNamespace(zookeeper="zk:2181/kafka"),
            config=Config({
                "zookeeper.connection.timeout.ms": 5000, "authorizer.class.name": "",
                "delegation.token.secret.key": "", "zookeeper.set.acl": False,
            }),
        )  # fmt: skip
        self.opening = Startup(ports, self.session)  # type: ignore[arg-type]
        self.session.start(self)

    def on_session(self, state: SessionState, session_id: int) -> None:
        if state is SessionState.CONNECTED:
            self.opening.connected.set()

    def on_watch(self, event: WatchEvent) -> None:
        """Nothing is watched yet."""

    async def put(self, path: str, data: bytes) -> None:
        await self.opening.connected.wait()
        await self.session.create(path, data)


def play(story: Callable[[Start], Awaitable[None]], meta: str | None) -> None:
    world = SimWorld("opening")

    async def whole() -> None:
        await story(Start(world, meta))

    world.run(whole())
    world.end()


def test_new_directories_found_a_cluster_in_a_new_ensemble_and_join_one_in_another() -> None:
    """The first broker sets the id."""

    async def founding(start: Start) -> None:
        made = await start.opening.cluster_id()
        data, _ = await start.session.get(znodes.CLUSTER_ID)
        assert znodes.decode_cluster_id(data) == made

    async def joining(start: Start) -> None:
        await start.put("/cluster", b"")
        await start.put(znodes.CLUSTER_ID, znodes.encode_cluster_id("theirs"))
        assert await start.opening.cluster_id() == "theirs"

    play(founding, None)
    play(joining, None)


@pytest.mark.parametrize(
    ("there", "remedy"),
    [(None, "knows no cluster: check zookeeper.connect"), ("other", "is that of cluster other")],
)
def test_the_wrong_ensemble_is_named_and_nothing_is_made_in_it(
    there: str | None, remedy: str
) -> None:
    """A wrong chroot, an emptied ensemble, the neighbour's: it left its nodes there before."""

    async def story(start: Start) -> None:
        if there is not None:
            await start.put("/cluster", b"")
            await start.put(znodes.CLUSTER_ID, znodes.encode_cluster_id(there))
        written = len(start.ensemble.log)
        with pytest.raises(StartError, match=remedy):
            await start.opening.cluster_id()
        assert len(start.ensemble.log) == written

    play(story, META)


def test_its_own_ensemble_gets_the_nodes_that_are_missing() -> None:
    """As every Kafka makes sure of at its start."""

    async def story(start: Start) -> None:
        await start.put("/cluster", b"")
        await start.put(znodes.CLUSTER_ID, znodes.encode_cluster_id("ours"))
        assert await start.opening.cluster_id() == "ours"
        assert await start.session.exists(znodes.TOPICS) is not None

    play(story, META)


def test_an_ensemble_that_has_moved_to_kraft_is_left_alone() -> None:
    """The way back is named."""

    async def story(start: Start) -> None:
        await start.put(znodes.MIGRATION, b"{}")
        with pytest.raises(StartError, match="has moved to KRaft"):
            await start.opening.cluster_id()

    play(story, META)


def test_an_ensemble_that_is_away_is_waited_for_as_long_as_configured() -> None:
    """Then the address and the quorum are named."""

    async def story(start: Start) -> None:
        start.ensemble.go_away()
        begun = asyncio.get_running_loop().time()
        with pytest.raises(StartError, match="did not answer within 5000 ms; check zookeeper"):
            await start.opening.cluster_id()
        assert 5.0 <= asyncio.get_running_loop().time() - begun < 6.0

    play(story, None)
