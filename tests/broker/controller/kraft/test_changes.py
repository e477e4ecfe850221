"""Changes of the voters through whole nodes: each is answered, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.controller.kraft.changes import add_voter, raise_version, remove_voter, update_voter
from broker.controller.kraft.format import write_initial_voters
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.real import RealDisk
from bus.errors import ErrorCode
from tests.broker.controller.kraft.node_world import Nodes, directory_id, settings, voters, write

STATIC = {"controller.quorum.voters": voters([1, 2, 3])}
DYNAMIC = {"controller.quorum.bootstrap.servers": "node:1,node:2,node:3"}
WAIT_MS = 5_000
LOST_S = 4.0
"""A cut-off leader knows after 1.5 fetch time-outs (2 s each) that it leads no longer."""


def voter(node_id: int, port: int = 0) -> Voter:
    """A voter of these worlds."""
    return Voter(ReplicaKey(node_id, directory_id(node_id)), (Endpoint("node", port or node_id),))


def dynamic(root: Path) -> Nodes:
    """Three voters, not started yet, that the log names."""
    for node_id in (1, 2, 3):
        first = VoterSet.of([voter(1), voter(2), voter(3)])
        write_initial_voters(RealDisk(), str(root / str(node_id)), first, 0)
    return Nodes(root, DYNAMIC)


def tell(world: Nodes, story: Callable[[], Coroutine[Any, Any, None]], nodes: int = 3) -> None:
    """Start them, then run the story."""

    async def whole() -> None:
        for node_id in range(1, nodes + 1):
            world.start(node_id)
        await story()

    world.run(whole())


def asked(change: Callable[..., None], node: RaftNode, *words: Any) -> list[Outcome]:
    """A list that gets the outcome."""
    told: list[Outcome] = []
    change(node, *words, told.append)
    return told


def others_of(world: Nodes, leader: RaftNode) -> list[int]:
    """Everybody else's number."""
    return [one for one, node in world.nodes.items() if node is not leader]


def test_a_new_voter_that_never_comes_is_answered_when_the_time_is_up(tmp_path: Path) -> None:
    """Once, with REQUEST_TIMED_OUT, and the next change may begin at once."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        began = world.loop.time()
        told = asked(add_voter, leader, voter(4), WAIT_MS, True)
        await asyncio.sleep(WAIT_MS / 1000 - 0.5)
        assert not told
        await world.until(lambda: told, "it is answered")
        assert world.loop.time() - began < WAIT_MS / 1000 + 0.5
        other = others_of(world, leader)[0]
        removed = asked(remove_voter, leader, voter(other).key)
        await world.until(lambda: removed, "the next is answered")
        await asyncio.sleep(2 * WAIT_MS / 1000)
        assert [one.error for one in told] == [ErrorCode.REQUEST_TIMED_OUT]
        assert [one.error for one in removed] == [ErrorCode.NONE]

    tell(world, story)


def test_what_waits_at_a_leader_that_is_cut_off_is_answered_not_controller(tmp_path: Path) -> None:
    """Each kind of change, within the time in which a leader notices: a tool that asked for 60 s
    asks the next leader instead of waiting in vain."""
    for change in ("add", "remove", "update", "not caught up"):
        world = dynamic(tmp_path / change.replace(" ", "-"))

        async def story(world: Nodes = world, change: str = change) -> None:
            leader = await world.leader()
            others = others_of(world, leader)
            if change == "add":
                world.start(4)
                await world.until(
                    lambda: 4 in (leader.machine.leading.term or world).progress,  # type: ignore[union-attr]
                    "the new one has fetched",
                )
            world.cut = {frozenset((leader.me.id, one)) for one in others}
            match change:
                case "add" | "not caught up":
                    told = asked(add_voter, leader, voter(4), 60_000, True)
                case "remove":
                    told = asked(remove_voter, leader, voter(others[0]).key)
                case _:
                    told = asked(update_voter, leader, voter(others[0], 99))
            await world.until(lambda: told, "it is answered", LOST_S)
            await asyncio.sleep(10)
            assert [one.error for one in told] == [ErrorCode.NOT_CONTROLLER], change
            world.cut = set()
            new = await world.leader()
            write(new, "a")
            await world.until(lambda: settings(leader), "the old leader follows")
            assert leader.voters == new.voters

        tell(world, story)


def test_a_change_at_a_node_that_stops_leading_by_itself_is_answered(tmp_path: Path) -> None:
    """It resigned: nobody is left to carry the change out here."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        told = asked(add_voter, leader, voter(4), 60_000, True)
        leader.step(leader.machine.resign)
        await world.until(lambda: told, "it is answered", 1)
        assert told[0].error is ErrorCode.NOT_CONTROLLER

    tell(world, story)


def test_a_change_at_a_node_whose_disk_refuses_is_answered(tmp_path: Path) -> None:
    """Such a node is silent; who waits for it must not wait for ever."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        told = asked(add_voter, leader, voter(4), 60_000, True)
        leader.driver.is_stalled = True
        await world.until(lambda: told, "it is answered", 1)
        assert told[0].error is ErrorCode.KAFKA_STORAGE_ERROR
        leader.driver.is_stalled = False

    tell(world, story)


def test_a_voter_that_listens_elsewhere_after_a_restart_is_found_there(tmp_path: Path) -> None:
    """UpdateRaftVoter: it tells the leader, and the set of voters says so from then on; a leader
    that moved writes it down itself."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        other = others_of(world, leader)[0]
        for moved in (other, leader.me.id):
            world.kill(moved)
            world.start(moved, port=moved + 50)
            await world.until(
                lambda moved=moved: all(
                    node.voters.find(moved) == voter(moved, moved + 50)
                    for node in world.nodes.values()
                ),
                "all know the new place",
            )
        before = {node.voters for node in world.nodes.values()}
        (await world.leader()).step((await world.leader()).machine.resign)
        new = await world.leader()
        write(new, "a")
        await world.until(lambda: all(settings(one) for one in world.nodes.values()), "they meet")
        assert {node.voters for node in world.nodes.values()} == before

    tell(world, story)


def test_a_static_quorum_becomes_a_dynamic_one_by_kraft_version(tmp_path: Path) -> None:
    """All tell the leader where they are; after the step a fourth may vote, and what the
    configuration says counts no longer, also after a restart of all."""
    world = Nodes(tmp_path, {**STATIC, **DYNAMIC})

    async def story() -> None:
        leader = await world.leader()
        told = asked(add_voter, leader, voter(4), WAIT_MS, True)
        assert told[0].error is ErrorCode.UNSUPPORTED_VERSION
        await world.until(
            lambda: asked(raise_version, leader, 1, True)[0].error is ErrorCode.NONE, "all said it"
        )
        assert leader.kraft_version == 0
        told = asked(raise_version, leader, 1, False)
        await world.until(lambda: told, "it is answered")
        assert told[0].error is ErrorCode.NONE
        world.start(4)
        told = asked(add_voter, leader, voter(4), WAIT_MS, True)
        await world.until(lambda: told, "it is answered")
        assert told[0].error is ErrorCode.NONE
        leader.housekeeping.snapshot_soon()
        await world.until(lambda: leader.log.latest_snapshot, "the snapshot is written")
        for node_id in (1, 2, 3, 4):
            world.kill(node_id)
        for node_id in (1, 2, 3, 4):
            world.start(node_id)
        new = await world.leader()
        write(new, "a")
        await world.until(lambda: all(settings(one) for one in world.nodes.values()), "they meet")
        for node in world.nodes.values():
            assert node.kraft_version == 1
            assert node.voters.voters == tuple(voter(one) for one in (1, 2, 3, 4))

    tell(world, story)


def test_a_process_that_is_not_at_its_voters_place_finds_who_is(tmp_path: Path) -> None:
    """Two controllers of one id: the one that the configuration means is left alone, the other one
    is told, whichever was there first."""
    for order in ((3, 30), (30, 3)):
        world = Nodes(tmp_path / str(order[0]), STATIC)
        met: dict[int, list[str]] = {3: [], 30: []}

        async def story(
            world: Nodes = world, order: tuple[int, ...] = order, met: Any = met
        ) -> None:
            for at in order:
                world.start(3, at=at).on_namesake(met[at].append)
            await world.until(lambda: met[30], "the one elsewhere has found the other", 20)
            world.kill(30)
            leader = await world.leader()
            write(leader, "a")
            await world.until(lambda: settings(world.nodes[3]), "the right one follows", 20)
            await asyncio.sleep(20)
            assert not met[3]
            assert "node:3" in met[30][0]

        tell(world, story, nodes=2)


def test_a_process_that_the_leader_refuses_for_long_is_told_why(tmp_path: Path) -> None:
    """Both may think that they are at their place (a name that means each machine itself): the
    leader hears one of them, and the other one is told."""
    world = Nodes(tmp_path, STATIC)

    async def story() -> None:
        met: list[str] = []
        leader = await world.leader()
        right = world.start(3)
        write(leader, "a")
        await world.until(lambda: settings(right), "the first one follows")
        world.start(3, at=30, port=3).on_namesake(met.append)
        await world.until(lambda: met, "the second one is told")
        write(leader, "b")
        await world.until(lambda: "b" in settings(right), "the first one follows still")
        assert "fetches from the leader" in met[0]
        assert not settings(world.nodes[30])

    tell(world, story, nodes=2)


def test_a_stranger_at_ones_place_is_no_namesake(tmp_path: Path) -> None:
    """A wrong entry in controller.quorum.voters is something else than two processes of one id."""
    world = Nodes(tmp_path, STATIC)

    async def story() -> None:
        met: list[str] = []
        world.start(4, port=3)
        world.start(3, port=33).on_namesake(met.append)
        await asyncio.sleep(30)
        assert not met

    tell(world, story, nodes=2)


def test_a_voter_that_moved_is_no_namesake_of_itself(tmp_path: Path) -> None:
    """Nobody answers at its old place any more."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        met: list[str] = []
        other = others_of(world, leader)[0]
        world.kill(other)
        world.start(other, port=77).on_namesake(met.append)
        await world.until(lambda: leader.voters.find(other) == voter(other, 77), "it has moved")
        await asyncio.sleep(30)
        assert not met

    tell(world, story)
