"""What one fetch finds in one partition, for consumers and for followers.

In: an entry of the fetch and who reads. Out: the wire answer for the partition. Never: waiting, or
the choice of partitions; that is `k01_fetch`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from broker.disk.port import WouldWait
from broker.handlers.context import Line, Services
from broker.handlers.topics import leader_of
from broker.log.errors import LogError
from broker.replica.fetch_sessions import Entry
from broker.replica.partition import Isolation, Partition
from broker.replica.selector import nearest_replica
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    PartitionData,
)
from bus.records.batch import Buffer

CONSUMER = -1

MOST_COLD = 4
"""Partitions of one fetch that are brought into memory at a time."""

FIRST_CLIENT_RACK_VERSION = 11

MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors whose answer names the leader there is now (KIP-951)."""


@dataclass(slots=True)
class Reader:
    """Who reads, and how far he may see. `rack` is empty unless he may be sent elsewhere."""

    services: Services
    replica_id: int
    broker_epoch: int
    line: Line
    isolation: Isolation
    only_leader: bool
    rack: str = ""
    wakes: Hashable = None
    """Under what the fetch waits for more; None: under its partitions."""
    cold: set[Entry] = field(default_factory=set)
    """What is being brought into memory for it."""

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


def note_follower(entry: Entry, reader: Reader) -> None:
    """A follower has named an offset: it has all below, unless its history differs.

    Refusals stay in the entry and are its answer.
    """
    partition = entry.partition
    if partition is None:
        return
    try:
        partition.check_leader(entry.current_leader_epoch)
        partition.follower(reader.replica_id)
        if _is_within(partition, entry) and _diverging_epoch(partition, entry) is None:
            partition.on_follower_fetch(
                reader.replica_id,
                entry.fetch_offset,
                entry.log_start_offset,
                reader.broker_epoch,
            )
    except LogError as error:
        entry.error = error.code


def _is_within(partition: Partition, entry: Entry) -> bool:
    log = partition.log
    return log.log_start_offset <= entry.fetch_offset <= log.end_offset


NEVER_READ = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Refused before any log is asked: Kafka lists no aborted transactions there, elsewhere it has no
list at all."""


def read_entry(entry: Entry, reader: Reader, left_bytes: int, min_one: bool) -> PartitionData:
    """Read one partition."""
    partition = entry.partition
    if partition is None or entry.error:
        failed = _failure(entry, entry.error, reader)
        if entry.error in NEVER_READ:
            failed.aborted_transactions = []
        return failed
    try:
        partition.check_readable(entry.current_leader_epoch, from_leader=reader.only_leader)
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
        if reader.rack:
            nearest = _nearest(partition, entry, reader)
            if nearest is not None:
                return _elsewhere(partition, entry, nearest)
        records = _records(partition, entry, reader, left_bytes, min_one)
    except LogError as error:
        return _failure(entry, _as_seen_by(error.code, partition, entry, reader), reader)
    log = partition.log
    data = PartitionData(
        partition_index=entry.index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=None,
        records=records,
    )
    if reader.isolation is Isolation.READ_COMMITTED:
        data.aborted_transactions = _aborted(partition, entry.fetch_offset)
    return data


def _records(
    partition: Partition, entry: Entry, reader: Reader, left_bytes: int, min_one: bool
) -> Buffer:
    replicas = reader.services.replicas
    if reader.is_follower and replicas.throttles.holds_back(partition, reader.replica_id):
        return b""
    try:
        return partition.read(
            entry.fetch_offset,
            min(entry.max_bytes, left_bytes),
            min_one=min_one,
            isolation=reader.isolation,
            waits=False,
        ).data
    except WouldWait as waiting:
        _bring(entry, partition, reader, waiting)
        return b""


def _bring(entry: Entry, partition: Partition, reader: Reader, waiting: WouldWait) -> None:
    """Have it brought into memory beside other work, then look again."""
    if entry in reader.cold or len(reader.cold) >= MOST_COLD:
        return
    replicas = reader.services.replicas
    reader.cold.add(entry)

    def then() -> None:
        reader.cold.discard(entry)
        replicas.fetch_purgatory.wake(reader.wakes or partition.key)

    reader.services.logs.cold_reads.begin(waiting, then)


def _as_seen_by(code: ErrorCode, partition: Partition, entry: Entry, reader: Reader) -> ErrorCode:
    """A follower that is behind must not make a consumer think that its place is lost."""
    is_ahead = entry.fetch_offset > partition.log.end_offset
    if code is ErrorCode.OFFSET_OUT_OF_RANGE and is_ahead and not partition.is_leader:
        return code if reader.is_follower else ErrorCode.OFFSET_NOT_AVAILABLE
    return code


def unread_bytes(entry: Entry, reader: Reader, enough: int = 1) -> int:
    """About how many bytes wait there (just 1 for "some" if that is enough); -1 if there is
    something the reader should hear at once."""
    partition = entry.partition
    if partition is None or entry.error:
        return -1
    log = partition.log
    if entry.current_leader_epoch not in (-1, partition.leader_epoch):
        return -1
    if partition.leadership is None and (reader.only_leader or partition.leader_id < 0):
        return -1
    if entry.fetch_offset > log.end_offset or entry.fetch_offset < log.log_start_offset:
        return -1
    end = partition.end_for(reader.isolation)
    if entry.fetch_offset >= end:
        return 0
    if reader.is_follower and reader.services.replicas.throttles.holds_back(
        partition, reader.replica_id
    ):
        return 0
    if enough <= 1:
        return 1
    try:
        unread = log.readable_bytes(entry.fetch_offset, end, waits=False)
    except LogError:
        return -1  # reading says what is wrong
    except WouldWait:
        return enough  # reading brings it into memory
    return min(unread, entry.max_bytes)


def _aborted(partition: Partition, fetch_offset: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
        for aborted in partition.log.aborted_transactions(
            fetch_offset, partition.last_stable_offset
        )
    ]


def _diverging_epoch(partition: Partition, entry: Entry) -> EpochEndOffset | None:
    """KIP-595: the reader's last epoch ended earlier here, so what it holds beyond must go."""
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


def _nearest(partition: Partition, entry: Entry, reader: Reader) -> int | None:
    brokers = reader.services.image.brokers
    racks = {number: one.rack for number, one in brokers.items() if not one.fenced}
    return nearest_replica(partition, reader.rack, entry.fetch_offset, racks)


def _elsewhere(partition: Partition, entry: Entry, replica_id: int) -> PartitionData:
    return PartitionData(
        partition_index=entry.index,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        log_start_offset=partition.log.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=replica_id,
        records=b"",
    )


def _failure(entry: Entry, error: ErrorCode, reader: Reader) -> PartitionData:
    data = PartitionData(
        partition_index=entry.index,
        error_code=error,
        high_watermark=-1,
        aborted_transactions=None,
        records=b"",
    )
    if error in MOVED:
        leader = leader_of(reader.services.image, entry.topic, entry.index)
        data.current_leader = None if leader is None else LeaderIdAndEpoch(*leader)
    return data
