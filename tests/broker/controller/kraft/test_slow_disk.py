"""A slow disk: nothing is answered before it is stored, and nothing else waits for the disk."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.controller.kraft import event_loop
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.messages import OffsetAndEpoch, Vote
from broker.controller.kraft.raft.voters import ReplicaKey
from broker.controller.kraft.transport.codec import decode_response, encode_request
from broker.log.errors import LogError
from bus.errors import ErrorCode
from tests.broker.controller.kraft.node_world import (
    CLUSTER,
    NodeWorld,
    directory_id,
    keep,
    settings,
    voters,
    write,
)

THREE = {"controller.quorum.voters": voters([1, 2, 3])}
SLOW_S = 3.0
SOON_S = 0.3


async def three(world: NodeWorld) -> tuple[RaftNode, list[RaftNode]]:
    """Starts three voters; returns the leader and the others."""
    for node_id in (1, 2, 3):
        world.start(node_id)
    leader = await world.leader()
    await keep(world, leader, "first")
    others = [node for node in world.nodes.values() if node is not leader]
    await world.until(lambda: all(settings(node) for node in others), "all have it")
    return leader, others


def ask_for_vote(node: RaftNode, candidate: int, epoch: int) -> list[Any]:
    """Requests a vote for a candidate with the longest possible log; the list receives the
    answer."""
    ask = Vote(
        ReplicaKey(candidate, directory_id(candidate)), epoch, OffsetAndEpoch(999, epoch - 1), False
    )
    results: list[Any] = []
    _, request = encode_request(ask, CLUSTER, 0, ())
    node.api.vote(request, lambda response: results.append(decode_response(ask, response)))
    return results


def stored_vote(root: Path, node: RaftNode) -> str:
    """The vote that the node would find after a power loss."""
    return (root / str(node.me.id) / "__cluster_metadata-0" / "quorum-state").read_text()


def test_a_vote_is_answered_when_it_is_stored_and_the_next_question_after_it(tmp_path: Path):
    """A voter stores its vote before it answers: the second candidate of the epoch asks while the
    first vote is still being written, and is refused."""
    world = NodeWorld(tmp_path, THREE)

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
    """They get an error after which Kafka's controllers retry; waiting requests are answered in
    order."""
    monkeypatch.setattr(event_loop, "MAX_WAITING", 2)
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        leader, (node, other) = await three(world)
        for another in (leader, other):
            world.cut.add(frozenset((node.me.id, another.me.id)))
        world.disks[node.me.id].flush_s = SLOW_S
        epoch = leader.epoch + 1
        results = [ask_for_vote(node, leader.me.id, epoch + number) for number in range(4)]
        assert [len(one) for one in results] == [0, 0, 0, 1]
        assert results[3][0].error is ErrorCode.BROKER_NOT_AVAILABLE
        await world.until(lambda: all(results), "all are answered")
        assert [one[0].error for one in results[:3]] == [ErrorCode.NONE] * 3

    world.run(story())


def test_a_flush_counts_what_was_there_when_it_began(tmp_path: Path):
    """A decision appended during a flush is committed by the next flush."""
    world = NodeWorld(tmp_path)

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
    """Its own flush is one of three; appends continue during it."""
    world = NodeWorld(tmp_path, THREE)

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
    """It processes no messages while it waits for its disk; the leader is not to blame for that."""
    world = NodeWorld(tmp_path, THREE)

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
    """A fetch claims that everything before its offset is stored. Regression: a former leader
    fetched while its records were still being flushed, and they counted for the next commit."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        leader, others = await three(world)
        world.disks[leader.me.id].flush_s = SLOW_S
        await keep(world, leader, "unflushed")
        flushed = leader.log.flushed_offset
        assert flushed < leader.end_offset
        leader.step(leader.raft.resign)
        new = await world.until(lambda: next((n for n in others if n.is_active), None), "one leads")
        seen: list[tuple[int, int]] = []

        def known() -> int:
            found = new.raft.leader_state.current.progress.get(leader.me.id)
            seen.append((-1 if found is None else found.end_offset, leader.log.flushed_offset))
            return seen[-1][0] > flushed

        await world.until(known, "it fetches from the new leader")
        assert all(said <= stored for said, stored in seen)

    world.run(story())


def test_a_flush_that_failed_is_never_asked_for_again(tmp_path: Path):
    """The kernel drops pages that it could not write, and the next fsync succeeds. The node leaves
    the quorum and logs why, and the others continue; not even its stop flushes that file."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        leader, _ = await three(world)
        heard: list[str] = []
        leader.on_failed(heard.append)
        world.disks[leader.me.id].flushes.clear()
        world.disks[leader.me.id].is_broken = True
        results = write(leader, "lost or not")
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
        assert len(results) == 1

    world.run(story())


def test_a_stop_while_a_flush_is_under_way_keeps_what_was_decided(tmp_path: Path):
    """The log is closed only after Raft's worker has finished its queue."""
    world = NodeWorld(tmp_path)

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
    """Regression, found by the simulation: an I/O error while reading records for a follower was
    raised in the task that had written them, here the one of the no-op records, and the process
    ended."""
    world = NodeWorld(tmp_path, THREE)

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
