"""Runtime of a coordinator: the shards of the partitions that this broker leads.

In: elections of partitions; records that shards have decided to write. Out: shards into which the
newest committed record of each key is replayed, then what transactions that were open commit; every
write is answered once. Never: what they mean: a shard decides, the runtime writes and replays.
Kafka's counterpart: CoordinatorRuntime.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.clock.port import Clock, TaskHandle
from broker.coordinator.hashing import java_abs, java_hash
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.partition_writer import ErrorCallback, PartitionWriter
from broker.coordinator.topic import RecordT
from broker.log.errors import LogError
from bus.errors import ErrorCode
from bus.records.batch import RecordsError

log = logging.getLogger("broker.coordinator")

LOAD_RETRY_S = 1
"""Between two attempts to read a partition: its start may just have moved, or its disk be slow."""

SETTLED_PER_PIECE = 200
"""Records of ended transactions replayed between two moments at which other work may run."""

ReplayedT = TypeVar("ReplayedT", contravariant=True)


class CoordinatorShard(Protocol[ReplayedT]):
    """The state of one partition. `loaded`: it may serve requests; set in `on_loaded`."""

    index: int
    loaded: bool

    def replay(self, record: ReplayedT) -> None:
        """Apply one committed record."""

    def summary(self) -> str:
        """What it holds, for the log."""


ShardT = TypeVar("ShardT", bound="CoordinatorShard[Any]")


class CoordinatorRuntime(Generic[RecordT, ShardT]):
    """The shards of one coordinator on one broker.

    Invariant: a write that waits for the log is answered when its shard is unloaded.
    """

    def __init__(
        self,
        *,
        writer: PartitionWriter[RecordT],
        clock: Clock,
        partition_count: Callable[[], int],
        new_shard: Callable[[int], ShardT],
        on_loaded: Callable[[ShardT], Iterator[None]],
        on_unloaded: Callable[[ShardT], None],
        on_settled: Callable[[ShardT, Sequence[RecordT]], None],
    ) -> None:
        """`on_loaded(shard)` starts a shard whose records are replayed, in pieces between which
        other work may run; `on_settled(shard, records)`: these, which a transaction that was open
        then has committed since, are replayed; `on_unloaded(shard)` answers the requests that wait
        in a shard whose partition another broker leads now."""
        self._writer = writer
        self._clock = clock
        self._partition_count = partition_count
        self._new_shard = new_shard
        self._on_loaded = on_loaded
        self._on_unloaded = on_unloaded
        self._on_settled = on_settled
        self._shards: dict[int, ShardT] = {}
        self._loading: dict[int, TaskHandle] = {}
        self._settling: dict[int, TaskHandle] = {}
        self._pending_writes: dict[int, dict[int, ErrorCallback]] = {}
        self._last_write_id = 0

    # -- shards ----------------------------------------------------------------------------

    @property
    def topic_name(self) -> str:
        """The coordinator's topic."""
        return self._writer.topic.name

    def partition_of(self, key: str) -> int:
        """The partition of the coordinator's topic that holds this key (a group id)."""
        return java_abs(java_hash(key)) % self._partition_count()

    def find(self, key: str) -> ShardT | ErrorCode:
        """The loaded shard of a key, or the error for its client."""
        shard = self._shards.get(self.partition_of(key))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def shards(self) -> list[ShardT]:
        """Those that are loaded and those that are being loaded."""
        return list(self._shards.values())

    def loaded_shards(self) -> list[ShardT]:
        """The shards that may serve requests."""
        return [shard for shard in self._shards.values() if shard.loaded]

    @property
    def is_loading(self) -> bool:
        """Whether some shards are not loaded yet."""
        return bool(self._loading)

    def is_current(self, shard: ShardT) -> bool:
        """Whether the leadership under which the shard was loaded still lasts."""
        return self._shards.get(shard.index) is shard

    # -- leadership ------------------------------------------------------------------------

    def on_elected(self, index: int) -> None:
        """This broker leads the partition now: load it, then serve it."""
        if index in self._shards:
            return  # a new epoch of an unbroken leadership changes nothing that is loaded
        shard = self._shards[index] = self._new_shard(index)
        if self._writer.is_empty(index):
            for _ in self._on_loaded(shard):
                pass
        else:
            self._loading[index] = self._clock.spawn(
                self._load(shard), name=f"load-{self._writer.topic.name}-{index}"
            )

    def on_resigned(self, index: int) -> None:
        """Another broker leads the partition, or it is deleted."""
        for tasks in (self._loading, self._settling):
            task = tasks.pop(index, None)
            if task is not None:
                task.cancel()
        shard = self._shards.pop(index, None)
        if shard is None:
            return
        self._on_unloaded(shard)
        waiting = self._pending_writes.pop(index, {})
        for write_id in list(waiting):
            waiting.pop(write_id)(ErrorCode.NOT_COORDINATOR)

    async def stop(self) -> None:
        """Unload all shards; waiting clients learn that this is no longer their coordinator."""
        for index in list(self._shards):
            self.on_resigned(index)

    async def _load(self, shard: ShardT) -> None:
        topic = self._writer.topic.name
        while True:
            transactions = OpenTransactions()
            try:
                count = await self._replay_all(shard, transactions)
                break
            except (LogError, RecordsError) as error:
                # Clients have to wait as long as this lasts, so it must not last for ever. Records
                # that were replayed already are replayed again, which changes nothing.
                log.error(
                    "%s-%d cannot be read, again in %d s: %s",
                    topic, shard.index, LOAD_RETRY_S, error,
                )  # fmt: skip
            await self._clock.sleep(LOAD_RETRY_S)
        if not self.is_current(shard):
            return
        for _ in self._on_loaded(shard):
            await self._clock.sleep(0)
        task = self._loading.pop(shard.index, None)
        log.info("loaded %d records of %s from %s-%d", count, shard.summary(), topic, shard.index)
        if transactions and task is not None:
            self._settling[shard.index] = task
            await self._settle(shard, transactions)

    async def _replay_all(self, shard: ShardT, transactions: OpenTransactions) -> int:
        """Replay the newest record of each key; how many these are."""
        count = 0
        await self._writer.until_replicated(shard.index)
        async for record in self._writer.read_newest(shard.index, transactions):
            shard.replay(record)
            count += 1
        return count

    async def _settle(self, shard: ShardT, transactions: OpenTransactions) -> None:
        """Replay what transactions that were open at the load have committed since. Before each
        piece all is read that is in force: what was committed meanwhile stays newer."""
        index, topic = shard.index, self._writer.topic
        log.info("%s-%d has open transactions of %d producers",
                 topic.name, index, len(transactions.first_offsets))  # fmt: skip
        try:
            while transactions and self.is_current(shard):
                if not transactions.is_due:
                    await self._writer.until_one_ends(index, transactions)
                await self._writer.read_on(index, transactions)
                self._replay_settled(shard, transactions)
                await self._clock.sleep(0)
        except (LogError, RecordsError) as error:
            if self.is_current(shard):
                log.error("what follows in %s-%d cannot be read; %s: %s",
                          topic.name, index, topic.loss, error)  # fmt: skip

    def _replay_settled(self, shard: ShardT, transactions: OpenTransactions) -> None:
        if self.is_current(shard):
            records = self._writer.decoded(transactions.take_due(SETTLED_PER_PIECE))
            for record in records:
                shard.replay(record)
            self._on_settled(shard, records)

    # -- writes ----------------------------------------------------------------------------

    def write(self, shard: ShardT, records: Sequence[RecordT], done: ErrorCallback) -> None:
        """Write the records, replay them once they are committed, then call `done`."""
        if not records:
            done(ErrorCode.NONE)
            return

        self._last_write_id += 1
        write_id = self._last_write_id
        waiting = self._pending_writes.setdefault(shard.index, {})
        waiting[write_id] = done

        def on_done(error: ErrorCode) -> None:
            if waiting.pop(write_id, None) is not None:  # else answered when the shard was unloaded
                done(error)

        def on_committed() -> None:
            if self.is_current(shard):
                for record in records:
                    shard.replay(record)

        self._writer.write(shard.index, records, on_committed, on_done)

    def write_in_turns(
        self,
        shard: ShardT,
        next_records: Callable[[], Sequence[RecordT]],
        done: ErrorCallback,
        is_last: Callable[[Sequence[RecordT]], bool] = lambda records: False,
    ) -> None:
        """Write what `next_records` returns, a batch at a time, until that is nothing or `is_last`
        of it; it is asked again when a batch is replayed, so that it decides by what is so then."""
        if not self.is_current(shard):
            done(ErrorCode.NOT_COORDINATOR)
            return
        records = next_records()
        if not records:
            done(ErrorCode.NONE)
            return

        def on_done(error: ErrorCode) -> None:
            if error or is_last(records):
                done(error)
            else:
                self._clock.call_later(
                    0, lambda: self.write_in_turns(shard, next_records, done, is_last)
                )

        self.write(shard, records, on_done)
