"""ListOffsets (2).

Behaviour: the first offset whose record is at or after a time, or one of the special timestamps:
latest (-1), earliest (-2), the record with the largest time (-3), earliest local (-4), latest
tiered (-5) and earliest pending upload (-6). Consumers see nothing above the high watermark, or
with read_committed above the last stable offset. No record after the time: offset -1 without an
error. A look-up that has to read many headers is made in pieces, between which others are served.
Nothing is tiered here, so -5 and -6 are answered with -1. A partition that is named twice is
refused; an isolation level that does not exist is UNKNOWN_SERVER_ERROR, per partition.

Versions: 1-11. 2 has the isolation level, 4 leader epochs, 7 allows -3, 8 -4, 9 -5, 11 -6.
"""

from __future__ import annotations

from broker.disk.port import WouldBlock
from broker.handlers.context import RequestContext
from broker.log.errors import LogError
from broker.log.timestamps import LARGEST, SearchPending, TimestampOffset, TimestampSearch
from broker.replica.partition import Isolation, Partition
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -4, -5, -6
_SINCE = {LARGEST: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
_STARTS = (EARLIEST, EARLIEST_LOCAL)
FIRST_NOT_AVAILABLE_VERSION = 5
_LEVELS = {0: Isolation.READ_UNCOMMITTED, 1: Isolation.READ_COMMITTED}


class TimestampSearches:
    """The look-ups by time of one request. Invariant: one that has found something is not made
    again, whatever the others wait for."""

    def __init__(self) -> None:
        self._searches: dict[tuple[str, int], TimestampSearch] = {}
        self._found: dict[tuple[str, int], TimestampOffset | None] = {}

    def find(
        self, partition: Partition, timestamp_ms: int, isolation: Isolation
    ) -> TimestampOffset | None:
        """The record; SearchPending, WouldBlock, LogError: as of ``Partition.continue_search``."""
        if partition.key not in self._found:
            search = self._searches.get(partition.key)
            if search is None or search.partition is not partition.log:
                search = TimestampSearch(partition.log, timestamp_ms)
                self._searches[partition.key] = search
            self._found[partition.key] = partition.continue_search(search, isolation)
        return self._found[partition.key]


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse | None:
    """Look up each partition."""
    return _attempt(request, context, TimestampSearches())


def _attempt(
    request: ListOffsetsRequest, context: RequestContext, lookups: TimestampSearches
) -> ListOffsetsResponse | None:
    """Again once the needed pages have been read into memory, or others have been served."""

    def again() -> None:
        response = _attempt(request, context, lookups)
        if response is not None:
            context.reply(response)

    try:
        return _list_all(request, context, lookups)
    except SearchPending:
        context.services.clock.call_later(0, again)
    except WouldBlock as waiting:
        context.services.data_plane.logs.cold_reads.begin(waiting, again)
    return None


def _list_all(
    request: ListOffsetsRequest, context: RequestContext, lookups: TimestampSearches
) -> ListOffsetsResponse:
    isolation = _LEVELS.get(request.isolation_level)
    if request.replica_id >= 0:
        isolation = Isolation.LOG_END
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    _failure(asks[0], ErrorCode.INVALID_REQUEST)
                    if len(asks) > 1
                    else _list_one(name, asks[0], isolation, context, lookups)
                    for asks in partitions.values()
                ],
            )
            for name, partitions in _asked(request).items()
        ]
    )


def _asked(request: ListOffsetsRequest) -> dict[str, dict[int, list[ListOffsetsPartition]]]:
    """The query of each partition: more than one is refused, with a single response."""
    asked: dict[str, dict[int, list[ListOffsetsPartition]]] = {}
    for topic in request.topics:
        for ask in topic.partitions:
            partitions = asked.setdefault(topic.name, {})
            partitions.setdefault(ask.partition_index, []).append(ask)
    return asked


def _list_one(
    name: str,
    ask: ListOffsetsPartition,
    isolation: Isolation | None,
    context: RequestContext,
    lookups: TimestampSearches,
) -> ListOffsetsPartitionResponse:
    if not context.is_authorized(Operation.DESCRIBE, Resource.TOPIC, name):
        return _failure(ask, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if isolation is None:
        return _failure(ask, ErrorCode.UNKNOWN_SERVER_ERROR)
    if ask.timestamp < 0 and context.api_version < _SINCE.get(ask.timestamp, 0):
        return _failure(ask, ErrorCode.UNSUPPORTED_VERSION)
    if ask.timestamp < EARLIEST_PENDING:
        return _failure(ask, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = context.services.data_plane.replicas.get(name, ask.partition_index)
        leadership = partition.check_leader(ask.current_leader_epoch)
        is_settled = partition.high_watermark >= leadership.epoch_start_offset
        if not is_settled and isolation is not Isolation.LOG_END and ask.timestamp not in _STARTS:
            return _failure(ask, _unsettled(context.api_version))
        timestamp_ms, offset, epoch = _find(partition, ask.timestamp, isolation, lookups)
    except LogError as error:
        return _failure(ask, error.code)
    return ListOffsetsPartitionResponse(
        partition_index=ask.partition_index,
        timestamp=timestamp_ms,
        offset=offset,
        leader_epoch=epoch,
    )


def _unsettled(api_version: int) -> ErrorCode:
    """KIP-207: a new leader does not know its predecessor's high watermark yet; its answer could be
    lower than what clients have already read."""
    if api_version >= FIRST_NOT_AVAILABLE_VERSION:
        return ErrorCode.OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE


def _find(
    partition: Partition, timestamp_ms: int, isolation: Isolation, lookups: TimestampSearches
) -> tuple[int, int, int]:
    """Timestamp, offset, leader epoch; -1 where there is none."""
    if timestamp_ms == LATEST:
        return -1, _end(partition, isolation), partition.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log.log_start_offset
        return -1, start, partition.log.leader_epochs.epoch_for_offset(start)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING):
        return -1, -1, -1
    found = lookups.find(partition, timestamp_ms, isolation)
    if found is None:
        return -1, -1, -1
    return found.timestamp_ms, found.offset, found.leader_epoch


def _end(partition: Partition, isolation: Isolation) -> int:
    if isolation is Isolation.READ_COMMITTED:
        return partition.last_stable_offset
    if isolation is Isolation.READ_UNCOMMITTED:
        return partition.high_watermark
    return partition.log.end_offset


def _failure(ask: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=ask.partition_index, error_code=error)
