"""The coordinator's way to `__consumer_offsets`: append records, read a partition back.

In: coordinator records. Out: when they are stored, or the error a group's client understands; and
apart from that when they stand in the log for good, which may be after the client was told that it
took too long. Never: what the records mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from broker.clock.port import Clock
from broker.coordinator.records import CoordinatorRecord, decode, encode
from broker.disk.port import WouldWait
from broker.log.errors import LogError, is_damage
from broker.log.records_in import Origin
from broker.log.salvage import salvage, segment_end
from broker.log.scan import Found
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Isolation, Partition
from bus.errors import ErrorCode
from bus.records.batch import BatchHeader, RecordsError, check_crc, iter_batches
from bus.records.build import build_batch
from bus.records.read import read_records
from bus.records.record import Record

log = logging.getLogger("broker.coordinator")

OFFSETS_TOPIC = "__consumer_offsets"
LOAD_BYTES = 1024 * 1024
ACKS_ALL = -1
BATCHES_PER_TURN = 256
"""Looked at in one turn of the loop where a damaged segment is read batch by batch."""

ErrorCallback = Callable[[ErrorCode], None]

_CLIENT_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}

_COMMITTED = frozenset({ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})
"""The records stand in the log for good, whatever the client is told."""


class Appender:
    """Partitions of `__consumer_offsets` on this broker."""

    def __init__(self, replicas: ReplicaManager, clock: Clock, commit_timeout_ms: int) -> None:
        self._replicas = replicas
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms

    def is_empty(self, index: int) -> bool:
        """Whether there is nothing to load."""
        log = self._replicas.get(OFFSETS_TOPIC, index).log
        return log.log_start_offset == log.end_offset

    def append(
        self,
        index: int,
        records: Sequence[CoordinatorRecord],
        committed: Callable[[], None],
        done: ErrorCallback,
    ) -> None:
        """Store the records as one batch. `committed` when every in-sync replica has it, `done`
        then or when it fails or takes too long."""
        now_ms = self._clock.now_ms()
        pairs = [encode(record) for record in records]
        batch = build_batch([Record(key, value, timestamp_ms=now_ms) for key, value in pairs])
        try:
            partition = self._replicas.get(OFFSETS_TOPIC, index)
            info = partition.append_as_leader(
                batch, required_acks=ACKS_ALL, now_ms=now_ms, origin=Origin.COORDINATOR
            )
        except LogError as error:
            done(client_error(error.code))
            return
        self._wait(partition, info.last_offset + 1, committed, done)

    def _wait(
        self,
        partition: Partition,
        end_offset: int,
        committed: Callable[[], None],
        done: ErrorCallback,
    ) -> None:
        """Until it is replicated or this broker leads no more; the client may be told before.

        It keeps its place when that is so: what stands in the log in one order must become the
        coordinator's state in that order.
        """
        epoch = partition.leader_epoch
        answer = done

        def try_complete() -> bool:
            error = partition.is_acknowledged(end_offset, epoch)
            if error is None:
                return False
            if error in _COMMITTED:
                committed()
            answer(client_error(error))
            return True

        def on_expire() -> None:
            nonlocal answer
            told, answer = answer, _nobody
            told(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        self._replicas.produce_purgatory.watch(
            [partition.key], self._commit_timeout_ms, try_complete, on_expire, stays=True
        )

    async def until_replicated(self, index: int) -> None:
        """Until all that the partition holds now is on every in-sync replica.

        A new leader's log may end beyond what was ever acknowledged; read before that, an offset
        could be shown to a client and then be cut off again under the next leader.
        """
        partition = self._replicas.get(OFFSETS_TOPIC, index)
        end_offset = partition.log.end_offset
        while partition.is_leader and partition.high_watermark < end_offset:
            moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def try_complete(moved: asyncio.Future[None] = moved) -> bool:
                if partition.is_leader and partition.high_watermark < end_offset:
                    return False
                _settle(moved)
                return True

            self._replicas.produce_purgatory.watch(
                [partition.key],
                self._commit_timeout_ms,
                try_complete,
                lambda moved=moved: _settle(moved),  # type: ignore[misc]
            )
            await moved

    async def read_all(self, index: int) -> AsyncIterator[CoordinatorRecord]:
        """Every record of the partition; other work goes on between pieces. What is damaged is
        named and left out: the groups in the rest are still worth serving."""
        partition = self._replicas.get(OFFSETS_TOPIC, index)
        offset = partition.log.log_start_offset
        while offset < partition.log.end_offset:
            try:
                read = partition.read(
                    offset, LOAD_BYTES, min_one=True, isolation=Isolation.LOG_END, waits=False
                )
                records, offset = _records(bytes(read.data), offset)
            except WouldWait as waiting:
                await self._replicas.until_read(waiting)
                continue
            except (RecordsError, LogError) as error:
                if isinstance(error, LogError) and not is_damage(error):
                    raise
                records, offset = await self._salvaged(partition, offset)
            for record in records:
                yield record
            await self._clock.sleep(0)

    async def _salvaged(
        self, partition: Partition, offset: int
    ) -> tuple[list[CoordinatorRecord], int]:
        """What of a damaged segment can be read, and where it ends."""
        records: list[CoordinatorRecord] = []
        for number, found in enumerate(salvage(partition.log, offset)):
            if number % BATCHES_PER_TURN == 0:
                await self._clock.sleep(0)
            fault = str(found)
            if isinstance(found, Found):
                try:
                    records += _records(bytes(found.data), found.header.base_offset)[0]
                    continue
                except RecordsError as error:
                    fault = f"offsets {found.header.base_offset} to {found.header.last_offset}: "
                    fault += str(error)
            log.error(
                "%s is damaged; the groups and committed offsets written there are not known any "
                "more, groups go on from what was committed before: %s",
                partition.log.directory, fault,
            )  # fmt: skip
        return records, segment_end(partition.log, offset)


def _settle(moved: asyncio.Future[None]) -> None:
    if not moved.done():
        moved.set_result(None)


def _nobody(_error: ErrorCode) -> None:
    """The client has been told that it took too long."""


def client_error(error: ErrorCode) -> ErrorCode:
    """What a group's client is told of a failed append."""
    return _CLIENT_ERRORS.get(error, error)


def _records(data: bytes, offset: int) -> tuple[list[CoordinatorRecord], int]:
    """The records of batches, the first of which contains `offset`, and where these end. Raises
    RecordsError if they do not follow each other without a gap, a checksum is wrong or a batch
    cannot be unpacked. Apache Kafka's cleaner leaves gaps; then the slower way is taken."""
    found: list[CoordinatorRecord] = []
    position = 0
    for position, header in iter_batches(data):
        check_crc(data, position)
        if not header.base_offset <= offset < header.end_offset:
            raise _damaged(f"offset {header.base_offset} where {offset} is to come")
        for record in read_records(data, position) if not header.is_control else ():
            _take(header, record, found)
        offset, position = header.end_offset, position + header.size_bytes
    if not data or position != len(data):
        raise _damaged("a batch that does not end")
    return found, offset


def _take(header: BatchHeader, record: Record, found: list[CoordinatorRecord]) -> None:
    if record.key is None:
        return
    value = None if record.value is None else bytes(record.value)
    try:
        known = decode(bytes(record.key), value)
    except Exception as error:  # other people's bytes: a later version's, or a foreign producer's
        log.error("__consumer_offsets: a record in the batch at offset %d is left out: %r",
                  header.base_offset, error)  # fmt: skip
        return
    if known is not None:
        found.append(known)


def _damaged(what: str) -> RecordsError:
    return RecordsError(ErrorCode.CORRUPT_MESSAGE, what)
