"""AlterReplicaLogDirs (34).

Behaviour: moves replicas of this broker to the named directories. The response is immediate, the
copying continues in the background (DescribeLogDirs shows it). A replica that is there already
stops moving elsewhere. One that is not on this broker yet gets REPLICA_NOT_AVAILABLE and is created
in that directory if it arrives; an unknown partition gets UNKNOWN_TOPIC_OR_PARTITION. Other errors:
LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR (a failed directory), INVALID_REPLICA_ASSIGNMENT (a cordoned
one), INVALID_TOPIC_EXCEPTION (the name is too long for a second directory).

Versions: 1-2.
"""

from __future__ import annotations

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(
    request: AlterReplicaLogDirsRequest, context: RequestContext
) -> AlterReplicaLogDirsResponse:
    """Start the moves; one result per partition."""
    wanted = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    allowed = context.is_authorized(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if allowed:
            code = _alter(name, index, path, context)
        if name not in results:
            results[name] = AlterReplicaLogDirTopicResult(topic_name=name, partitions=[])
        results[name].partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _alter(name: str, index: int, path: str, context: RequestContext) -> ErrorCode:
    services = context.services
    try:
        services.data_plane.replicas.log_dir_mover.alter(name, index, path)
    except LogError as error:
        topic = services.metadata.image.topics.get(name)
        is_known = topic is not None and 0 <= index < len(topic.partitions)
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_known:
            return ErrorCode.REPLICA_NOT_AVAILABLE
        return error.code
    return ErrorCode.NONE
