"""One producer at an ordinary target, and the partitions whose records go through it.

In: partitions with something queued. Out: rounds of appends; a round's records and the positions
that say so are committed together where the target has transactions, else the positions follow,
those of some rounds at once, beside the records of later ones. Core: `AppendBatches`. Never: two
rounds of one producer at once; what arrives meanwhile goes into the next one.

After any failure the producer takes a fresh epoch, which ends what was open, and the partitions of
the round begin again from the positions that are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from bus.client.model import TopicPartition
from bus.errors import ErrorCode
from bus.records.build import build_batch
from bus.records.record import Record
from bus.runtime.wall_clock import now_ms
from dr_mirror.copy.context import CopyContext
from dr_mirror.copy.plan.pace import backoff_s
from dr_mirror.copy.plan.partition_copy import PartitionAppend, PartitionCopy
from dr_mirror.produce.plan.append_batches import AppendBatches
from dr_mirror.produce.plan.offset_translation import OffsetSegment
from dr_mirror.produce.plan.positions import PositionKey, SourcePosition, encode
from dr_mirror.produce.plan.produce_errors import produce_state
from dr_mirror.produce.produce_requests import ProduceRequests
from dr_mirror.produce.topic_reader import TopicUnavailable
from dr_mirror.produce.transaction_manager import (
    ProducerFenced,
    TransactionFailed,
    TransactionManager,
)
from dr_mirror.produce.unsaved_positions import EVERY_S as POSITIONS_EVERY_S
from dr_mirror.produce.unsaved_positions import Positions, UnsavedPositions, check_positions
from dr_mirror.topics.states import MirrorState

ROUND_S = 0.01
"""A transaction begins at most this often: each one costs a marker in every partition of it."""
NO_LOG_START = (1 << 63) - 1
"""The target's log start follows nothing: its own retention deletes."""

Claims = dict[TopicPartition, tuple[SourcePosition, "asyncio.Future[None]"]]


@dataclass(slots=True)
class RoundEntry:
    """One partition in a round: `copy` names it as the source does, `batches` as the target."""

    copy: PartitionCopy
    append: PartitionAppend
    batches: AppendBatches
    is_committed: bool = False

    @property
    def is_sent(self) -> bool:
        """Whether the target has all of it."""
        return self.batches.failure is None

    @property
    def source_end(self) -> int:
        """Up to where the target has the source's records."""
        return self.append.end_offset if self.is_sent else self.batches.acknowledged


class SharedByProducers(Protocol):
    """What the producers of one target share: `ProduceTarget`."""

    @property
    def position_partition(self) -> TopicPartition:
        """Where positions are written."""

    def position_leader(self) -> int:
        """Who leads it; -1: nobody."""

    async def check_fencing(self) -> None:
        """Before a fresh epoch: raises TransactionFailed where a newer mirror runs."""

    def topic_ids(self, partition: TopicPartition) -> tuple[str, str]:
        """Of source and target, with which the partition began."""

    def on_acknowledged(
        self, partition: TopicPartition, segments: Sequence[OffsetSegment]
    ) -> None:
        """These offsets of the source are at the target."""

    def on_rebuilt(self, batches: int) -> None:
        """So many batches could not go as they were."""


class ProduceSender:
    """Invariant: `_in_round` has the partitions whose answers are not all known yet; `_unsaved` has
    no position where the target has transactions."""

    def __init__(
        self,
        context: CopyContext,
        name: str,
        transactions: TransactionManager,
        shared: SharedByProducers,
    ) -> None:
        self._context = context
        self._name = name
        self._transactions = transactions
        self._shared = shared
        self._requests = ProduceRequests(context, self._leader_of, name)
        self._ready: dict[TopicPartition, PartitionCopy] = {}
        self._leaders: dict[TopicPartition, Callable[[], int]] = {}
        self._claims: Claims = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._target_ends: dict[TopicPartition, int] = {}
        self._unsaved = UnsavedPositions(
            context.clock.monotonic, context.settings.append_bytes, self._write_positions
        )
        self._in_round: set[TopicPartition] = set()
        self._wake = asyncio.Event()
        self._round_ended = asyncio.Event()
        self._begin_lock = asyncio.Lock()

    # -- as the mirror uses it --------------------------------------------------------------

    def update(self, copy: PartitionCopy) -> None:
        """Append what it has queued, soon."""
        self._leaders[self._at_target(copy.partition)] = lambda: copy.target_leader
        if copy.can_append:
            self._ready[copy.partition] = copy
            self._wake.set()

    def remove(self, copy: PartitionCopy) -> None:
        """Another broker leads it now, or it is not copied any more."""
        self._ready.pop(copy.partition, None)

    # -- as the starter uses it -------------------------------------------------------------

    async def begin(self) -> None:
        """Return once the producer has an epoch: nothing older is open or being committed. Raises
        TransactionFailed, TopicUnavailable."""
        async with self._begin_lock:
            if self._transactions.producer is None:
                await self._shared.check_fencing()
                await self._transactions.init_producer_id()
                self._sequences.clear()

    async def settle(self, partition: TopicPartition) -> None:
        """Return once no round has the partition in it, and its position is written. Raises
        TransactionFailed."""
        while partition in self._in_round:
            self._round_ended.clear()
            await self._round_ended.wait()
        position = self._unsaved.of(partition)
        if position is not None:
            await self.claim(partition, position)

    def on_begun(self, partition: TopicPartition, target_end: int) -> None:
        """It is copied from now on; the target ends there."""
        self._target_ends[partition] = target_end

    async def claim(self, partition: TopicPartition, position: SourcePosition) -> None:
        """Write a position, in a round. Raises TransactionFailed."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._claims[partition] = position, done
        self._wake.set()
        await done

    # -- rounds -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._run_rounds()
        finally:
            self._unsaved.close()

    async def _run_rounds(self) -> None:
        clock, failures = self._context.clock, 0
        await self._begin_first()
        while True:
            await self._wait_for_work()
            started = clock.monotonic()
            entries = self._next_entries()
            claims, self._claims = self._claims, {}
            if not entries and not claims and not self._unsaved:
                continue
            self._in_round = {each.copy.partition for each in entries} | set(claims)
            try:
                await self._round(entries, claims)
                failures = 0
            except (TransactionFailed, TopicUnavailable) as failure:
                failures += 1
                self._on_failure(entries, claims, failure.state, failure.detail)
            except ProducerFenced as failure:
                failures += 1
                self._on_failure(entries, claims, MirrorState.STARTING, str(failure))
            finally:
                self._in_round = set()
                self._round_ended.set()
            if failures:
                await self._begin_again(failures)
            if self._ready or self._claims:
                self._wake.set()
            if self._is_transactional:
                await clock.sleep(max(started + ROUND_S - clock.monotonic(), 0))

    async def _wait_for_work(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(POSITIONS_EVERY_S if self._unsaved else None):
                await self._wake.wait()
        self._wake.clear()

    @property
    def _is_transactional(self) -> bool:
        return self._transactions.transactional_id is not None

    async def _begin_first(self) -> None:
        """What an older life left open holds up all that read the positions."""
        failures = 0
        while self._transactions.producer is None:
            failures += 1
            await self._begin_again(failures)

    async def _begin_again(self, failures: int) -> None:
        """What the failed round left open would keep readers of the target waiting."""
        clock = self._context.clock
        await self._unsaved.settle()
        await clock.sleep(backoff_s(failures, clock.random.random()))
        try:
            await self.begin()
        except (TransactionFailed, TopicUnavailable, ProducerFenced):
            self._context.refresh.set()  # each partition's start tries again, after its back-off

    def _next_entries(self) -> list[RoundEntry]:
        room = self._context.settings.append_bytes
        entries: list[RoundEntry] = []
        while self._ready and room > 0:
            partition, copy = next(iter(self._ready.items()))
            del self._ready[partition]
            if not copy.can_append:
                continue
            append = copy.next_append(room)
            if not append.records:  # markers and aborted batches: nothing to send
                self._acknowledge(copy, append)
                continue
            room -= append.size
            place = self._at_target(partition)
            batches = AppendBatches(
                place, append.data, append.base_offset, self._sequences.get(place, 0)
            )
            entries.append(RoundEntry(copy, append, batches))
        return entries

    async def _round(self, entries: list[RoundEntry], claims: Claims) -> None:
        await self.begin()
        for each in entries:  # a fresh epoch begins at 0
            each.batches.sequence = self._sequences.get(each.batches.partition, 0)
        partitions = [each.batches.partition for each in entries]
        await self._transactions.begin([*partitions, self._shared.position_partition])
        send = self._send_together if self._is_transactional else self._send_in_turn
        await send(entries, claims)
        await self._transactions.commit()
        self._on_committed([each for each in entries if each.is_sent], claims)
        if not all(each.is_sent for each in entries):
            raise TransactionFailed(MirrorState.STARTING, "a batch was refused")

    async def _send_together(self, entries: list[RoundEntry], claims: Claims) -> None:
        """Records and positions at once: the commit decides of both."""
        reached = {each.copy.partition: self._position(each) for each in entries}
        positions = self._position_batches({**reached, **_claimed(claims)})
        await self._send([*(each.batches for each in entries), positions])
        check_positions(positions)
        if not all(each.is_sent for each in entries):
            raise TransactionFailed(MirrorState.STARTING, "a batch of its transaction was refused")

    async def _send_in_turn(self, entries: list[RoundEntry], claims: Claims) -> None:
        """First the records; their positions when it is time, with claims at once."""
        await self._send([each.batches for each in entries])
        for each in entries:
            if each.is_sent or each.batches.target_end >= 0:
                self._unsaved.reach(each.copy.partition, self._position(each), each.append.size)
        if claims:
            await self._unsaved.save(_claimed(claims))
        else:
            await self._unsaved.save_when_due()

    async def _write_positions(self, positions: Positions) -> AppendBatches:
        batches = self._position_batches(positions)
        try:
            await self._send([batches])
        except TransactionFailed as failure:
            batches.on_failed(ErrorCode.UNKNOWN_SERVER_ERROR, failure.detail)
        return batches

    async def _send(self, work: list[AppendBatches]) -> None:
        producer = self._transactions.producer
        if producer is None:
            raise TransactionFailed(MirrorState.STARTING, "the producer has no epoch")
        await self._requests.send(work, producer, self._transactions.transactional_id)
        for each in work:
            self._sequences[each.partition] = each.sequence

    def _position(self, entry: RoundEntry) -> SourcePosition:
        partition = entry.copy.partition
        source_id, target_id = self._shared.topic_ids(partition)
        target_end = max(entry.batches.target_end, self._target_ends.get(partition, -1))
        return SourcePosition(entry.source_end, target_end, source_id, target_id)

    def _position_batches(self, positions: Positions) -> AppendBatches:
        source = self._context.clusters.source_cluster_id
        at_ms = now_ms()
        records = [
            Record(encode(PositionKey(source, *partition)), encode(position), (), at_ms)
            for partition, position in positions.items()
        ]
        topic = self._shared.position_partition
        return AppendBatches(
            topic, [memoryview(build_batch(records))], 0, self._sequences.get(topic, 0)
        )

    def _on_committed(self, entries: list[RoundEntry], claims: Claims) -> None:
        for each in entries:
            each.is_committed = True
            partition, end = each.copy.partition, each.batches.target_end
            self._target_ends[partition] = end
            self._shared.on_acknowledged(partition, each.batches.segments)
            if each.batches.rebuilt:
                self._shared.on_rebuilt(each.batches.rebuilt)
            self._acknowledge(each.copy, each.append)
        for _, done in claims.values():
            if not done.done():
                done.set_result(None)

    def _acknowledge(self, copy: PartitionCopy, append: PartitionAppend) -> None:
        if copy.is_current(append):
            copy.on_appended(append, NO_LOG_START)
            self._context.flow.on_room(copy)
            self.update(copy)

    def _on_failure(
        self, entries: list[RoundEntry], claims: Claims, state: MirrorState, detail: str
    ) -> None:
        self._transactions.producer = None
        for each in entries:
            if not each.is_committed and each.copy.is_current(each.append):
                failure = each.batches.failure
                reason = (state, detail) if failure is None else produce_state(*failure)
                self._context.flow.restart(each.copy, *reason)
        for _, done in claims.values():
            if not done.done():
                done.set_exception(TransactionFailed(state, detail))

    def _at_target(self, partition: TopicPartition) -> TopicPartition:
        return self._context.names.partition_at_target(partition)

    def _leader_of(self, partition: TopicPartition) -> int:
        if partition == self._shared.position_partition:
            return self._shared.position_leader()
        return self._leaders.get(partition, lambda: -1)()


def _claimed(claims: Claims) -> dict[TopicPartition, SourcePosition]:
    return {partition: position for partition, (position, _) in claims.items()}
