"""Produce (0).

Behaviour: appends each partition's batch as it is, without unpacking it. acks=0 gets no response,
and its connection is closed if anything failed, so that the client looks up the leader again.
acks=1 is answered after the append, acks=-1 when every in-sync replica has the batch or the
request times out. Clients may not write internal topics, nor inside transactions, which are not
served yet. Where this broker is no longer the leader, the response names the new one (KIP-951). A
sequence gap is an error only once the followers have confirmed this leader: a leader that was
deposed without knowing it lacks what the new one has appended.

Versions: 3-13, advertised from 0 (KAFKA-18659). 7 allows zstd, 8 has record errors, 10 names the
new leader, 13 has topic ids instead of names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.handlers.services import Services
from broker.handlers.topics import METADATA_TOPIC, is_internal, leader_of, node_endpoints
from broker.log.errors import LogError, NotOneBatch
from broker.replica.partition import Partition
from broker.security.authorizer import Operation, Resource
from bus.errors import CloseConnection, ErrorCode
from bus.protocol.generated.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from bus.records.batch import TRANSACTIONAL

ACKS_NONE, ACKS_ALL = 0, -1
FIRST_ZSTD_VERSION = 7
FIRST_ID_VERSION = 13
ZSTD = 4
ATTRIBUTES_LOW_BYTE = 22

FIRST_LEADER_VERSION = 10
MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Errors whose response has no log start offset, as in Kafka; the others have it."""

CONFIRMATION_TIMEOUT_MS = 1000
"""How long an error waits for the followers' confirmation; they fetch again within milliseconds."""


@dataclass(slots=True)
class DelayedProduce:
    """One partition's response that has to wait; `outcome` returns it, None: not yet."""

    key: tuple[str, int]
    outcome: Callable[[], ErrorCode | None]
    response: PartitionProduceResponse
    timeout_error: ErrorCode = ErrorCode.REQUEST_TIMED_OUT


Waiting = list[DelayedProduce]


def handle(request: ProduceRequest, context: RequestContext) -> ProduceResponse | None:
    """Append, then respond according to `acks`."""
    waiting: Waiting = []
    responses = []
    failed = False
    transactional = _is_transactional(request)
    for topic in request.topic_data:
        name, refusal = _topic_name(topic.name, topic.topic_id, context)
        if transactional:
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        results = []
        for data in topic.partition_data:
            if refusal:
                result = _failure(data.index, refusal)
            else:
                result = _append(name, data, request, context, waiting)
            failed = failed or result.error_code != 0
            results.append(result)
        responses.append(
            TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=results)
        )
    if request.acks == ACKS_NONE:
        _no_response(failed, context)
        return None
    response = ProduceResponse(responses=responses)
    if not waiting:
        if failed:
            _name_leaders(response, context)
        return response
    _wait(waiting, response, request.timeout_ms, context)
    return None


def _topic_name(name: str, topic_id: bytes, context: RequestContext) -> tuple[str, ErrorCode]:
    if context.api_version >= FIRST_ID_VERSION:
        topic = context.services.metadata.image.topic_by_id(topic_id)
        if topic is None:
            return "", ErrorCode.UNKNOWN_TOPIC_ID
        name = topic.name
    if not context.is_authorized(Operation.WRITE, Resource.TOPIC, name):
        return name, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if name == METADATA_TOPIC:  # to clients there is no such topic
        return name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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
    partition = None
    try:
        # Ends in the page cache, so nothing is awaited: batches of one connection are appended in
        # the order in which they came, which is what a producer's sequence numbers ask for.
        partition = services.data_plane.replicas.get(name, data.index)
        info = partition.append_as_leader(
            records, required_acks=request.acks, now_ms=services.clock.now_ms()
        )
    except LogError as error:
        failure = _log_failure(data.index, error, partition)
        out_of_order = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if out_of_order and partition is not None and len(partition.replicas) > 1:
            waiting.append(_await_leader_confirmation(partition, failure, services))
        return failure
    response = PartitionProduceResponse(
        index=data.index,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if request.acks == ACKS_ALL:
        # A leader alone in sync has it acknowledged by now; else the followers' next fetches do.
        end_offset, epoch = info.last_offset + 1, partition.leader_epoch
        error_code = partition.is_acknowledged(end_offset)
        if error_code is None:
            waiting.append(
                DelayedProduce(
                    partition.key, lambda: partition.is_acknowledged(end_offset, epoch), response
                )
            )
        else:
            response.error_code = error_code
    elif request.acks and partition.log.needs_flush:
        _wait_for_flush(partition, info.last_offset + 1, response, waiting)
    return response


def _wait_for_flush(
    partition: Partition, end_offset: int, response: PartitionProduceResponse, waiting: Waiting
) -> None:
    """acks=1 under flush.messages: respond once the device has the batch."""
    epoch = partition.leader_epoch
    waiting.append(
        DelayedProduce(partition.key, lambda: partition.is_stored(end_offset, epoch), response)
    )


def _await_leader_confirmation(
    partition: Partition, verdict: PartitionProduceResponse, services: Services
) -> DelayedProduce:
    """An error that is final once no other leader can have appended batches meanwhile."""
    proofs = services.data_plane.replicas.leader_confirmation
    since, epoch = proofs.request(partition), partition.leader_epoch

    def outcome() -> ErrorCode | None:
        if not partition.is_leader or partition.leader_epoch != epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if proofs.is_confirmed(partition, since):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return None

    return DelayedProduce(
        partition.key, outcome, verdict, timeout_error=ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def _is_transactional(request: ProduceRequest) -> bool:
    """Whether any batch belongs to a transaction. Kafka refuses the whole request unless it names a
    transactional id that may write; without transactions here, none may. Such a batch would hold
    back every read_committed consumer for ever, because no marker ends its transaction."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if not records or len(records) <= ATTRIBUTES_LOW_BYTE:
                continue
            if records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
                return True
    return False


def _is_zstd(records: bytes | bytearray | memoryview) -> bool:
    return len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & 7 == ZSTD


def _failure(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=error, base_offset=-1)


def _log_failure(
    index: int, error: LogError, partition: Partition | None
) -> PartitionProduceResponse:
    log_start_offset = -1
    says_none = error.code in _WITHOUT_LOG_START or isinstance(error, NotOneBatch)
    if partition is not None and not says_none:
        log_start_offset = partition.log.log_start_offset
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=error.answer,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=position, batch_index_error_message=text)
            for position, text in error.record_errors
        ],
    )


def _no_response(failed: bool, context: RequestContext) -> None:
    if failed:
        raise CloseConnection(f"a produce of {context.client_id} with acks=0 failed")
    context.no_reply()


def _wait(
    waiting: Waiting, response: ProduceResponse, timeout_ms: int, context: RequestContext
) -> None:
    """Respond when all partitions are acknowledged, or with an error for those that were not in
    time."""
    if any(held.timeout_error is not ErrorCode.REQUEST_TIMED_OUT for held in waiting):
        timeout_ms = min(timeout_ms, CONFIRMATION_TIMEOUT_MS)

    def answer() -> None:
        _name_leaders(response, context)
        context.reply(response)

    def try_complete() -> bool:
        left = []
        for held in waiting:
            error = held.outcome()
            if error is None:
                left.append(held)
            else:
                held.response.error_code = error
        waiting[:] = left
        if left:
            return False
        answer()
        return True

    def on_expire() -> None:
        for held in waiting:
            held.response.error_code = held.timeout_error
        answer()

    context.services.data_plane.replicas.produce_purgatory.watch(
        [held.key for held in waiting], max(timeout_ms, 0), try_complete, on_expire
    )


def _name_leaders(response: ProduceResponse, context: RequestContext) -> None:
    """KIP-951: a client that asked the wrong broker gets the right one."""
    if context.api_version < FIRST_LEADER_VERSION:
        return
    nodes = []
    for topic in response.responses:
        for data in topic.partition_responses:
            if data.error_code in MOVED:
                leader = leader_of(context.services.metadata.image, topic.name, data.index)
                if leader is not None:
                    data.current_leader = LeaderIdAndEpoch(*leader)
                    nodes.append(leader[0])
    if nodes:
        response.node_endpoints = [NodeEndpoint(*place) for place in node_endpoints(context, nodes)]
