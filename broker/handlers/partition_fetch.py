"""Reads one partition for one fetch, of a consumer or of a follower.

In: a partition of the fetch and its `FetchParams`. Out: the response for the partition. Never:
waiting, or the choice of partitions (`k01_fetch`).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from broker.disk.port import WouldBlock
from broker.handlers.connection_control import ConnectionControl
from broker.handlers.services import Services
from broker.handlers.topics import leader_of
from broker.log.errors import LogError
from broker.replica.fetch.replica_selector import nearest_replica
from broker.replica.fetch.session_cache import CachedPartition
from broker.replica.partition import Isolation, Partition
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)
from bus.records.batch import Buffer

CONSUMER = -1

MAX_COLD_READS = 4
"""Partitions of one fetch that are read into memory at a time."""

FIRST_CLIENT_RACK_VERSION = 11

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose response names the current leader (KIP-951)."""


@dataclass(slots=True)
class FetchParams:
    """The reader of a fetch and how far it may read. `rack` is empty unless the reader may be sent
    to another replica."""

    services: Services
    replica_id: int
    broker_epoch: int
    connection: ConnectionControl
    isolation: Isolation
    leader_only: bool
    rack: str = ""
    purgatory_key: Hashable = None
    """The key under which the fetch waits for more data; None: its partitions."""
    cold: set[CachedPartition] = field(default_factory=set)
    """Partitions that are being read into memory for it."""

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


def update_follower(entry: CachedPartition, params: FetchParams) -> None:
    """Record a follower's fetch offset: it has everything below, unless its history differs.

    Errors stay in the entry and become its response.
    """
    partition = entry.partition
    if partition is None:
        return
    try:
        partition.check_leader(entry.current_leader_epoch)
        partition.follower(params.replica_id)
        if _is_within(partition, entry) and _diverging_epoch(partition, entry) is None:
            partition.on_follower_fetch(
                params.replica_id,
                entry.fetch_offset,
                entry.log_start_offset,
                params.broker_epoch,
            )
    except LogError as error:
        entry.error = error.code


def _is_within(partition: Partition, entry: CachedPartition) -> bool:
    log = partition.log
    return log.log_start_offset <= entry.fetch_offset <= log.end_offset


NOT_READ = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors found before a log is read: Kafka responds with an empty list of aborted transactions for
these, and with no list for others."""


def read_partition(
    entry: CachedPartition, params: FetchParams, left_bytes: int, min_one: bool
) -> PartitionData:
    """Read one partition."""
    partition = entry.partition
    if partition is None or entry.error:
        failed = _failure(entry, entry.error, params)
        if entry.error in NOT_READ:
            failed.aborted_transactions = []
        return failed
    try:
        partition.check_readable(entry.current_leader_epoch, from_leader=params.leader_only)
        diverging = _diverging_epoch(partition, entry)
        if diverging is not None:
            return PartitionData(
                partition_index=entry.index,
                high_watermark=partition.high_watermark,
                last_stable_offset=partition.log.last_stable_offset,
                log_start_offset=partition.log.log_start_offset,
                diverging_epoch=diverging,
                aborted_transactions=None,
                records=b"",
            )
        if params.rack:
            nearest = _nearest(partition, entry, params)
            if nearest is not None:
                return _preferred_replica(partition, entry, nearest)
        end = partition.end_for(params.isolation)
        # Most fetches come from readers that have everything: they touch no segment and no file.
        is_caught_up = partition.log.log_start_offset <= entry.fetch_offset == end
        records = b"" if is_caught_up else _records(partition, entry, params, left_bytes, min_one)
    except LogError as error:
        return _failure(entry, _error_for(error.code, partition, entry, params), params)
    log = partition.log
    data = PartitionData(
        partition_index=entry.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=records,
    )
    if params.isolation is Isolation.READ_COMMITTED:
        data.aborted_transactions = [] if is_caught_up else _aborted(partition, entry.fetch_offset)
    return data


def _records(
    partition: Partition,
    entry: CachedPartition,
    params: FetchParams,
    left_bytes: int,
    min_one: bool,
) -> Buffer:
    replicas = params.services.data_plane.replicas
    if params.is_follower and replicas.replication_quotas.is_throttled(
        partition, params.replica_id
    ):
        return b""
    try:
        # Never waits: one reader of old data would stop every request behind it on the loop.
        return partition.read(
            entry.fetch_offset,
            min(entry.max_bytes, left_bytes),
            min_one=min_one,
            isolation=params.isolation,
            waits=False,
        ).data
    except WouldBlock as waiting:
        _read_cold(entry, partition, params, waiting)
        return b""


def _read_cold(
    entry: CachedPartition, partition: Partition, params: FetchParams, waiting: WouldBlock
) -> None:
    """Read the bytes into memory on a worker thread, then retry the fetch."""
    if entry in params.cold or len(params.cold) >= MAX_COLD_READS:
        return
    replicas = params.services.data_plane.replicas
    params.cold.add(entry)

    def on_read() -> None:
        params.cold.discard(entry)
        replicas.fetch_purgatory.wake(params.purgatory_key or partition.key)

    params.services.data_plane.logs.cold_reads.begin(waiting, on_read)


def _error_for(
    code: ErrorCode, partition: Partition, entry: CachedPartition, params: FetchParams
) -> ErrorCode:
    """A follower that is behind must not make a consumer think that its offset is lost."""
    is_ahead = entry.fetch_offset > partition.log.end_offset
    if code is ErrorCode.OFFSET_OUT_OF_RANGE and is_ahead and not partition.is_leader:
        return code if params.is_follower else ErrorCode.OFFSET_NOT_AVAILABLE
    return code


def available_bytes(entry: CachedPartition, params: FetchParams, enough: int = 1) -> int:
    """About how many bytes can be read (just 1 for "some" if that is enough); -1 if the reader
    must get a response at once."""
    partition = entry.partition
    if partition is None or entry.error:
        return -1
    log = partition.log
    if entry.current_leader_epoch not in (-1, partition.leader_epoch):
        return -1
    if partition.leader_state is None and (params.leader_only or partition.leader_id < 0):
        return -1
    if entry.fetch_offset > log.end_offset or entry.fetch_offset < log.log_start_offset:
        return -1
    end = partition.end_for(params.isolation)
    if entry.fetch_offset >= end:
        return 0
    if params.is_follower and params.services.data_plane.replicas.replication_quotas.is_throttled(
        partition, params.replica_id
    ):
        return 0
    if enough <= 1 and not log.config.compacted:
        return 1  # of a compacted log the offsets up to there may be a hole
    try:
        unread = log.readable_bytes(entry.fetch_offset, end, waits=False)
    except LogError:
        return -1  # reading says what is wrong
    except WouldBlock:
        return enough  # reading will load it into memory
    return min(unread, entry.max_bytes)


def _aborted(partition: Partition, fetch_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(
            fetch_offset, partition.last_stable_offset
        )
    ]


def _diverging_epoch(partition: Partition, entry: CachedPartition) -> EpochEndOffset | None:
    """KIP-595: the reader's last epoch ended earlier here, so it must truncate what is beyond."""
    last = entry.last_fetched_epoch
    if last < 0 or (
        last == partition.log.latest_epoch and entry.fetch_offset <= partition.log.end_offset
    ):
        return None
    end = partition.end_offset_for_epoch(last)
    if end.epoch < 0 or entry.fetch_offset < partition.log.log_start_offset:
        raise LogError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch < last or end.end_offset < entry.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _nearest(partition: Partition, entry: CachedPartition, params: FetchParams) -> int | None:
    brokers = params.services.metadata.image.brokers
    racks = {number: one.rack for number, one in brokers.items() if not one.fenced}
    return nearest_replica(partition, params.rack, entry.fetch_offset, racks)


def _preferred_replica(
    partition: Partition, entry: CachedPartition, replica_id: int
) -> PartitionData:
    return PartitionData(
        partition_index=entry.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=replica_id,
        records=b"",
    )


def _failure(entry: CachedPartition, error: ErrorCode, params: FetchParams) -> PartitionData:
    data = PartitionData(
        partition_index=entry.index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
    if error in MOVED:
        leader = leader_of(params.services.metadata.image, entry.topic, entry.index)
        data.current_leader = None if leader is None else LeaderIdAndEpoch(*leader)
    return data
