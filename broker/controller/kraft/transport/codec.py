"""Converts the Raft core's messages to Kafka's and back.

Pure. A request that does not name `__cluster_metadata` partition 0 decodes to None.
"""

from __future__ import annotations

from typing import Any

from broker.controller.kraft.raft.messages import (
    NO_LEADER,
    UNKNOWN_HIGH_WATERMARK,
    BeginEpoch,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    OffsetAndEpoch,
    QuorumResponse,
    RaftRequest,
    Vote,
    VoteResponse,
)
from broker.controller.kraft.raft.voters import NO_DIRECTORY, ReplicaKey, VoterEndpoint
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated import begin_quorum_epoch as begin
from bus.protocol.generated import end_quorum_epoch as end
from bus.protocol.generated import fetch, fetch_snapshot, vote

TOPIC = "__cluster_metadata"
TOPIC_ID = bytes(15) + b"\x01"
"""Kafka's fixed id of the metadata topic."""


# -- own requests -----------------------------------------------------------------------------


def encode_request(
    request: RaftRequest, cluster_id: str, max_bytes: int, endpoints: tuple[VoterEndpoint, ...]
) -> tuple[int, Any]:
    """(API key, message). `endpoints` are this node's, for receivers that learn of a new leader."""
    match request:
        case Vote():
            return ApiKey.VOTE, _vote_request(request, cluster_id)
        case BeginEpoch():
            return ApiKey.BEGIN_QUORUM_EPOCH, _begin_request(request, cluster_id, endpoints)
        case EndEpoch():
            return ApiKey.END_QUORUM_EPOCH, _end_request(request, cluster_id, endpoints)
        case Fetch():
            return ApiKey.FETCH, _fetch_request(request, cluster_id, max_bytes)
        case FetchSnapshot():
            return ApiKey.FETCH_SNAPSHOT, _snapshot_request(request, cluster_id, max_bytes)


def _vote_request(request: Vote, cluster_id: str) -> vote.VoteRequest:
    voter = request.voter or ReplicaKey(-1)
    partition = vote.PartitionDataInRequest(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.end.epoch,
        last_offset=request.end.offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.TopicDataInRequest(topic_name=TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def _begin_request(
    request: BeginEpoch, cluster_id: str, endpoints: tuple[VoterEndpoint, ...]
) -> begin.BeginQuorumEpochRequest:
    voter = request.voter or ReplicaKey(-1)
    partition = begin.PartitionDataInRequest(
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
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
    request: EndEpoch, cluster_id: str, endpoints: tuple[VoterEndpoint, ...]
) -> end.EndQuorumEpochRequest:
    partition = end.PartitionDataInRequest(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[one.id for one in request.successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=one.id, candidate_directory_id=one.directory_id)
            for one in request.successors
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


def _fetch_request(request: Fetch, cluster_id: str, max_bytes: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        replica_state=fetch.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=TOPIC, topic_id=TOPIC_ID, partitions=[partition])],
    )


def _snapshot_request(
    request: FetchSnapshot, cluster_id: str, max_bytes: int
) -> fetch_snapshot.FetchSnapshotRequest:
    partition = fetch_snapshot.PartitionSnapshotInRequest(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=fetch_snapshot.SnapshotIdInRequest(
            request.snapshot.offset, request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topic = fetch_snapshot.TopicSnapshotInRequest(name=TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=request.replica.id, max_bytes=max_bytes, topics=[topic]
    )


# -- responses to own requests ----------------------------------------------------------------


def decode_response(request: RaftRequest, response: Any) -> QuorumResponse:
    """The response for the Raft core. An error of the whole request has no epoch."""
    if response.error_code:
        return QuorumResponse(ErrorCode.of(response.error_code), NO_LEADER, 0)
    match request:
        case Fetch():
            return _decode_fetch_response(response)
        case FetchSnapshot():
            return _decode_fetch_snapshot_response(response)
    partition = _only_partition(response.topics)
    if partition is None:
        return _invalid_request()
    error = ErrorCode.of(partition.error_code)
    if isinstance(request, Vote):
        return VoteResponse(
            error, partition.leader_id, partition.leader_epoch, partition.vote_granted
        )
    return QuorumResponse(error, partition.leader_id, partition.leader_epoch)


def _decode_fetch_response(response: fetch.FetchResponse) -> QuorumResponse:
    data = _only_partition(response.responses)
    if data is None:
        return _invalid_request()
    leader = data.current_leader or fetch.LeaderIdAndEpoch()
    diverging = data.diverging_epoch
    snapshot = data.snapshot_id
    return FetchResponse(
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


def _decode_fetch_snapshot_response(
    response: fetch_snapshot.FetchSnapshotResponse,
) -> QuorumResponse:
    data = _only_partition(response.topics)
    if data is None:
        return _invalid_request()
    leader = data.current_leader or fetch_snapshot.LeaderIdAndEpoch(NO_LEADER, 0)
    return FetchSnapshotResponse(
        ErrorCode.of(data.error_code),
        leader.leader_id,
        leader.leader_epoch,
        OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.size,
        data.position,
        data.unaligned_records,
    )


def node_endpoints(response: object) -> dict[int, tuple[str, int]]:
    """The addresses of the nodes named in a response (KIP-853)."""
    return {
        node.node_id: (node.host, node.port)
        for node in getattr(response, "node_endpoints", ())
        if node.host
    }


def _only_partition(topics: Any) -> Any:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    return topics[0].partitions[0]


def _invalid_request() -> QuorumResponse:
    return QuorumResponse(ErrorCode.INVALID_REQUEST, NO_LEADER, 0)


# -- requests of other nodes ------------------------------------------------------------------


def _metadata_partition(request: Any) -> Any:
    topics = request.topics
    if len(topics) != 1:
        return None
    name = getattr(topics[0], "topic_name", None) or getattr(topics[0], "name", None)
    partition = _only_partition(topics)
    index = getattr(partition, "partition_index", None) if partition is not None else None
    if index is None and partition is not None:
        index = partition.partition
    return partition if name == TOPIC and index == 0 else None


def decode_vote_request(request: vote.VoteRequest) -> Vote | None:
    """Vote (52)."""
    data = _metadata_partition(request)
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


def decode_begin_epoch_request(request: begin.BeginQuorumEpochRequest) -> BeginEpoch | None:
    """BeginQuorumEpoch (53)."""
    data = _metadata_partition(request)
    if data is None or data.leader_id < 0:
        return None
    voter = None
    if request.voter_id >= 0:
        voter = ReplicaKey(request.voter_id, data.voter_directory_id)
    return BeginEpoch(data.leader_id, data.leader_epoch, voter)


def decode_end_epoch_request(request: end.EndQuorumEpochRequest) -> EndEpoch | None:
    """EndQuorumEpoch (54); version 0 names successors without directories."""
    data = _metadata_partition(request)
    if data is None or data.leader_id < 0:
        return None
    keys = [
        ReplicaKey(one.candidate_id, one.candidate_directory_id)
        for one in data.preferred_candidates
    ] or [ReplicaKey(one) for one in data.preferred_successors]
    return EndEpoch(data.leader_id, data.leader_epoch, tuple(keys))


def decode_fetch_request(request: fetch.FetchRequest) -> Fetch | None:
    """Fetch (1) of the metadata log, by a replica or (replica id -1) by a consumer."""
    topics = request.topics
    if len(topics) != 1 or (topics[0].topic_id != TOPIC_ID and topics[0].topic != TOPIC):
        return None
    data = _only_partition(topics)
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
        data.high_watermark if data.high_watermark >= 0 else UNKNOWN_HIGH_WATERMARK,
    )


def decode_fetch_snapshot_request(
    request: fetch_snapshot.FetchSnapshotRequest,
) -> FetchSnapshot | None:
    """FetchSnapshot (59)."""
    data = _metadata_partition(request)
    if data is None:
        return None
    return FetchSnapshot(
        ReplicaKey(request.replica_id, data.replica_directory_id or NO_DIRECTORY),
        data.current_leader_epoch,
        OffsetAndEpoch(data.snapshot_id.end_offset, data.snapshot_id.epoch),
        data.position,
    )


# -- responses to other nodes -----------------------------------------------------------------

NodeEndpoints = tuple[tuple[int, str, int], ...]
"""(node id, host, port) of the leader, if it and its address are known."""


def encode_vote_response(response: VoteResponse, nodes: NodeEndpoints) -> vote.VoteResponse:
    """Vote (52)."""
    partition = vote.PartitionDataInResponse(
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.granted,
    )
    return vote.VoteResponse(
        topics=[vote.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[vote.NodeEndpoint(*node) for node in nodes],
    )


def encode_begin_epoch_response(
    response: QuorumResponse, nodes: NodeEndpoints
) -> begin.BeginQuorumEpochResponse:
    """BeginQuorumEpoch (53)."""
    partition = begin.PartitionDataInResponse(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[begin.NodeEndpoint(*node) for node in nodes],
    )


def encode_end_epoch_response(
    response: QuorumResponse, nodes: NodeEndpoints
) -> end.EndQuorumEpochResponse:
    """EndQuorumEpoch (54)."""
    partition = end.PartitionDataInResponse(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    return end.EndQuorumEpochResponse(
        topics=[end.TopicDataInResponse(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[end.NodeEndpoint(*node) for node in nodes],
    )


def encode_fetch_response(response: FetchResponse, nodes: NodeEndpoints) -> fetch.FetchResponse:
    """Fetch (1)."""
    data = fetch.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        log_start_offset=response.log_start,
        current_leader=fetch.LeaderIdAndEpoch(response.leader_id, response.epoch),
        aborted_transactions=None,
        records=response.records,
    )
    if response.diverging is not None:
        data.diverging_epoch = fetch.EpochEndOffset(
            response.diverging.epoch, response.diverging.offset
        )
    if response.snapshot is not None:
        data.snapshot_id = fetch.SnapshotId(response.snapshot.offset, response.snapshot.epoch)
    return fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(topic=TOPIC, topic_id=TOPIC_ID, partitions=[data])
        ],
        node_endpoints=[fetch.NodeEndpoint(*node) for node in nodes],
    )


def encode_fetch_snapshot_response(
    response: FetchSnapshotResponse, nodes: NodeEndpoints
) -> fetch_snapshot.FetchSnapshotResponse:
    """FetchSnapshot (59)."""
    data = fetch_snapshot.PartitionSnapshotInResponse(
        error_code=response.error,
        snapshot_id=fetch_snapshot.SnapshotIdInResponse(
            response.snapshot.offset, response.snapshot.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(response.leader_id, response.epoch),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    return fetch_snapshot.FetchSnapshotResponse(
        topics=[fetch_snapshot.TopicSnapshotInResponse(name=TOPIC, partitions=[data])],
        node_endpoints=[fetch_snapshot.NodeEndpoint(*node) for node in nodes],
    )
