"""The machine's messages as Kafka's, and Kafka's as the machine's.

In: values of `messages` or generated messages. Out: the other kind. Never: a decision; what does
not name `__cluster_metadata` partition 0 comes out as None.
"""

from __future__ import annotations

from typing import Any

from broker.controller.kraft.messages import (
    NO_LEADER,
    UNKNOWN_WATERMARK,
    Answer,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    OffsetAndEpoch,
    Request,
    SnapshotAnswer,
    Vote,
    VoteAnswer,
)
from broker.controller.kraft.voters import NO_DIRECTORY, Endpoint, ReplicaKey
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated import begin_quorum_epoch as begin
from bus.protocol.generated import end_quorum_epoch as end
from bus.protocol.generated import fetch, fetch_snapshot, vote

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""


# -- our requests as Kafka's ------------------------------------------------------------------


def request_of(
    ask: Request, cluster_id: str, max_bytes: int, endpoints: tuple[Endpoint, ...]
) -> tuple[int, Any]:
    """(API key, message). `endpoints` are this node's, for those who learn of a new leader."""
    match ask:
        case Vote():
            return ApiKey.VOTE, _vote_request(ask, cluster_id)
        case BeginEpoch():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin_request(ask, cluster_id, endpoints)
        case EndEpoch():
            return ApiKey.END_QUORUM_EPOCH, _end_request(ask, cluster_id, endpoints)
        case Fetch():
            return ApiKey.FETCH, _fetch_request(ask, cluster_id, max_bytes)
        case FetchSnapshot():
            return ApiKey.FETCH_SNAPSHOT, _snapshot_request(ask, cluster_id, max_bytes)


def _vote_request(ask: Vote, cluster_id: str) -> vote.VoteRequest:
    voter = ask.voter or ReplicaKey(-1)
    partition = vote.PartitionDataInRequest(
        partition_index=0,
        replica_epoch=ask.epoch,
        replica_id=ask.candidate.id,
        replica_directory_id=ask.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=ask.end.epoch,
        last_offset=ask.end.offset,
        pre_vote=ask.pre_vote,
    )
    topic = vote.TopicDataInRequest(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def _begin_request(
    ask: BeginEpoch, cluster_id: str, endpoints: tuple[Endpoint, ...]
) -> begin.BeginQuorumEpochRequest:
    voter = ask.voter or ReplicaKey(-1)
    partition = begin.PartitionDataInRequest(
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=ask.leader_id,
        leader_epoch=ask.epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[begin.TopicDataInRequest(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name=one.listener, host=one.host, port=one.port)
            for one in endpoints
        ],
    )


def _end_request(
    ask: EndEpoch, cluster_id: str, endpoints: tuple[Endpoint, ...]
) -> end.EndQuorumEpochRequest:
    partition = end.PartitionDataInRequest(
        partition_index=0,
        leader_id=ask.leader_id,
        leader_epoch=ask.epoch,
        preferred_successors=[one.id for one in ask.successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=one.id, candidate_directory_id=one.directory_id)
            for one in ask.successors
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end.TopicDataInRequest(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[
            end.LeaderEndpoint(name=one.listener, host=one.host, port=one.port)
            for one in endpoints
        ],
    )


def _fetch_request(ask: Fetch, cluster_id: str, max_bytes: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=ask.epoch,
        fetch_offset=ask.offset,
        last_fetched_epoch=ask.last_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=ask.replica.directory_id,
        high_watermark=ask.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_id=ask.replica.id,
        replica_state=fetch.ReplicaState(replica_id=ask.replica.id),
        max_wait_ms=ask.max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def _snapshot_request(
    ask: FetchSnapshot, cluster_id: str, max_bytes: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshotInRequest(
        partition=0,
        current_leader_epoch=ask.epoch,
        snapshot_id=fetch_snapshot.SnapshotIdInRequest(ask.snapshot.offset, ask.snapshot.epoch),
        position=ask.position,
        replica_directory_id=ask.replica.directory_id,
    )
    topic = fetch_snapshot.TopicSnapshotInRequest(name=TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=ask.replica.id, max_bytes=max_bytes, topics=[topic]
    )


# -- Kafka's answers as ours ------------------------------------------------------------------


def answer_of(ask: Request, response: Any) -> Answer:
    """What the machine takes in. An error of the whole request has no epoch."""
    if response.error_code:
        return Answer(ErrorCode.of(response.error_code), NO_LEADER, 0)
    match ask:
        case Fetch():
            return _fetch_answer(response)
        case FetchSnapshot():
            return _snapshot_answer(response)
    partition = _only(response.topics)
    if partition is None:
        return _nothing()
    error = ErrorCode.of(partition.error_code)
    if isinstance(ask, Vote):
        return VoteAnswer(
            error, partition.leader_id, partition.leader_epoch, partition.vote_granted
        )
    return Answer(error, partition.leader_id, partition.leader_epoch)


def _fetch_answer(response: fetch.FetchResponse) -> Answer:
    data = _only(response.responses)
    if data is None:
        return _nothing()
    leader = data.current_leader or fetch.LeaderIdAndEpoch()
    diverging = data.diverging_epoch
    snapshot = data.snapshot_id
    return FetchAnswer(
        ErrorCode.of(data.error_code),
        leader.leader_id,
        leader.leader_epoch,
        data.high_watermark,
        data.log_start_offset,
        diverging=(
            None
            if diverging is None or diverging.epoch < 0
            else OffsetAndEpoch(diverging.end_offset, diverging.epoch)
        ),
        snapshot=(
            None
            if snapshot is None or snapshot.epoch < 0
            else OffsetAndEpoch(snapshot.end_offset, snapshot.epoch)
        ),
        records=data.records or b"",
    )


def _snapshot_answer(response: fetch_snapshot.FetchSnapshotResponse) -> Answer:
    data = _only(response.topics)
    if data is None:
        return _nothing()
    leader = data.current_leader or fetch_snapshot.LeaderIdAndEpoch(NO_LEADER, 0)
    return SnapshotAnswer(
        ErrorCode.of(data.error_code),
        leader.leader_id,
        leader.leader_epoch,
        OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.size,
        data.position,
        data.unaligned_records,
    )


def endpoints_in(response: Any) -> dict[int, tuple[str, int]]:
    """Where the nodes named in a response are (KIP-853)."""
    return {
        node.node_id: (node.host, node.port)
        for node in getattr(response, "node_endpoints", ())
        if node.host
    }


def _only(topics: Any) -> Any:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    return topics[0].partitions[0]


def _nothing() -> Answer:
    return Answer(ErrorCode.INVALID_REQUEST, NO_LEADER, 0)


# -- Kafka's requests as ours -----------------------------------------------------------------


def _partition_of(request: Any) -> Any:
    topics = request.topics
    if len(topics) != 1:
        return None
    name = getattr(topics[0], "topic_name", None) or getattr(topics[0], "name", None)
    partition = _only(topics)
    index = getattr(partition, "partition_index", None) if partition is not None else None
    if index is None and partition is not None:
        index = partition.partition
    return partition if name == TOPIC and index == 0 else None


def vote_asked(request: vote.VoteRequest) -> Vote | None:
    """Vote (52)."""
    data = _partition_of(request)
    if data is None or data.replica_id < 0:
        return None
    voter = None
    if request.voter_id >= 0:
        voter = ReplicaKey(request.voter_id, data.voter_directory_id)
    return Vote(
        ReplicaKey(data.replica_id, data.replica_directory_id),
        data.replica_epoch,
        OffsetAndEpoch(data.last_offset, data.last_offset_epoch),
        data.pre_vote,
        voter,
    )


def begin_asked(request: begin.BeginQuorumEpochRequest) -> BeginEpoch | None:
    """BeginQuorumEpoch (53)."""
    data = _partition_of(request)
    if data is None or data.leader_id < 0:
        return None
    voter = None
    if request.voter_id >= 0:
        voter = ReplicaKey(request.voter_id, data.voter_directory_id)
    return BeginEpoch(data.leader_id, data.leader_epoch, voter)


def end_asked(request: end.EndQuorumEpochRequest) -> EndEpoch | None:
    """EndQuorumEpoch (54); version 0 names successors without directories."""
    data = _partition_of(request)
    if data is None or data.leader_id < 0:
        return None
    keys = [
        ReplicaKey(one.candidate_id, one.candidate_directory_id)
        for one in data.preferred_candidates
    ] or [ReplicaKey(one) for one in data.preferred_successors]
    return EndEpoch(data.leader_id, data.leader_epoch, tuple(keys))


def fetch_asked(request: fetch.FetchRequest) -> Fetch | None:
    """Fetch (1) of the metadata log, by a replica or (replica id -1) by a consumer."""
    topics = request.topics
    if len(topics) != 1 or (topics[0].topic_id != TOPIC_ID and topics[0].topic != TOPIC):
        return None
    data = _only(topics)
    if data is None or data.partition != 0:
        return None
    state = request.replica_state
    replica_id = request.replica_id if state is None or state.replica_id < 0 else state.replica_id
    return Fetch(
        ReplicaKey(replica_id, data.replica_directory_id or NO_DIRECTORY),
        data.current_leader_epoch,
        data.fetch_offset,
        data.last_fetched_epoch,
        request.max_wait_ms,
        data.high_watermark if data.high_watermark >= 0 else UNKNOWN_WATERMARK,
    )


def snapshot_asked(request: fetch_snapshot.FetchSnapshotRequest) -> FetchSnapshot | None:
    """FetchSnapshot (59)."""
    data = _partition_of(request)
    if data is None:
        return None
    return FetchSnapshot(
        ReplicaKey(request.replica_id, data.replica_directory_id or NO_DIRECTORY),
        data.current_leader_epoch,
        OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.position,
    )


# -- our answers as Kafka's -------------------------------------------------------------------

Nodes = tuple[tuple[int, str, int], ...]
"""(node id, host, port) of the leader, if it is known and its place too."""


def vote_response(answer: VoteAnswer, nodes: Nodes) -> vote.VoteResponse:
    """Vote (52)."""
    partition = vote.PartitionDataInResponse(
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        vote_granted=answer.granted,
    )
    return vote.VoteResponse(
        topics=[vote.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[vote.NodeEndpoint(*node) for node in nodes],
    )


def begin_response(answer: Answer, nodes: Nodes) -> begin.BeginQuorumEpochResponse:
    """BeginQuorumEpoch (53)."""
    partition = begin.PartitionDataInResponse(
        error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[begin.NodeEndpoint(*node) for node in nodes],
    )


def end_response(answer: Answer, nodes: Nodes) -> end.EndQuorumEpochResponse:
    """EndQuorumEpoch (54)."""
    partition = end.PartitionDataInResponse(
        error_code=answer.error, leader_id=answer.leader_id, leader_epoch=answer.epoch
    )
    return end.EndQuorumEpochResponse(
        topics=[end.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[end.NodeEndpoint(*node) for node in nodes],
    )


def fetch_response(answer: FetchAnswer, nodes: Nodes) -> fetch.FetchResponse:
    """Fetch (1)."""
    data = fetch.PartitionData(
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.high_watermark,
        log_start_offset=answer.log_start,
        current_leader=fetch.LeaderIdAndEpoch(answer.leader_id, answer.epoch),
        aborted_transactions=None,
        records=answer.records,
    )
    if answer.diverging is not None:
        data.diverging_epoch = fetch.EpochEndOffset(
            answer.diverging.epoch, answer.diverging.offset
        )
    if answer.snapshot is not None:
        data.snapshot_id = fetch.SnapshotId(answer.snapshot.offset, answer.snapshot.epoch)
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[data])
        ],
        node_endpoints=[fetch.NodeEndpoint(*node) for node in nodes],
    )


def snapshot_response(
    answer: SnapshotAnswer, nodes: Nodes
) -> fetch_snapshot.FetchSnapshotResponse:
    """FetchSnapshot (59)."""
    data = fetch_snapshot.PartitionSnapshotInResponse(
        error_code=answer.error,
        snapshot_id=fetch_snapshot.SnapshotIdInResponse(
            answer.snapshot.offset, answer.snapshot.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(answer.leader_id, answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.data,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.TopicSnapshotInResponse(name=TOPIC, partitions=[data])],
        node_endpoints=[fetch_snapshot.NodeEndpoint(*node) for node in nodes],
    )
