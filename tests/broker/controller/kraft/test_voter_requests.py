"""Voter changes through whole nodes: each gets an answer, also if something fails meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.format import write_initial_voters
from broker.controller.kraft.voter_requests import (
    add_voter,
    raise_version,
    remove_voter,
    update_voter,
)
from broker.disk.real import RealDisk
from bus.errors import ErrorCode
from tests.broker.controller.kraft.node_world import (
    NodeWorld,
    directory_id,
    settings,
    voters,
    write,
)

STATIC = {"controller.quorum.voters": voters([1, 2, 3])}
DYNAMIC = {"controller.quorum.bootstrap.servers": "node:1,node:2,node:3"}
WAIT_MS = 5_000
LOST_S = 4.0
"""A cut-off leader resigns after 1.5 fetch timeouts (2 s each)."""


def voter(node_id: int, port: int = 0) -> Voter:
    """A voter of these worlds."""
    return Voter(ReplicaKey(node_id, directory_id(node_id)), (VoterEndpoint("node", port or node_id),))


def dynamic(root: Path) -> NodeWorld:
    """Three voters that the log names, not started yet."""
    for node_id in (1, 2, 3):
        first = VoterSet.of([voter(1), voter(2), voter(3)])
        write_initial_voters(RealDisk(), str(root / str(node_id)), first, 0)
    return NodeWorld(root, DYNAMIC)


def run_story(world: NodeWorld, story: Callable[[], Coroutine[Any, Any, None]], nodes: int = 3) -> None:
    """Starts the nodes, then runs the story."""

    async def whole() -> None:
        for node_id in range(1, nodes + 1):
            world.start(node_id)
        await story()

    world.run(whole())


def asked(change: Callable[..., None], node: RaftNode, *words: Any) -> list[VoterChangeResult]:
    """Requests the change; returns a list that receives its result."""
    results: list[VoterChangeResult] = []
    change(node, *words, results.append)
    return results


def others_of(world: NodeWorld, leader: RaftNode) -> list[int]:
    """The ids of all other nodes."""
    return [one for one, node in world.nodes.items() if node is not leader]


def test_a_new_voter_that_never_comes_is_answered_when_the_time_is_up(tmp_path: Path) -> None:
    """It gets one REQUEST_TIMED_OUT, and the next change may begin immediately."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        began = world.loop.time()
        results = asked(add_voter, leader, voter(4), WAIT_MS, True)
        await asyncio.sleep(WAIT_MS / 1000 - 0.5)
        assert not results
        await world.until(lambda: results, "it is answered")
        assert world.loop.time() - began < WAIT_MS / 1000 + 0.5
        other = others_of(world, leader)[0]
        removed = asked(remove_voter, leader, voter(other).key)
        await world.until(lambda: removed, "the next is answered")
        await asyncio.sleep(2 * WAIT_MS / 1000)
        assert [one.error for one in results] == [ErrorCode.REQUEST_TIMED_OUT]
        assert [one.error for one in removed] == [ErrorCode.NONE]

    run_story(world, story)


def test_what_waits_at_a_leader_that_is_cut_off_is_answered_not_controller(tmp_path: Path) -> None:
    """Each kind of change is answered as soon as the leader notices: a tool with a timeout of 60 s
    then asks the next leader instead of waiting in vain."""
    for change in ("add", "remove", "update", "not caught up"):
        world = dynamic(tmp_path / change.replace(" ", "-"))

        async def story(world: NodeWorld = world, change: str = change) -> None:
            leader = await world.leader()
            others = others_of(world, leader)
            if change == "add":
                world.start(4)
                await world.until(
                    lambda: 4 in (leader.raft.leader_state.current or world).progress,  # type: ignore[union-attr]
                    "the new one has fetched",
                )
            world.cut = {frozenset((leader.me.id, one)) for one in others}
            match change:
                case "add" | "not caught up":
                    results = asked(add_voter, leader, voter(4), 60_000, True)
                case "remove":
                    results = asked(remove_voter, leader, voter(others[0]).key)
                case _:
                    results = asked(update_voter, leader, voter(others[0], 99))
            await world.until(lambda: results, "it is answered", LOST_S)
            await asyncio.sleep(10)
            assert [one.error for one in results] == [ErrorCode.NOT_CONTROLLER], change
            world.cut = set()
            new = await world.leader()
            write(new, "a")
            await world.until(lambda: settings(leader), "the old leader follows")
            assert leader.voters == new.voters

        run_story(world, story)


def test_a_change_at_a_node_that_stops_leading_by_itself_is_answered(tmp_path: Path) -> None:
    """The leader resigned, so this node can no longer complete the change."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        results = asked(add_voter, leader, voter(4), 60_000, True)
        leader.step(leader.raft.resign)
        await world.until(lambda: results, "it is answered", 1)
        assert results[0].error is ErrorCode.NOT_CONTROLLER

    run_story(world, story)


def test_a_change_at_a_node_whose_disk_refuses_is_answered(tmp_path: Path) -> None:
    """Such a node sends nothing to its peers, but its callers must not wait for ever."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        results = asked(add_voter, leader, voter(4), 60_000, True)
        leader.event_loop.is_stalled = True
        await world.until(lambda: results, "it is answered", 1)
        assert results[0].error is ErrorCode.KAFKA_STORAGE_ERROR
        leader.event_loop.is_stalled = False

    run_story(world, story)


def test_a_voter_that_listens_elsewhere_after_a_restart_is_found_there(tmp_path: Path) -> None:
    """UpdateRaftVoter: the voter sends its new endpoint to the leader, which stores it in the set
    of voters; a leader that moved stores its own."""
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
        (await world.leader()).step((await world.leader()).raft.resign)
        new = await world.leader()
        write(new, "a")
        await world.until(lambda: all(settings(one) for one in world.nodes.values()), "they meet")
        assert {node.voters for node in world.nodes.values()} == before

    run_story(world, story)


def test_a_static_quorum_becomes_a_dynamic_one_by_kraft_version(tmp_path: Path) -> None:
    """All voters send their endpoints to the leader. After the upgrade a fourth node may join, and
    the configured voters are ignored, also after a restart of all nodes."""
    world = NodeWorld(tmp_path, {**STATIC, **DYNAMIC})

    async def story() -> None:
        leader = await world.leader()
        results = asked(add_voter, leader, voter(4), WAIT_MS, True)
        assert results[0].error is ErrorCode.UNSUPPORTED_VERSION
        await world.until(
            lambda: asked(raise_version, leader, 1, True)[0].error is ErrorCode.NONE, "all said it"
        )
        assert leader.kraft_version == 0
        results = asked(raise_version, leader, 1, False)
        await world.until(lambda: results, "it is answered")
        assert results[0].error is ErrorCode.NONE
        world.start(4)
        results = asked(add_voter, leader, voter(4), WAIT_MS, True)
        await world.until(lambda: results, "it is answered")
        assert results[0].error is ErrorCode.NONE
        leader.maintenance.snapshot_soon()
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

    run_story(world, story)


def test_a_process_that_is_not_at_its_voters_place_finds_who_is(tmp_path: Path) -> None:
    """Of two controllers with one id only the one at another address than the configured one is
    notified, in either order of their starts."""
    for order in ((3, 30), (30, 3)):
        world = NodeWorld(tmp_path / str(order[0]), STATIC)
        met: dict[int, list[str]] = {3: [], 30: []}

        async def story(
            world: NodeWorld = world, order: tuple[int, ...] = order, met: Any = met
        ) -> None:
            for at in order:
                world.start(3, at=at).on_duplicate_id(met[at].append)
            await world.until(lambda: met[30], "the one elsewhere has found the other", 20)
            world.kill(30)
            leader = await world.leader()
            write(leader, "a")
            await world.until(lambda: settings(world.nodes[3]), "the right one follows", 20)
            await asyncio.sleep(20)
            assert not met[3]
            assert "node:3" in met[30][0]

        run_story(world, story, nodes=2)


def test_a_process_that_the_leader_refuses_for_long_is_told_why(tmp_path: Path) -> None:
    """Both may have the configured address (a host name that resolves to each machine itself): the
    leader accepts one of them, and the other one is notified."""
    world = NodeWorld(tmp_path, STATIC)

    async def story() -> None:
        met: list[str] = []
        leader = await world.leader()
        right = world.start(3)
        write(leader, "a")
        await world.until(lambda: settings(right), "the first one follows")
        world.start(3, at=30, port=3).on_duplicate_id(met.append)
        await world.until(lambda: met, "the second one is told")
        write(leader, "b")
        await world.until(lambda: "b" in settings(right), "the first one follows still")
        assert "fetches from the leader" in met[0]
        assert not settings(world.nodes[30])

    run_story(world, story, nodes=2)


def test_a_stranger_at_ones_place_is_no_namesake(tmp_path: Path) -> None:
    """A wrong entry in controller.quorum.voters is not a duplicate id."""
    world = NodeWorld(tmp_path, STATIC)

    async def story() -> None:
        met: list[str] = []
        world.start(4, port=3)
        world.start(3, port=33).on_duplicate_id(met.append)
        await asyncio.sleep(30)
        assert not met

    run_story(world, story, nodes=2)


def test_a_voter_that_moved_is_no_namesake_of_itself(tmp_path: Path) -> None:
    """No process answers at its old address any longer."""
    world = dynamic(tmp_path)

    async def story() -> None:
        leader = await world.leader()
        met: list[str] = []
        other = others_of(world, leader)[0]
        world.kill(other)
        world.start(other, port=77).on_duplicate_id(met.append)
        await world.until(lambda: leader.voters.find(other) == voter(other, 77), "it has moved")
        await asyncio.sleep(30)
        assert not met

    run_story(world, story)
