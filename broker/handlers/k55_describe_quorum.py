"""DescribeQuorum (55).

Behaviour: the quorum of `__cluster_metadata-0` as its leader sees it; here its one voter, which
has always caught up.

Versions: 0-2. 1 has times, 2 directory ids, messages and the voters' endpoints.
"""

from __future__ import annotations

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
    if not context.may(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeQuorumResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    voter = context.services.controller.voter
    return DescribeQuorumResponse(
        error_message="",
        topics=[_topic(topic, context) for topic in request.topics],
        nodes=[
            Node(
                node_id=voter.node_id,
                listeners=[Listener(name="CONTROLLER", host=voter.host, port=voter.port)],
            )
        ],
    )


def _topic(topic: TopicDataInRequest, context: RequestContext) -> TopicDataInResponse:
    return TopicDataInResponse(
        topic_name=topic.topic_name,
        partitions=[
            _partition(topic.topic_name, ask.partition_index, context)
            for ask in topic.partitions
        ],
    )


def _partition(name: str, index: int, context: RequestContext) -> PartitionDataInResponse:
    if name != METADATA_TOPIC or index != 0:
        return PartitionDataInResponse(
            partition_index=index,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text,
        )
    controller = context.services.controller
    now_ms = context.services.clock.now_ms()
    return PartitionDataInResponse(
        partition_index=index,
        error_message="",
        leader_id=controller.voter.node_id,
        leader_epoch=controller.epoch,
        high_watermark=controller.end_offset,
        current_voters=[
            ReplicaState(
                replica_id=controller.voter.node_id,
                replica_directory_id=controller.voter.directory_id,
                log_end_offset=controller.end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
    )
