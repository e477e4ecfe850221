"""A disk that takes its time: nothing is said before it is stored, and nobody else waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.controller.kraft import driver
from broker.controller.kraft.messages import OffsetAndEpoch, Vote
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.voters import ReplicaKey
from broker.controller.kraft.wire import answer_of, request_of
from broker.log.errors import LogError
from bus.errors import ErrorCode
from tests.broker.controller.kraft.node_world import (
    CLUSTER,
    Nodes,
    directory_id,
    keep,
    settings,
    voters,
    write,
)

THREE = {"controller.quorum.voters": voters([1, 2, 3])}
SLOW_S = 3.0
SOON_S = 0.3


async def three(world: Nodes) -> tuple[RaftNode, list[RaftNode]]:
    """The leader of three voters, and the others."""
    for node_id in (1, 2, 3):
        world.start(node_id)
    leader = await world.leader()
    await keep(world, leader, "first")
    others = [node for node in world.nodes.values() if node is not leader]
    await world.until(lambda: all(settings(node) for node in others), "all have it")
    return leader, others


def ask_for_vote(node: RaftNode, candidate: int, epoch: int) -> list[Any]:
    """A vote of a candidate whose log is as long as it can be; what is answered, in time."""
    ask = Vote(
        ReplicaKey(candidate, directory_id(candidate)), epoch, OffsetAndEpoch(999, epoch - 1), False
    )
    told: list[Any] = []
    _, request = request_of(ask, CLUSTER, 0, ())
    node.service.vote(request, lambda response: told.append(answer_of(ask, response)))
    return told


def stored_vote(root: Path, node: RaftNode) -> str:
    """What the node would remember after a loss of its power."""
    return (root / str(node.me.id) / "__cluster_metadata-0" / "quorum-state").read_text()


def test_a_vote_is_answered_when_it_is_stored_and_the_next_question_after_it(tmp_path: Path):
    """One that has voted remembers it before it says so: the second candidate of the epoch comes
    while the first vote is on its way to the device, and is refused."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, (node, other) = await three(world)
        world.disks[node.me.id].flush_s = SLOW_S
        epoch = leader.epoch + 1
        first = ask_for_vote(node, leader.me.id, epoch)
        second = ask_for_vote(node, other.me.id, epoch)
        await asyncio.sleep(SLOW_S / 2)
        assert (first, second) == ([], [])
        await world.until(lambda: first, "it votes")
        assert f'"leaderEpoch":{epoch},' in stored_vote(tmp_path, node)
        assert f'"votedId":{leader.me.id},' in stored_vote(tmp_path, node)
        await world.until(lambda: second, "it answers the other")
        assert (first[0].granted, second[0].granted) == (True, False)

    world.run(story())


def test_more_requests_than_may_wait_are_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As Kafka's controllers understand it; those that wait are answered in their order."""
    monkeypatch.setattr(driver, "MAX_WAITING", 2)
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, (node, other) = await three(world)
        for another in (leader, other):
            world.cut.add(frozenset((node.me.id, another.me.id)))
        world.disks[node.me.id].flush_s = SLOW_S
        epoch = leader.epoch + 1
        told = [ask_for_vote(node, leader.me.id, epoch + number) for number in range(4)]
        assert [len(one) for one in told] == [0, 0, 0, 1]
        assert told[3][0].error is ErrorCode.BROKER_NOT_AVAILABLE
        await world.until(lambda: all(told), "all are answered")
        assert [one[0].error for one in told[:3]] == [ErrorCode.NONE] * 3

    world.run(story())


def test_a_flush_counts_what_was_there_when_it_began(tmp_path: Path):
    """A decision that is appended while a flush is under way is committed by the next one."""
    world = Nodes(tmp_path)

    async def story() -> None:
        node = await world.alone()
        world.disks[1].flush_s = SLOW_S
        began = world.loop.time()
        first = write(node, "first")
        await asyncio.sleep(SLOW_S / 2)
        assert not first
        second, end = write(node, "second"), node.end_offset
        await world.until(lambda: first, "the first is committed")
        assert world.loop.time() - began < SLOW_S + SOON_S
        assert not second
        assert node.log.flushed_offset == end - 1
        await world.until(lambda: second, "the second is committed")
        assert 2 * SLOW_S <= world.loop.time() - began < 2 * SLOW_S + SOON_S

    world.run(story())


def test_a_leader_with_a_slow_disk_commits_what_the_others_have_stored(tmp_path: Path):
    """Its own flush is one of three; appends go on beside it."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, _ = await three(world)
        world.disks[leader.me.id].flush_s = SLOW_S
        began = world.loop.time()
        for number in range(5):
            await keep(world, leader, f"n{number}")
        assert world.loop.time() - began < SLOW_S
        assert leader.log.flushed_offset < leader.end_offset

    world.run(story())


def test_a_voter_with_a_slow_disk_does_not_doubt_its_leader(tmp_path: Path):
    """While it waits for its device it hears nobody; that is not the leader's silence."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, (slow, _) = await three(world)
        world.disks[slow.me.id].flush_s = SLOW_S
        for number in range(20):
            await keep(world, leader, f"n{number}")
            await asyncio.sleep(1)
        assert leader.is_active
        assert slow.epoch == leader.epoch
        assert slow.leader_id == leader.me.id
        world.disks[slow.me.id].flush_s = 0.0
        await world.until(lambda: settings(slow) == settings(leader), "it has caught up")

    world.run(story())


def test_a_leader_of_before_flushes_what_it_appended_before_it_fetches(tmp_path: Path):
    """A fetch says that all before it is stored. One that had led came with records whose flush was
    still under way, and they counted for the next commit."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, others = await three(world)
        world.disks[leader.me.id].flush_s = SLOW_S
        await keep(world, leader, "unflushed")
        flushed = leader.log.flushed_offset
        assert flushed < leader.end_offset
        leader.step(leader.machine.resign)
        new = await world.until(lambda: next((n for n in others if n.is_active), None), "one leads")
        seen: list[tuple[int, int]] = []

        def known() -> int:
            found = new.machine.leading.term.progress.get(leader.me.id)
            seen.append((-1 if found is None else found.end_offset, leader.log.flushed_offset))
            return seen[-1][0] > flushed

        await world.until(known, "it fetches from the new leader")
        assert all(said <= stored for said, stored in seen)

    world.run(story())


def test_a_flush_that_failed_is_never_asked_for_again(tmp_path: Path):
    """The kernel drops what it could not write and says yes the next time. The node takes no further
    part, says why, and the others go on; not even its stop flushes that file."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, _ = await three(world)
        heard: list[str] = []
        leader.on_failed(heard.append)
        world.disks[leader.me.id].flushes.clear()
        world.disks[leader.me.id].is_broken = True
        told = write(leader, "lost or not")
        await world.until(lambda: heard, "it says so")
        assert "cannot be flushed" in heard[0]
        assert not leader.is_active
        assert ask_for_vote(leader, 1, leader.epoch + 1)[0].error is ErrorCode.BROKER_NOT_AVAILABLE
        new = await world.leader()
        assert new is not leader
        await keep(world, new, "kept")
        await asyncio.sleep(10)
        await leader.stop()
        logs = [path for path in world.disks[leader.me.id].flushes if path.endswith(".log")]
        assert len(logs) == 1
        assert len(told) == 1

    world.run(story())


def test_a_stop_while_a_flush_is_under_way_keeps_what_was_decided(tmp_path: Path):
    """The log is closed behind all that Raft's worker has still to do."""
    world = Nodes(tmp_path)

    async def story() -> None:
        node = await world.alone()
        world.disks[1].flush_s = SLOW_S
        write(node, "last")
        await asyncio.sleep(SLOW_S / 2)
        await node.stop()
        del world.nodes[1]
        world.disks[1].flush_s = 0.0
        again = world.start(1)
        assert settings(again) == {"last": "1"}

    world.run(story())


def test_a_leader_that_cannot_read_its_log_for_another_tells_him_and_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Found by the simulation: an input/output error while records were offered to a follower went
    to whoever had written them, here the task of the no-op records, and the process ended."""
    world = Nodes(tmp_path, THREE)

    async def story() -> None:
        leader, _ = await three(world)
        right, refused = leader.log.read, []

        def wrong(*words: Any) -> bytes:
            if len(refused) >= 3:
                return right(*words)
            refused.append(words)
            raise LogError(ErrorCode.KAFKA_STORAGE_ERROR, "input/output error")

        monkeypatch.setattr(leader.log, "read", wrong)
        leader.write_noop()
        await keep(world, leader, "kept")
        assert len(refused) == 3
        assert leader.is_active

    world.run(story())
