"""The simulated ensemble keeps the guarantees of `broker.controller.zk.port`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.controller.zk.port import (
    Check,
    Create,
    SessionState,
    SetData,
    WatchEvent,
    WatchKind,
    ZooKeeperError,
    ZooKeeperErrorKind,
)
from tests.simulation.clock import SimClock
from tests.simulation.loop import ProcessLife
from tests.simulation.world import SimWorld
from tests.simulation.zk_session import SimSession
from tests.simulation.zookeeper import Ensemble


class Heard:
    """A listener that records its events."""

    def __init__(self) -> None:
        self.states: list[SessionState] = []
        self.events: list[WatchEvent] = []

    def on_session(self, state: SessionState, session_id: int) -> None:
        self.states.append(state)

    def on_watch(self, event: WatchEvent) -> None:
        self.events.append(event)


class ZooKeeperParty:
    """An ensemble and a process with a session."""

    def __init__(self, world: SimWorld, ensemble: Ensemble, number: int) -> None:
        self.life = ProcessLife(f"party{number}")
        clock = SimClock(world.loop, self.life, world.dice_of(f"clock{number}"))
        process = SimpleNamespace(life=self.life, clock=clock)
        self.heard = Heard()
        self.session: SimSession = ensemble.session(SimpleNamespace(node_id=number), process)
        self.session.start(self.heard)


def play(story: Callable[[SimWorld, Ensemble, ZooKeeperParty, ZooKeeperParty], Awaitable[Any]]) -> Any:
    world = SimWorld("zookeeper-test")
    ensemble = Ensemble(world)

    async def whole() -> Any:
        one, two = ZooKeeperParty(world, ensemble, 1), ZooKeeperParty(world, ensemble, 2)
        await asyncio.sleep(1.0)
        return await story(world, ensemble, one, two)

    result = world.run(whole())
    world.end()
    return result


def refusal(kind: ZooKeeperErrorKind) -> Any:
    return pytest.raises(ZooKeeperError, match=kind.value)


def test_an_ephemeral_node_ends_with_its_session_and_the_watcher_hears_it():
    """The controller dies; another broker's watch on its node fires only after the timeout."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/controller", b"1", ephemeral=True)
        assert await two.session.exists("/controller", watch=True) is not None
        begun = world.now_s
        one.life.die()
        assert await world.until(lambda: bool(two.heard.events), 30)
        assert two.heard.events == [WatchEvent(WatchKind.DELETED, "/controller")]
        assert 4 < world.now_s - begun < 8
        await two.session.create("/controller", b"2", ephemeral=True)

    play(story)


def test_a_watch_fires_once_and_not_later_than_a_read_that_shows_the_change():
    """A change by one session fires the watch of another."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/a", b"0")
        await asyncio.sleep(2)
        await two.session.get("/a", watch=True)
        for value in (b"1", b"2"):
            await one.session.set("/a", value)
        while (await two.session.get("/a"))[0] == b"0":
            assert two.heard.events == []
        await asyncio.sleep(0.001)
        assert two.heard.events == [WatchEvent(WatchKind.CHANGED, "/a")]

    play(story)


def test_a_multi_is_all_or_nothing_and_names_what_broke_it():
    """A right version check comes first, a wrong one last."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/a", b"0")
        with refusal(ZooKeeperErrorKind.BAD_VERSION) as caught:
            await one.session.multi([Create("/b", b""), SetData("/a", b"1"), Check("/a", 0)])
        assert caught.value.failed_index == 2
        assert (await one.session.get("/a"))[0] == b"0"
        assert await one.session.exists("/b") is None
        stats = await one.session.multi([Create("/b", b""), SetData("/a", b"1", 0)])
        assert stats[1].version == 1

    play(story)


def test_who_is_cut_off_hears_connection_loss_then_expiry_and_gets_a_new_session():
    """Checks the session's states during a partition longer than its timeout."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/e", b"", ephemeral=True)
        first = one.session.session_id
        ensemble.cut(1)
        call = asyncio.ensure_future(one.session.get("/e"))
        await asyncio.sleep(10)
        with refusal(ZooKeeperErrorKind.CONNECTION_LOSS):
            await call
        assert one.session.state is SessionState.DISCONNECTED
        ensemble.repair(1)
        await asyncio.sleep(3)
        S = SessionState
        assert one.heard.states == [S.CONNECTED, S.DISCONNECTED, S.EXPIRED, S.CONNECTED]
        assert one.session.session_id != first
        assert await one.session.exists("/e") is None

    play(story)


def test_reads_may_be_stale_but_never_go_back_and_a_writer_sees_its_own_write():
    """A session sees sequential consistency over many writes of another."""

    async def story(world: SimWorld, ensemble: Ensemble, first: ZooKeeperParty, two: ZooKeeperParty) -> int:
        await first.session.create("/a", b"0")
        await asyncio.sleep(2)
        others = [one for one in ensemble.servers if one is not first.session._server]
        two.session._server = others[0]
        stale = last = 0
        for number in range(1, 200):
            await first.session.set("/a", str(number).encode())
            assert (await first.session.get("/a"))[0] == str(number).encode()
            seen = int((await two.session.get("/a"))[0])
            assert seen >= last
            stale += seen < number
            last = seen
        return stale

    assert play(story) > 0


def test_a_paused_process_hears_nothing_until_it_goes_on_and_then_of_its_end():
    """After SIGSTOP past the timeout the process gets the expiry before any call succeeds."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/e", b"", ephemeral=True)
        world.loop.pause(one.life)
        await asyncio.sleep(15)
        assert one.heard.states == [SessionState.CONNECTED]
        world.loop.resume(one.life)
        with pytest.raises(ZooKeeperError):
            await one.session.set("/e", b"still mine?")
        await asyncio.sleep(3)
        assert SessionState.EXPIRED in one.heard.states

    play(story)


def test_sequence_nodes_count_up():
    """Used, for example, by ISR change notifications."""

    async def story(world: SimWorld, ensemble: Ensemble, one: ZooKeeperParty, two: ZooKeeperParty) -> None:
        await one.session.create("/q", b"")
        names = [(await s.session.create("/q/n_", b"", sequence=True))[0] for s in (one, two, one)]
        assert names == [f"/q/n_{number:010d}" for number in range(3)]

    play(story)
