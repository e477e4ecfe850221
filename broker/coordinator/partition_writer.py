"""Writes a coordinator's records to partitions of its topic.

In: records. Out: `done` on acknowledgement, error or timeout; `committed` once the records are
replicated, possibly after a timeout. Never: what the records mean; `CoordinatorTopic` has their
codec.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, NamedTuple

from broker.clock.port import Clock
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.partition_reader import PartitionReader
from broker.coordinator.topic import CoordinatorTopic, RecordT
from broker.log.errors import LogError
from broker.log.validation import AppendOrigin
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from bus.errors import ErrorCode
from bus.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from bus.records.build import build_batch
from bus.records.record import Record

ACKS_ALL = -1

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
        self._reader = PartitionReader(replicas, clock, topic)
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
        await self._until(partition, lambda: partition.high_watermark >= end_offset)

    async def until_one_ends(self, index: int, transactions: OpenTransactions) -> None:
        """Wait until the marker of one of them is on every in-sync replica."""
        partition = self._partition(index)

        def has_ended() -> bool:
            undecided = partition.log.producers.is_undecided
            return not all(undecided(*one) for one in transactions.first_offsets.items())

        await self._until(partition, has_ended)

    async def _until(self, partition: Partition, is_so: Callable[[], bool]) -> None:
        """Until that is so, or this broker does not lead the partition any more."""
        while partition.is_leader and not is_so():
            advanced: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def try_complete(advanced: asyncio.Future[None] = advanced) -> bool:
                if partition.is_leader and not is_so():
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

    def read_newest(
        self, index: int, transactions: OpenTransactions
    ) -> AsyncIterator[RecordT]:
        """The newest record of each key; see ``PartitionReader``."""
        return self._reader.read_newest(self._partition(index), transactions)

    async def read_on(self, index: int, transactions: OpenTransactions) -> None:
        """What follows in the log; see ``PartitionReader``."""
        await self._reader.read_on(self._partition(index), transactions)

    def decoded(self, pairs: list[tuple[bytes, bytes | None]]) -> list[RecordT]:
        """Those of them that can be decoded."""
        return self._reader.decoded(pairs)


def _resolve(advanced: asyncio.Future[None]) -> None:
    if not advanced.done():
        advanced.set_result(None)


def _ignore(_error: ErrorCode) -> None:
    """The client has already got its timeout."""
