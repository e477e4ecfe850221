"""Fetch (1).

Behaviour: answers at once if there is enough to read, anything is wrong or the client does not
wait; else waits for `min_bytes` or `max_wait_ms`. Consumers read up to the high watermark, or with
read_committed up to the last stable offset. The first partition with data gives at least one
batch, however large (KIP-74); an offset inside a batch gives that whole batch. Sessions (KIP-227)
are not kept: session id 0 is answered, which every client takes as "send all partitions again".

Versions: 4-18. 7 has session ids, 9 the leader epoch, 10 allows zstd, 12 the diverging epoch, 13
topic ids, 15 the replica state.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.replica.partition import Isolation, Partition
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

FIRST_ID_VERSION = 13
FULL_FETCH_EPOCHS = (-1, 0)
READ_COMMITTED = 1


@dataclass(slots=True)
class Wanted:
    """One partition asked for; `error` where it cannot be read at all."""

    topic: str
    topic_id: bytes
    ask: FetchPartition
    partition: Partition | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Reading:
    """The whole request, resolved once; it may be read more than once while it waits."""

    wanted: list[Wanted]
    isolation: Isolation
    max_bytes: int


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | None:
    """Read now, or wait."""
    if request.session_id and request.session_epoch not in FULL_FETCH_EPOCHS:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    reading = _resolve(request, context)
    found_bytes, failed, response = _read(reading)
    enough = found_bytes >= request.min_bytes or request.max_wait_ms <= 0
    if enough or failed or not reading.wanted:
        return response
    _wait(reading, request, context)
    return None


def _resolve(request: FetchRequest, context: RequestContext) -> Reading:
    by_id = context.api_version >= FIRST_ID_VERSION
    wanted = []
    for topic in request.topics:
        name, error = topic.topic, ErrorCode.NONE
        if by_id:
            known = context.services.image.topic_by_id(topic.topic_id)
            name = "" if known is None else known.name
            error = ErrorCode.UNKNOWN_TOPIC_ID if known is None else error
        if not error and not context.may(Operation.READ, Resource.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for ask in topic.partitions:
            wanted.append(_resolve_partition(name, topic.topic_id, ask, error, context))
    limit = context.services.config["fetch.max.bytes"]
    committed = request.isolation_level == READ_COMMITTED
    return Reading(
        wanted=wanted,
        isolation=Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED,
        max_bytes=min(request.max_bytes, limit),
    )


def _resolve_partition(
    name: str, topic_id: bytes, ask: FetchPartition, error: ErrorCode, context: RequestContext
) -> Wanted:
    if error:
        return Wanted(name, topic_id, ask, None, error)
    try:
        partition = context.services.replicas.get(name, ask.partition)
    except LogError as failure:
        return Wanted(name, topic_id, ask, None, failure.code)
    return Wanted(name, topic_id, ask, partition)


def _read(reading: Reading) -> tuple[int, bool, FetchResponse]:
    """Read every partition: bytes found, whether any failed, the response."""
    left_bytes = reading.max_bytes
    found_bytes, failed = 0, False
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for wanted in reading.wanted:
        data = _read_partition(wanted, reading, left_bytes, found_bytes == 0)
        size = len(data.records) if data.records else 0
        found_bytes += size
        left_bytes = max(left_bytes - size, 0)
        failed = failed or data.error_code != 0 or data.diverging_epoch is not None
        topics.setdefault((wanted.topic, wanted.topic_id), []).append(data)
    responses = [
        FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in topics.items()
    ]
    return found_bytes, failed, FetchResponse(responses=responses)


def _read_partition(
    wanted: Wanted, reading: Reading, left_bytes: int, min_one: bool
) -> PartitionData:
    partition, ask = wanted.partition, wanted.ask
    if partition is None:
        return _failure(ask.partition, wanted.error)
    try:
        partition.check_leader(ask.current_leader_epoch)
        diverging = _diverging_epoch(partition, ask)
        if diverging is not None:
            return PartitionData(
                partition_index=ask.partition,
                high_watermark=partition.high_watermark,
                diverging_epoch=diverging,
                records=b"",
            )
        found = partition.read(
            ask.fetch_offset,
            min(ask.partition_max_bytes, left_bytes),
            min_one=min_one,
            isolation=reading.isolation,
        )
    except LogError as error:
        return _failure(ask.partition, error.code)
    data = PartitionData(
        partition_index=ask.partition,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=None,
        records=found.data,
    )
    if reading.isolation is Isolation.READ_COMMITTED:
        data.aborted_transactions = _aborted(partition, ask.fetch_offset)
    return data


def _aborted(partition: Partition, fetch_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(
            fetch_offset, partition.last_stable_offset
        )
    ]


def _diverging_epoch(partition: Partition, ask: FetchPartition) -> EpochEndOffset | None:
    """KIP-595: the reader's last epoch ended earlier here, so what it holds beyond must go."""
    if ask.last_fetched_epoch < 0:
        return None
    end = partition.end_offset_for_epoch(ask.last_fetched_epoch)
    if end.epoch < ask.last_fetched_epoch or end.end_offset < ask.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _failure(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )


def _wait(reading: Reading, request: FetchRequest, context: RequestContext) -> None:
    """Answer when enough has come, a partition can no longer be read, or time is over."""

    def answer() -> None:
        context.reply(_read(reading)[2])

    def try_complete() -> bool:
        if not _is_enough(reading, request.min_bytes):
            return False
        answer()
        return True

    context.services.replicas.fetch_purgatory.watch(
        [wanted.partition.key for wanted in reading.wanted if wanted.partition is not None],
        request.max_wait_ms,
        try_complete,
        answer,
    )


def _is_enough(reading: Reading, min_bytes: int) -> bool:
    """Whether `min_bytes` are readable, or something is wrong that the client should hear."""
    total = 0
    for wanted in reading.wanted:
        partition, ask = wanted.partition, wanted.ask
        if partition is None or not partition.is_leader:
            return True
        end = partition.high_watermark
        if reading.isolation is Isolation.READ_COMMITTED:
            end = partition.last_stable_offset
        if ask.fetch_offset > partition.log.end_offset:
            return True
        if ask.fetch_offset < end:
            size = partition.log.readable_bytes(ask.fetch_offset, end)
            total += min(size, ask.partition_max_bytes)
        if total >= min_bytes:
            return True
    return False
