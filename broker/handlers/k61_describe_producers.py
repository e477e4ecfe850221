"""DescribeProducers (61).

Behaviour: the producers in a partition's state, with their last sequence.

Versions: 0.
"""

from __future__ import annotations

from broker.controller.decisions.topic_names import name_fault
from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    """Describe each partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    _describe(topic.name, index, context) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(name: str, index: int, context: RequestContext) -> PartitionResponse:
    if not context.is_authorized(Operation.READ, Resource.TOPIC, name):
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return PartitionResponse(partition_index=index, error_code=error)
    misnamed = name_fault(name)
    if misnamed is not None:
        return PartitionResponse(
            partition_index=index,
            error_code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            error_message=misnamed,
        )
    try:
        partition = context.services.data_plane.replicas.get(name, index)
        partition.check_leader()
    except LogError as failure:
        # Kafka explains only what its metadata does not know, not what is not led here.
        known = name in context.services.metadata.image.topics
        message = None if known else failure.code.text
        return PartitionResponse(
            partition_index=index, error_code=failure.code, error_message=message
        )
    return PartitionResponse(
        partition_index=index,
        error_message=None,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in partition.log.producers.active()
        ],
    )
