"""AlterPartitionReassignments (45).

Behaviour: starts to move replicas, changes their targets, or cancels (no replicas named); each
partition succeeds or fails for itself. Answered when that is committed, not when the moves are
complete: ListPartitionReassignments shows that.

Versions: 0-1. 1 may forbid a change of the replication factor.
"""

from __future__ import annotations

from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.controller.decisions.reassignment import (
    Reassignment,
    ReassignmentResult,
    alter_reassignments,
)
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        context.reply_error(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, refused)
        return None
    moves = [
        Reassignment(
            topic.name,
            partition.partition_index,
            None if partition.replicas is None else tuple(partition.replicas),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    rules = PartitionPolicy.of(context.services.metadata.config)
    may_change = request.allow_replication_factor_change
    context.services.control_plane.controller.write(
        lambda image: alter_reassignments(image, rules, moves, may_change),
        lambda results: context.reply(_response(request, results)),
        lambda error: context.reply_error(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, error),
    )
    return None


def _response(
    request: AlterPartitionReassignmentsRequest, results: tuple[ReassignmentResult, ...]
) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, list[ReassignablePartitionResponse]] = {
        topic.name: [] for topic in request.topics
    }
    for result in results:
        topics[result.topic].append(
            ReassignablePartitionResponse(
                partition_index=result.index,
                error_code=result.error,
                error_message=result.message,
            )
        )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
        responses=[
            ReassignableTopicResponse(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
    )
