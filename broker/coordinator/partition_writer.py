"""Writes a coordinator's records to partitions of its topic, and reads a partition back.

In: records. Out: `done` on acknowledgement, error or timeout; `committed` once the records are
replicated, possibly after a timeout. Never: what the records mean; `CoordinatorTopic` has their
codec.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, NamedTuple

from broker.clock.port import Clock
from broker.coordinator.topic import CoordinatorTopic, RecordT
from broker.disk.port import WouldBlock
from broker.log.audit import audit_from, segment_end
from broker.log.batch_scanner import ScannedBatch
from broker.log.errors import LogError, is_corruption
from broker.log.validation import AppendOrigin
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Isolation, Partition
from bus.errors import ErrorCode
from bus.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    RecordsError,
    check_crc,
    iter_batches,
)
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record

log = logging.getLogger("broker.coordinator")

LOAD_BYTES = 1024 * 1024
ACKS_ALL = -1
BATCHES_PER_ITERATION = 256
"""Batches checked in one iteration of the loop where a damaged segment is read batch by batch."""

ErrorCallback = Callable[[ErrorCode], None]

_COMMITTED = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The records stay in the log, even where the client gets an error."""


class ProducerFields(NamedTuple):
    """What the header of a batch says of its producer. A coordinator writes what is part of a
    client's transaction under that client's id and epoch; its sequence is not checked there, Kafka
    writes 0."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


NO_PRODUCER = ProducerFields()


class PartitionWriter(Generic[RecordT]):
    """The partitions of one coordinator's topic on this broker."""

    def __init__(
        self,
        replicas: ReplicaManager,
        clock: Clock,
        topic: CoordinatorTopic[RecordT],
        commit_timeout_ms: int,
    ) -> None:
        self.topic = topic
        self._replicas = replicas
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms

    def is_empty(self, index: int) -> bool:
        """Whether there is nothing to load."""
        log = self._partition(index).log
        return log.log_start_offset == log.end_offset

    def write(
        self,
        index: int,
        records: Sequence[RecordT],
        committed: Callable[[], None],
        done: ErrorCallback,
        producer: ProducerFields = NO_PRODUCER,
    ) -> None:
        """Append the records as one batch. Calls `committed` when every in-sync replica has it,
        `done` then, on an error (INVALID_PRODUCER_EPOCH: the producer has a newer one) or at the
        timeout."""
        now_ms = self._clock.now_ms()
        pairs = [self.topic.encode(record) for record in records]
        made = [Record(key, value, timestamp_ms=now_ms) for key, value in pairs]
        batch = build_batch(made, **producer._asdict())
        try:
            partition = self._partition(index)
            info = partition.append_as_leader(
                batch, required_acks=ACKS_ALL, now_ms=now_ms, origin=AppendOrigin.COORDINATOR
            )
        except LogError as error:
            done(self.topic.client_error(error.code))
            return
        self._wait(partition, info.last_offset + 1, committed, done)

    def _partition(self, index: int) -> Partition:
        return self._replicas.get(self.topic.name, index)

    def _wait(
        self,
        partition: Partition,
        end_offset: int,
        committed: Callable[[], None],
        done: ErrorCallback,
    ) -> None:
        """Wait until it is replicated or this broker is no longer the leader; the client may get a
        timeout before.

        The operation stays registered after that timeout: records that are in the log in one
        sequence must be replayed into the coordinator's state in the same sequence.
        """
        epoch = partition.leader_epoch
        reply = done

        def try_complete() -> bool:
            error = partition.is_acknowledged(end_offset, epoch)
            if error is None:
                return False
            if error in _COMMITTED:
                committed()
            reply(self.topic.client_error(error))
            return True

        def on_expire() -> None:
            nonlocal reply
            expired, reply = reply, _ignore
            expired(self.topic.client_error(ErrorCode.REQUEST_TIMED_OUT))

        self._replicas.produce_purgatory.watch(
            [partition.key],
            self._commit_timeout_ms,
            try_complete,
            on_expire,
            keep_after_timeout=True,
        )

    async def until_replicated(self, index: int) -> None:
        """Wait until everything that the partition holds now is on every in-sync replica.

        A new leader's log may end beyond what was ever acknowledged; read before that, a record
        could be shown to a client and then be truncated under the next leader.
        """
        partition = self._partition(index)
        end_offset = partition.log.end_offset
        while partition.is_leader and partition.high_watermark < end_offset:
            advanced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def try_complete(advanced: asyncio.Future[None] = advanced) -> bool:
                if partition.is_leader and partition.high_watermark < end_offset:
                    return False
                _resolve(advanced)
                return True

            self._replicas.produce_purgatory.watch(
                [partition.key],
                self._commit_timeout_ms,
                try_complete,
                lambda advanced=advanced: _resolve(advanced),  # type: ignore[misc]
            )
            await advanced

    async def read_all(self, index: int) -> AsyncIterator[RecordT]:
        """Every record of the partition; other work runs between pieces. Damaged batches are logged
        and left out: the rest is still worth serving."""
        partition = self._partition(index)
        offset = partition.log.log_start_offset
        while offset < partition.log.end_offset:
            try:
                read = partition.read(
                    offset, LOAD_BYTES, min_one=True, isolation=Isolation.LOG_END, waits=False
                )
                records, offset = decode_batches(self.topic, bytes(read.data), offset)
            except WouldBlock as waiting:
                await self._replicas.until_read(waiting)
                continue
            except (RecordsError, LogError) as error:
                if isinstance(error, LogError) and not is_corruption(error):
                    raise
                records, offset = await self._read_damaged(partition, offset)
            for record in records:
                yield record
            await self._clock.sleep(0)

    async def _read_damaged(self, partition: Partition, offset: int) -> tuple[list[RecordT], int]:
        """The readable records of a damaged segment, and the offset where it ends."""
        records: list[RecordT] = []
        for number, found in enumerate(audit_from(partition.log, offset)):
            if number % BATCHES_PER_ITERATION == 0:
                await self._clock.sleep(0)
            fault = str(found)
            if isinstance(found, ScannedBatch):
                try:
                    records += decode_batches(
                        self.topic, bytes(found.data), found.header.base_offset
                    )[0]
                    continue
                except RecordsError as error:
                    fault = f"offsets {found.header.base_offset} to {found.header.last_offset}: "
                    fault += str(error)
            log.error(
                "%s is damaged; %s: %s", partition.log.directory, self.topic.loss, fault
            )
        return records, segment_end(partition.log, offset)


def _resolve(advanced: asyncio.Future[None]) -> None:
    if not advanced.done():
        advanced.set_result(None)


def _ignore(_error: ErrorCode) -> None:
    """The client has already got its timeout."""


def decode_batches(
    topic: CoordinatorTopic[RecordT], data: bytes, offset: int
) -> tuple[list[RecordT], int]:
    """The records of batches, the first of which contains `offset`, and where these end. Raises
    RecordsError if they do not follow each other without a gap, a checksum is wrong or a batch
    cannot be unpacked. Apache Kafka's cleaner leaves gaps; then the slower way is taken."""
    found: list[RecordT] = []
    position = 0
    for position, header in iter_batches(data):
        check_crc(data, position)
        if not header.base_offset <= offset < header.end_offset:
            raise _damaged(f"offset {header.base_offset} where {offset} is to come")
        for record in read_records(data, position) if not header.is_control else ():
            _decode_into(topic, header, record, found)
        offset, position = header.end_offset, position + header.size_bytes
    if not data or position != len(data):
        raise _damaged("a batch that does not end")
    return found, offset


def _decode_into(
    topic: CoordinatorTopic[RecordT], header: BatchHeader, record: Record, found: list[RecordT]
) -> None:
    if record.key is None:
        return
    value = None if record.value is None else bytes(record.value)
    try:
        known = topic.decode(bytes(record.key), value)
    except Exception as error:  # bytes of a later version, or of a foreign producer
        log.error("%s: a record in the batch at offset %d is left out: %r",
                  topic.name, header.base_offset, error)  # fmt: skip
        return
    if known is not None:
        found.append(known)


def _damaged(what: str) -> RecordsError:
    return RecordsError(ErrorCode.CORRUPT_MESSAGE, what)
