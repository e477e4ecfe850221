"""AlterPartition (56).

Behaviour: a leader changes the in-sync set of its partitions. Answered when that is committed,
with the state at that time; the leader checks epochs again, because more may have changed since.

Versions: 2-3. 3 has the brokers' epochs of the new set (KIP-903).
"""

from __future__ import annotations

from broker.controller.decisions.alter_partition import (
    ANY_EPOCH,
    IsrChange,
    IsrResult,
    Reply,
    alter_partitions,
)
from broker.controller.decisions.partition_policy import PartitionPolicy
from broker.handlers.context import RequestContext
from broker.metadata.image import LeaderRecoveryState
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionDataInRequest,
    PartitionDataInResponse,
    TopicDataInResponse,
)


def handle(
    request: AlterPartitionRequest, context: RequestContext
) -> AlterPartitionResponse | None:
    """Ask the controller."""
    if not context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    changes = [
        _change(topic.topic_id, partition)
        for topic in request.topics
        for partition in topic.partitions
    ]
    rules = PartitionPolicy.of(context.services.metadata.config)
    context.services.control_plane.controller.write(
        lambda image: alter_partitions(
            image, rules, request.broker_id, request.broker_epoch, changes
        ),
        lambda reply: context.reply(_response(reply)),
        lambda error: context.reply_error(ApiKey.ALTER_PARTITION, request, error),
    )
    return None


def _change(topic_id: bytes, asked: PartitionDataInRequest) -> IsrChange:
    isr = {one.broker_id: one.broker_epoch for one in asked.new_isr_with_epochs}
    return IsrChange(
        topic_id,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        isr or dict.fromkeys(asked.new_isr, ANY_EPOCH),
        LeaderRecoveryState.RECOVERING
        if asked.leader_recovery_state
        else LeaderRecoveryState.RECOVERED,
    )


def _response(reply: Reply) -> AlterPartitionResponse:
    error, results = reply
    topics: dict[bytes, list[PartitionDataInResponse]] = {}
    for result in results:
        topics.setdefault(result.topic_id, []).append(_partition(result))
    return AlterPartitionResponse(
        error_code=error,
        topics=[
            TopicDataInResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
    )


def _partition(result: IsrResult) -> PartitionDataInResponse:
    now = result.partition
    if result.error or now is None:
        return PartitionDataInResponse(partition_index=result.index, error_code=result.error)
    return PartitionDataInResponse(
        partition_index=result.index,
        leader_id=now.leader,
        leader_epoch=now.leader_epoch,
        isr=list(now.isr),
        leader_recovery_state=int(now.recovery),
        partition_epoch=now.partition_epoch,
    )
