"""Produce (0).

Behaviour: appends each partition's batch as it is, without unpacking it. acks=0 is never answered,
and its connection is closed if anything failed, so that the client looks for the leader anew.
acks=1 is answered after the append, acks=-1 when every in-sync replica has the batch or the
request's time is over. Clients may not write internal topics.

Versions: 3-13, advertised from 0 (KAFKA-18659). 7 allows zstd, 8 has record errors, 10 names the
new leader, 13 has topic ids instead of names.
"""

from __future__ import annotations

from broker.handlers.context import CloseClient, RequestContext
from broker.handlers.topics import is_internal
from broker.log.errors import LogError
from broker.replica.partition import Partition
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS_NONE, ACKS_ALL = 0, -1
FIRST_ZSTD_VERSION = 7
FIRST_ID_VERSION = 13
ZSTD = 4
ATTRIBUTES_LOW_BYTE = 22

Waiting = list[tuple[Partition, int, PartitionProduceResponse]]


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append, then answer as `acks` says."""
    waiting: Waiting = []
    responses = []
    failed = False
    for topic in request.topic_data:
        name, refusal = _topic_name(topic.name, topic.topic_id, context)
        results = []
        for data in topic.partition_data:
            if refusal:
                result = _failure(data.index, refusal)
            else:
                result = _append(name, data, request, context, waiting)
            failed = failed or result.error_code != 0
            results.append(result)
        responses.append(
            TopicProduceResponse(
                name=name, topic_id=topic.topic_id, partition_responses=results
            )
        )
    if request.acks == ACKS_NONE:
        _without_answer(failed, context)
        return None
    response = ProduceResponse(responses=responses)
    if not waiting:
        return response
    _wait(waiting, response, request.timeout_ms, context)
    return None


def _topic_name(name: str, topic_id: bytes, context: RequestContext) -> tuple[str, ErrorCode]:
    if context.api_version >= FIRST_ID_VERSION:
        topic = context.services.image.topic_by_id(topic_id)
        if topic is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    if not context.may(Operation.WRITE, Resource.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if is_internal(name):
        return name, ErrorCode.INVALID_TOPIC_EXCEPTION
    return name, ErrorCode.NONE


def _append(
    name: str,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: RequestContext,
    waiting: Waiting,
) -> PartitionProduceResponse:
    """Append one partition's batch; what must wait for replicas goes into `waiting`."""
    if request.acks not in (ACKS_NONE, 1, ACKS_ALL):
        return _failure(data.index, ErrorCode.INVALID_REQUIRED_ACKS)
    records = data.records
    if not records:
        return _failure(data.index, ErrorCode.INVALID_RECORD)
    if context.api_version < FIRST_ZSTD_VERSION and _is_zstd(records):
        return _failure(data.index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    services = context.services
    try:
        partition = services.replicas.get(name, data.index)
        info = partition.append_as_leader(
            records, required_acks=request.acks, now_ms=services.clock.now_ms()
        )
    except LogError as error:
        return _log_failure(data.index, error)
    services.replicas.count_produced(info)
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if request.acks == ACKS_ALL:
        end_offset = info.last_offset + 1
        error_code = partition.is_acknowledged(end_offset)
        if error_code is None:
            waiting.append((partition, end_offset, response))
        else:
            response.error_code = error_code
    return response


def _is_zstd(records: bytes | bytearray | memoryview) -> bool:
    return len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & 7 == ZSTD


def _failure(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1)


def _log_failure(index: int, error: LogError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        error_message=error.detail or None,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=text)
            for position, text in error.record_errors
        ],
    )


def _without_answer(failed: bool, context: RequestContext) -> None:
    if failed:
        raise CloseClient(f"a produce of {context.client_id} with acks=0 failed")
    context.no_reply()


def _wait(
    waiting: Waiting, response: ProduceResponse, timeout_ms: int, context: RequestContext
) -> None:
    """Answer when all partitions are acknowledged, or say which were not in time."""

    def try_complete() -> bool:
        for held in list(waiting):
            partition, end_offset, result = held
            error = partition.is_acknowledged(end_offset)
            if error is not None:
                result.error_code = error
                waiting.remove(held)
        if waiting:
            return False
        context.reply(response)
        return True

    def on_expire() -> None:
        for _, _, result in waiting:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        context.reply(response)

    context.services.replicas.produce_purgatory.watch(
        [partition.key for partition, _, _ in waiting],
        max(timeout_ms, 0),
        try_complete,
        on_expire,
    )
