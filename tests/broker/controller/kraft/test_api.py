"""Foreign requests to a quorum are refused with Kafka's errors and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.controller.kraft.epoch_limit import (
    MAX_MISSED_ELECTIONS,
    SUSPECT_FROM,
    is_implausible,
)
from broker.controller.kraft.node import RaftNode
from broker.controller.kraft.raft.messages import Vote
from broker.controller.kraft.raft.voters import ReplicaKey
from broker.controller.kraft.transport.codec import TOPIC, TOPIC_ID
from bus.errors import ErrorCode
from bus.protocol.generated import begin_quorum_epoch as begin
from bus.protocol.generated import end_quorum_epoch as end
from bus.protocol.generated import fetch, fetch_snapshot, vote
from tests.broker.controller.kraft.node_world import CLUSTER, NodeWorld, keep

EMPTY = [
    vote.VoteRequest(), begin.BeginQuorumEpochRequest(), end.EndQuorumEpochRequest(),
    fetch_snapshot.FetchSnapshotRequest(),
    vote.VoteRequest(topics=[vote.TopicDataInRequest("other", [vote.PartitionDataInRequest()])]),
    vote.VoteRequest(
        topics=[vote.TopicDataInRequest(TOPIC, [vote.PartitionDataInRequest(partition_index=1)])]
    ),
]  # fmt: skip


def ask(node: RaftNode, request: Any) -> Any:
    """Returns the answer of the node's API."""
    service, answers = node.api, list[Any]()
    match request:
        case vote.VoteRequest():
            service.vote(request, answers.append)
        case begin.BeginQuorumEpochRequest():
            service.begin_epoch(request, answers.append)
        case end.EndQuorumEpochRequest():
            service.end_epoch(request, answers.append)
        case fetch_snapshot.FetchSnapshotRequest():
            service.fetch_snapshot(request, answers.append)
        case fetch.FetchRequest():
            service.fetch(request, answers.append)
    return answers[0]


def with_leader(root: Path, judge: Callable[[RaftNode], None]) -> None:
    """Runs `judge` on a leader with a snapshot and some records, which must still lead its epoch
    afterwards."""
    world = NodeWorld(root)

    async def story() -> None:
        node = await world.alone()
        await keep(world, node, "a")
        node.maintenance.snapshot_soon()
        await world.until(lambda: node.log.latest_snapshot, "the snapshot is written")
        judge(node)
        assert node.is_active
        assert node.epoch == 1

    world.run(story())


@pytest.mark.parametrize("request_", EMPTY, ids=range(len(EMPTY)))
def test_a_request_for_no_partition_or_another_one(tmp_path: Path, request_: Any) -> None:
    """The answer is INVALID_REQUEST."""
    with_leader(
        tmp_path, lambda node: _same(ask(node, request_).error_code, ErrorCode.INVALID_REQUEST)
    )


def test_a_request_of_another_cluster(tmp_path: Path) -> None:
    """The answer is INCONSISTENT_CLUSTER_ID, regardless of the other fields."""
    wrong = vote.VoteRequest(cluster_id="another")
    with_leader(
        tmp_path, lambda node: _same(ask(node, wrong).error_code, ErrorCode.INCONSISTENT_CLUSTER_ID)
    )


LAST_EPOCH = (1 << 31) - 1


def absurd(epoch: int) -> list[Any]:
    """All requests whose epoch a voter would adopt."""
    voted = vote.PartitionDataInRequest(replica_epoch=epoch, replica_id=2, last_offset_epoch=1)
    begun = begin.PartitionDataInRequest(leader_id=2, leader_epoch=epoch)
    ended = end.PartitionDataInRequest(leader_id=2, leader_epoch=epoch)
    return [
        vote.VoteRequest(topics=[vote.TopicDataInRequest(TOPIC, [voted])]),
        begin.BeginQuorumEpochRequest(topics=[begin.TopicDataInRequest(TOPIC, [begun])]),
        end.EndQuorumEpochRequest(topics=[end.TopicDataInRequest(TOPIC, [ended])]),
    ]


@pytest.mark.parametrize("epoch", [LAST_EPOCH, LAST_EPOCH - 1, SUSPECT_FROM])
def test_an_epoch_to_which_no_quorum_comes(
    tmp_path: Path, epoch: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is INVALID_REQUEST, with one log line; the leader keeps its epoch. In the last
    possible epoch a quorum could hold no further election."""

    def judge(node: RaftNode) -> None:
        for request in absurd(epoch):
            _same(ask(node, request).error_code, ErrorCode.INVALID_REQUEST)

    with_leader(tmp_path, judge)
    logged = [one for one in caplog.messages if "no quorum comes so far" in one]
    assert len(logged) == 1
    assert f"quorum node 2 says that the quorum is in epoch {epoch}, here it is 1" in logged[0]


def test_an_answer_with_an_epoch_to_which_no_quorum_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is ignored."""

    def judge(node: RaftNode) -> None:
        sent: list[Any] = []
        monkeypatch.setattr(node.connections, "send", lambda *call: sent.append(call))
        node.event_loop.send(2, Vote(node.me, 1, node.log.end, False, ReplicaKey(2)))
        lie = vote.PartitionDataInResponse(leader_id=3, leader_epoch=LAST_EPOCH)
        [(*_, done, _)] = sent
        done(vote.VoteResponse(topics=[vote.TopicDataInResponse(TOPIC, [lie])]))

    with_leader(tmp_path, judge)


def test_epochs_that_a_quorum_can_come_to_are_believed() -> None:
    """They are accepted after any absence, and a quorum whose epoch is in the suspect half
    continues."""
    for epoch, known in ((2, 1), (SUSPECT_FROM - 1, 0), (SUSPECT_FROM, SUSPECT_FROM - 1),
                         (LAST_EPOCH, LAST_EPOCH - MAX_MISSED_ELECTIONS), (5, LAST_EPOCH)):  # fmt: skip
        assert not is_implausible(epoch, known)
    assert is_implausible(LAST_EPOCH, LAST_EPOCH - MAX_MISSED_ELECTIONS - 1)


def snapshot_request(offset: int, epoch: int, position: int) -> Any:
    partition = fetch_snapshot.PartitionSnapshotInRequest(
        partition=0, current_leader_epoch=-1, position=position,
        snapshot_id=fetch_snapshot.SnapshotIdInRequest(offset, epoch),
    )  # fmt: skip
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=CLUSTER, topics=[fetch_snapshot.TopicSnapshotInRequest(TOPIC, [partition])]
    )


def test_snapshots_and_positions_that_are_not_there(tmp_path: Path) -> None:
    """The answers are SNAPSHOT_NOT_FOUND and POSITION_OUT_OF_RANGE; a valid request gets the
    bytes."""

    def judge(node: RaftNode) -> None:
        held = node.log.latest_snapshot
        assert held is not None

        def piece(offset: int, position: int) -> Any:
            response = ask(node, snapshot_request(offset, held.epoch, position))
            return response.topics[0].partitions[0]

        _same(piece(held.offset + 1, 0).error_code, ErrorCode.SNAPSHOT_NOT_FOUND)
        _same(piece(held.offset, -1).error_code, ErrorCode.POSITION_OUT_OF_RANGE)
        _same(piece(held.offset, 1 << 40).error_code, ErrorCode.POSITION_OUT_OF_RANGE)
        whole = piece(held.offset, 0)
        _same(whole.error_code, ErrorCode.NONE)
        _same(len(whole.unaligned_records), whole.size)

    with_leader(tmp_path, judge)


def fetch_request(offset: int, epoch: int = -1, last_epoch: int = -1) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset,
        last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20,
    )  # fmt: skip
    return fetch.FetchRequest(
        max_bytes=1 << 20, topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])]
    )


def test_a_consumer_reads_what_is_committed_and_no_more(tmp_path: Path) -> None:
    """The console and the command line read the metadata so, with replica id -1."""

    def judge(node: RaftNode) -> None:
        def read(request: fetch.FetchRequest) -> Any:
            return ask(node, request).responses[0].partitions[0]

        data = read(fetch_request(0))
        _same(data.high_watermark, node.end_offset)
        _same(len(data.records), node.log.size_bytes)
        _same(data.current_leader.leader_id, 1)
        _same(read(fetch_request(99)).error_code, ErrorCode.OFFSET_OUT_OF_RANGE)
        _same(read(fetch_request(-1)).error_code, ErrorCode.INVALID_REQUEST)
        _same(read(fetch_request(0, epoch=7)).error_code, ErrorCode.UNKNOWN_LEADER_EPOCH)
        _same(read(fetch_request(0, epoch=0)).error_code, ErrorCode.FENCED_LEADER_EPOCH)
        diverging = read(fetch_request(node.end_offset + 5, last_epoch=1)).diverging_epoch
        _same((diverging.epoch, diverging.end_offset), (1, node.end_offset))

    with_leader(tmp_path, judge)


def _same(found: object, expected: object) -> None:
    assert found == expected
