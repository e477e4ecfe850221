"""RaftNodes with real logs: decisions, commits, fail-over, snapshots, voters added and removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.controller.decisions.decision import Decision
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.format import AlreadyFormatted, write_initial_voters
from broker.controller.kraft.voter_requests import add_voter, remove_voter
from broker.disk.real import RealDisk
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import NoOpRecord
from tests.broker.controller.kraft.node_world import (
    NOT_CONTROLLER,
    NodeWorld,
    directory_id,
    keep,
    settings,
    voters,
    write,
)

THREE = {"controller.quorum.voters": voters([1, 2, 3])}


def voter(node_id: int) -> Voter:
    return Voter(ReplicaKey(node_id, directory_id(node_id)), (VoterEndpoint("node", node_id),))


def test_a_single_voter_answers_when_it_is_stored_and_keeps_it(tmp_path: Path) -> None:
    """It does so over three runs, each with a higher epoch, also after an unclean stop."""
    world = NodeWorld(tmp_path)

    async def story() -> None:
        for life in range(3):
            node = await world.alone()
            assert node.epoch == life + 1
            assert settings(node) == {f"life{one}": "1" for one in range(life)}
            await keep(world, node, f"life{life}")
            assert node.log.flushed_offset == node.end_offset
            if life == 1:
                await node.stop()
                del world.nodes[1]
            else:
                world.kill(1)

    world.run(story())


def test_everybody_has_heard_before_the_answer_is_given(tmp_path: Path) -> None:
    """A client that has its answer finds the change at this node."""
    world = NodeWorld(tmp_path)

    async def story() -> None:
        node = await world.alone()
        seen: list[str | None] = []
        write(node, "a")
        node.write(
            lambda image: Decision((), image.offset),
            lambda _: seen.append(world.heard[1][-1].image.topic_config("t").get("a")),
        )
        await world.until(lambda: seen, "it is answered")
        assert seen == ["1"]

    world.run(story())


def test_three_voters_commit_and_all_publish_the_same(tmp_path: Path) -> None:
    """Each node builds its image from the committed log only."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        results = write(leader, "a") + write(leader, "b")
        assert results == []
        everybody = {"a": "1", "b": "1"}
        await world.until(
            lambda: all(settings(node) == everybody for node in world.nodes.values()),
            "all have both settings",
        )
        follower = next(node for node in world.nodes.values() if node is not leader)
        assert write(follower, "c") == [NOT_CONTROLLER]
        assert follower.leader_id == leader.me.id

    world.run(story())


def test_a_cut_off_leader_fails_what_it_could_not_commit_and_forgets_it(tmp_path: Path) -> None:
    """Its newest image returns to the committed state; all nodes have the new leader's history."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        old = await world.leader()
        write(old, "kept")
        await world.until(lambda: settings(old) == {"kept": "1"}, "the first is committed")
        others = [node_id for node_id in (1, 2, 3) if node_id != old.me.id]
        world.cut = {frozenset((old.me.id, other)) for other in others}
        results = write(old, "lost")
        assert dict(old.image.topic_config("t")) == {"kept": "1", "lost": "1"}
        await world.until(lambda: results, "the cut-off leader gives up", within_s=10)
        assert results == [NOT_CONTROLLER]
        assert dict(old.image.topic_config("t")) == {"kept": "1"}
        new = await world.until(
            lambda: next((world.nodes[o] for o in others if world.nodes[o].is_active), None),
            "another leads",
        )
        write(new, "new")
        world.cut = set()
        await world.until(
            lambda: all(
                settings(node) == {"kept": "1", "new": "1"} for node in world.nodes.values()
            ),
            "all have the same history",
        )

    world.run(story())


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_leader_is_followed_by_another_within_half_a_second(
    tmp_path: Path, seed: int
) -> None:
    """The reset connections start the election: it does not wait for the fetch timeout of two
    seconds."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        await asyncio.sleep(0.1 * seed + 1)
        world.kill(leader.me.id)
        began = world.loop.time()
        await world.leader()
        assert world.loop.time() - began < 0.5

    world.run(story())


def test_a_leader_that_stops_names_its_successor(tmp_path: Path) -> None:
    """EndQuorumEpoch lets the next voter lead after a few messages."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        await asyncio.sleep(1)
        began = world.loop.time()
        await leader.stop()
        del world.nodes[leader.me.id]
        await world.leader()
        assert world.loop.time() - began < 0.1

    world.run(story())


@pytest.mark.slow
def test_a_laggard_takes_the_leaders_snapshot(tmp_path: Path) -> None:
    """The log before it is deleted; the image is the same, including deletions made meanwhile."""
    small = {
        **THREE,
        "metadata.log.max.record.bytes.between.snapshots": "2000",
        "metadata.max.retention.bytes": "3000",
        "controller.quorum.fetch.snapshot.max.bytes": "300",
    }
    world = NodeWorld(tmp_path, small)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        write(leader, "first")
        await world.until(
            lambda: all(settings(node) for node in world.nodes.values()), "all have the first"
        )
        absent = next(node_id for node_id in (1, 2, 3) if node_id != leader.me.id)
        world.kill(absent)
        for number in range(200):
            await world.until(
                lambda results=write(leader, f"n{number % 7}", str(number)): results, "it is committed"
            )
        await world.until(lambda: leader.log.start.offset > 0, "the log begins later")
        assert leader.log.size_bytes < 100_000
        back = world.start(absent)
        await world.until(lambda: settings(back) == settings(leader), "it has caught up")
        assert back.log.start.offset > 0
        world.kill(absent)
        again = world.start(absent)
        assert settings(again), "what a snapshot holds is certain from the start"

    world.run(story())


def test_a_snapshot_and_the_log_behind_it_give_the_live_image(tmp_path: Path) -> None:
    """Covers a single voter with snapshots that is killed."""
    world = NodeWorld(
        tmp_path,
        {"metadata.log.max.record.bytes.between.snapshots": "1000",
         "metadata.max.retention.bytes": "2000"},
    )  # fmt: skip

    async def story() -> None:
        node = await world.alone()
        for number in range(100):
            await keep(world, node, f"n{number % 5}", str(number))
        live = settings(node)
        world.kill(1)
        node = world.start(1)
        assert node.log.start.offset > 0
        assert settings(node) == live
        assert [one.key.id for one in node.voters.voters] == [1]

    world.run(story())


@pytest.mark.parametrize("years", [-20, 20])
def test_a_wall_clock_that_jumps_is_told_of_and_changes_nothing(
    tmp_path: Path, years: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Timeouts use the monotonic clock: the leader stays, and snapshots are still written."""
    world = NodeWorld(tmp_path, {**THREE, "metadata.log.max.snapshot.interval.ms": "5000"})

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        epoch = leader.epoch
        await asyncio.sleep(7)
        leader.clock.wall_error_ms = years * 365 * 86_400_000  # type: ignore[attr-defined]
        write(leader, "a")
        await world.until(lambda: all(settings(n) for n in world.nodes.values()), "all have it")
        before = leader.log.latest_snapshot
        await world.until(lambda: leader.log.latest_snapshot != before, "a snapshot is written")
        assert leader.is_active
        assert leader.epoch == epoch

    with caplog.at_level("WARNING", "broker.controller"):
        world.run(story())
    logged = [one.getMessage() for one in caplog.records if "wall clock" in one.getMessage()]
    assert len(logged) == 1
    assert f"by {years * 365 * 86_400} s" in logged[0]


async def added(world: NodeWorld, leader: RaftNode, node_id: int) -> list[object]:
    results: list[object] = []
    add_voter(leader, voter(node_id), 5000, True, lambda one: results.append(one.error))
    await world.until(lambda: results, "the change of voters has an outcome")
    return results


def test_a_voter_is_added_and_one_removed_while_the_quorum_works(tmp_path: Path) -> None:
    """KIP-853: one change at a time, a new voter joins once it has caught up, and the leader may
    remove itself."""
    world = NodeWorld(tmp_path, {"controller.quorum.bootstrap.servers": "node:1"})

    async def story() -> None:
        write_initial_voters(RealDisk(), str(tmp_path / "1"), VoterSet.of([voter(1)]), 0)
        leader = await world.alone()
        write(leader, "a")
        await asyncio.sleep(10)  # alone for longer than the check-quorum timeout
        for node_id in (2, 3):
            observer = world.start(node_id)
            await world.until(lambda node=observer: settings(node), "the observer has the log")
            assert await added(world, leader, node_id) == [ErrorCode.NONE]
            assert leader.is_active
            assert leader.epoch == 1
        assert leader.voters.ids == (1, 2, 3)
        results: list[object] = []
        remove_voter(leader, voter(1).key, lambda one: results.append(one.error))
        await world.until(lambda: results, "the leader has removed itself")
        assert results == [ErrorCode.NONE]
        new = await world.until(
            lambda: next((n for n in world.nodes.values() if n.is_active), None), "another leads"
        )
        assert new.me.id in (2, 3)
        assert new.voters.ids == (2, 3)
        write(new, "b")
        await world.until(
            lambda: all(settings(n) == {"a": "1", "b": "1"} for n in world.nodes.values()),
            "all have the new leader's record, the removed one as an observer",
        )

    world.run(story())


def test_a_new_controller_joins_by_itself_if_it_may(tmp_path: Path) -> None:
    """Covers controller.quorum.auto.join.enable (KIP-853's follow-up)."""
    world = NodeWorld(
        tmp_path,
        {"controller.quorum.bootstrap.servers": "node:1",
         "controller.quorum.auto.join.enable": "true"},
    )  # fmt: skip

    async def story() -> None:
        write_initial_voters(RealDisk(), str(tmp_path / "1"), VoterSet.of([voter(1)]), 0)
        leader = world.start(1)
        joining = world.start(2)
        staying = world.start(3, controller_quorum_auto_join_enable="false")
        await world.until(lambda: joining.raft.role is RaftRole.FOLLOWER, "it has joined")
        await asyncio.sleep(20)
        assert staying.raft.role is RaftRole.OBSERVER
        assert leader.voters.ids == (1, 2)
        assert leader.voters.find(2) == Voter(joining.me, (VoterEndpoint("node", 2),))

    world.run(story())


def test_a_node_whose_disk_refuses_its_vote_says_nothing_until_it_is_stored(tmp_path: Path) -> None:
    """A vote that was granted but not stored could be granted twice."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        old = await world.leader()
        others = [node_id for node_id in (1, 2, 3) if node_id != old.me.id]
        for node_id in others:
            world.disks[node_id].refuses = True
        world.kill(old.me.id)
        await asyncio.sleep(8)
        assert not any(node.is_active for node in world.nodes.values())
        for node_id in others:
            text = (tmp_path / str(node_id) / "__cluster_metadata-0/quorum-state").read_text()
            assert f'"leaderEpoch":{old.epoch},' in text
            world.disks[node_id].refuses = False
        new = await world.leader()
        results = write(new, "a")
        await world.until(lambda: results, "it is committed")
        assert results == ["a"]

    world.run(story())


def test_a_controller_whose_disk_is_full_leaves_the_decisions_to_others(tmp_path: Path) -> None:
    """Regression: it stayed the controller of a cluster in which no decision could be stored."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        old = await world.leader()
        world.disks[old.me.id].is_full = world.disks[old.me.id].refuses = True
        errors: list[ErrorCode] = []
        old.write(lambda _: Decision((NoOpRecord(),), None), lambda _: None, errors.append)
        assert errors == [ErrorCode.NOT_CONTROLLER]
        await world.until(lambda: not old.is_active, "it resigns")
        new = await world.leader()
        results = write(new, "kept")
        await world.until(lambda: results, "it is committed")
        world.disks[old.me.id].is_full = world.disks[old.me.id].refuses = False
        await world.until(lambda: old.end_offset == new.end_offset, "it follows")

    world.run(story())


def test_a_controller_that_is_alone_waits_for_room(tmp_path: Path) -> None:
    """It refuses each decision until there is room, since no other controller exists."""
    world = NodeWorld(tmp_path)

    async def story() -> None:
        write_initial_voters(RealDisk(), str(tmp_path / "1"), VoterSet.of([voter(1)]), 0)
        node = world.start(1)
        await world.until(lambda: node.is_active, "it leads")
        world.disks[1].is_full = True
        errors: list[ErrorCode] = []
        node.write(lambda _: Decision((NoOpRecord(),), None), lambda _: None, errors.append)
        assert errors == [ErrorCode.KAFKA_STORAGE_ERROR]
        world.disks[1].is_full = False
        results = write(node, "kept")
        await world.until(lambda: results, "it is committed")

    world.run(story())


def test_a_directory_with_metadata_is_not_formatted_again(tmp_path: Path) -> None:
    """Existing metadata is never overwritten."""
    write_initial_voters(RealDisk(), str(tmp_path), VoterSet.of([voter(1)]), 0)
    with pytest.raises(AlreadyFormatted, match="nothing was changed"):
        write_initial_voters(RealDisk(), str(tmp_path), VoterSet.of([voter(1)]), 0)


def test_observers_are_told_the_truth_about_an_idle_cluster(tmp_path: Path) -> None:
    """No-op records are written only while an observer fetches; otherwise the disk stays idle."""
    world = NodeWorld(tmp_path, THREE)

    async def story() -> None:
        for node_id in (1, 2, 3):
            world.start(node_id)
        leader = await world.leader()
        end = leader.end_offset
        await asyncio.sleep(3)
        assert 4 <= leader.end_offset - end <= 6
        alone = NodeWorld.start(world, 7, controller_quorum_voters="7@node:7")
        await world.until(lambda: alone.is_active, "it leads")
        end = alone.end_offset
        await asyncio.sleep(3)
        assert alone.end_offset == end

    world.run(story())


def test_a_snapshot_is_named_by_what_it_contains(tmp_path: Path) -> None:
    """Its name has the offset after its last record, and that record's epoch."""
    world = NodeWorld(tmp_path)

    async def story() -> None:
        node = await world.alone()
        await keep(world, node, "a")
        node.maintenance.snapshot_soon()
        await world.until(lambda: node.log.latest_snapshot, "the snapshot is written")
        assert node.log.latest_snapshot == OffsetAndEpoch(node.committed.offset + 1, node.epoch)

    world.run(story())
