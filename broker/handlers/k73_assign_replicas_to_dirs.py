"""AssignReplicasToDirs (73).

Behaviour: a broker with several log directories reports the directory of each replica, so that the
controller knows which replicas a failed directory held (KIP-858).

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.directories import Assigned, assign_directories
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.handlers.context import RequestContext
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataInResponse,
    PartitionDataInResponse,
    TopicDataInResponse,
)


def handle(
    request: AssignReplicasToDirsRequest, context: RequestContext
) -> AssignReplicasToDirsResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return AssignReplicasToDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assigned = [
        (directory.id, (topic.topic_id, partition.partition_index))
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    rules = PartitionPolicy.of(context.services.metadata.config)
    context.services.control_plane.controller.write(
        lambda image: assign_directories(
            image, rules, request.broker_id, request.broker_epoch, assigned
        ),
        lambda reply: context.reply(_response(*reply)),
        lambda error: context.reply_error(ApiKey.ASSIGN_REPLICAS_TO_DIRS, request, error),
    )
    return None


def _response(error: ErrorCode, results: Assigned) -> AssignReplicasToDirsResponse:
    found: dict[bytes, dict[bytes, list[PartitionDataInResponse]]] = {}
    for (directory, (topic_id, index)), code in results.items():
        found.setdefault(directory, {}).setdefault(topic_id, []).append(
            PartitionDataInResponse(partition_index=index, error_code=code)
        )
    return AssignReplicasToDirsResponse(
        error_code=error,
        directories=[
            DirectoryDataInResponse(
                id=directory,
                topics=[
                    TopicDataInResponse(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in topics.items()
                ],
            )
            for directory, topics in found.items()
        ],
    )
