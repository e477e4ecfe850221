"""ListPartitionReassignments (46).

Behaviour: partitions whose replicas are being moved, from the image. `kafka-topics --describe`
uses it.

Versions: 0.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.metadata.image import TopicImage
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    """List the moving partitions."""
    if not context.is_authorized(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return ListPartitionReassignmentsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
        )
    topics = context.services.metadata.image.topics
    wanted: dict[str, set[int] | None] = dict.fromkeys(topics)
    if request.topics is not None:
        wanted = {topic.name: set(topic.partition_indexes) for topic in request.topics}
    found = [_moving(topics[name], only) for name, only in wanted.items() if name in topics]
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[topic for topic in found if topic.partitions]
    )


def _moving(topic: TopicImage, only: set[int] | None) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=partition.index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
            for partition in topic.partitions
            if (partition.adding_replicas or partition.removing_replicas)
            and (only is None or partition.index in only)
        ],
    )
