"""DescribeLogDirs (35).

Behaviour: each log directory with the size of its partitions, how far they are behind the high
watermark, and the size of its volume. A replica that moves to a directory is listed there as a
future replica, with the bytes not copied yet as its lag. A directory whose disk failed has
KAFKA_STORAGE_ERROR.

Versions: 1-5. 3 has an error for the whole response, 4 the volume's sizes, 5 cordoned directories.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.handlers.context import RequestContext
from broker.log.log import Log
from broker.log.manager import LogManager
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    """Describe each directory."""
    if not context.is_authorized(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    logs = context.services.data_plane.logs
    by_root: dict[str, list[Log]] = {root: [] for root in logs.directory_ids}
    for log in _asked(request, [*logs.logs(), *logs.future_logs.logs()]):
        by_root[log.directory.rpartition("/")[0]].append(log)
    return DescribeLogDirsResponse(
        results=[_directory(root, held, context) for root, held in by_root.items()]
    )


def _asked(request: DescribeLogDirsRequest, logs: Iterable[Log]) -> Iterable[Log]:
    if request.topics is None:
        return logs
    wanted = {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return [log for log in logs if (log.topic, log.index) in wanted]


def _directory(root: str, logs: list[Log], context: RequestContext) -> DescribeLogDirsResult:
    services = context.services
    if services.data_plane.logs.directory_ids[root] in services.data_plane.replicas.offline_dirs:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=root)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for log in logs:
        topics.setdefault(log.topic, []).append(_replica(log, services.data_plane.logs))
    total_bytes, usable_bytes = services.data_plane.volume_bytes(root)
    return DescribeLogDirsResult(
        log_dir=root,
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
        is_cordoned=root in services.data_plane.logs.config.cordoned_log_dirs,
    )


def _replica(log: Log, logs: LogManager) -> DescribeLogDirsPartition:
    is_future = logs.future_logs.get((log.topic, log.index)) is log
    current = logs.get(log.topic, log.index)
    goal = current.end_offset if is_future and current is not None else log.high_watermark
    return DescribeLogDirsPartition(
        partition_index=log.index,
        partition_size=log.size_bytes,
        offset_lag=max(0, goal - log.end_offset),
        is_future_key=is_future,
    )
