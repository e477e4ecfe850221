"""DescribeQuorum (55).

Behaviour: the quorum of `__cluster_metadata-0` as its leader sees it: how far each voter and
observer has fetched, when it last fetched and when it was last caught up. Other nodes respond with
NOT_LEADER_OR_FOLLOWER, a broker forwards the request to the leader. In ZooKeeper mode there is no
quorum and Kafka 3.9's brokers do not know the API.

Versions: 0-2. 1 has times, 2 directory ids, messages and the voters' endpoints.
"""

from __future__ import annotations

from broker.controller.kraft.describe import QuorumInfo, QuorumReplicaInfo, describe
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataInResponse,
    ReplicaState,
    TopicDataInRequest,
    TopicDataInResponse,
)

METADATA_TOPIC = "__cluster_metadata"


def handle(request: DescribeQuorumRequest, context: RequestContext) -> DescribeQuorumResponse:
    """Describe the quorum."""
    if not context.is_authorized(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    found = describe(context.services.control_plane.quorum)
    topics = [_topic(topic, found) for topic in request.topics]
    described = any(not one.error_code for topic in topics for one in topic.partitions)
    return DescribeQuorumResponse(
        error_message="", topics=topics, nodes=_nodes(found) if described else []
    )


def _nodes(found: QuorumInfo) -> list[Node]:
    """The endpoints of the voters; a voter alone in its process has no listener for controllers,
    and a port of 0 is not an address."""
    return [
        Node(
            node_id=voter.key.id,
            listeners=[
                Listener(name=end.listener, host=end.host, port=end.port)
                for end in voter.endpoints
                if end.port > 0
            ],
        )
        for voter in found.voter_set.voters
    ]


def _topic(topic: TopicDataInRequest, found: QuorumInfo) -> TopicDataInResponse:
    return TopicDataInResponse(
        topic_name=topic.topic_name,
        partitions=[
            _partition(topic.topic_name, ask.partition_index, found) for ask in topic.partitions
        ],
    )


def _partition(name: str, index: int, found: QuorumInfo) -> PartitionDataInResponse:
    error = ErrorCode.NONE
    if name != METADATA_TOPIC or index != 0:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif not found.is_leader:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error:
        return PartitionDataInResponse(
            partition_index=index, error_code=error, error_message=error.text
        )
    return PartitionDataInResponse(
        partition_index=index,
        error_message="",
        leader_id=found.leader_id,
        leader_epoch=found.epoch,
        high_watermark=found.high_watermark,
        current_voters=[_state(one) for one in found.voters],
        observers=[_state(one) for one in found.observers],
    )


def _state(replica: QuorumReplicaInfo) -> ReplicaState:
    return ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=replica.fetched_ms,
        last_caught_up_timestamp=replica.caught_up_ms,
    )
