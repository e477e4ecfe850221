"""Reads a partition of a coordinator's topic: the newest record of each key.

In: a partition. Out: decoded records, forms of one key in their order; of transactions that were
open then, what they have committed since. Never: a step on the loop of more than some milliseconds;
a hole taken for damage. The segments are walked by position: read by offset, one wrong base offset
could make a whole segment look as if it had been cleaned.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import AsyncIterator
from typing import Generic

from broker.clock.port import Clock
from broker.coordinator.newest_records import (
    AppliedBatches,
    NewestRecords,
    StoredBatch,
    records_of,
    stored_batches,
)
from broker.coordinator.open_transactions import OpenTransactions
from broker.coordinator.topic import CoordinatorTopic, RecordT
from broker.disk.port import WouldBlock
from broker.log.audit import audit_from
from broker.log.batch_scanner import ScannedBatch
from broker.log.errors import LogError, is_corruption
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from bus.records.batch import RecordsError
from bus.records.key_values import NewestValues, add_newest

log = logging.getLogger("broker.coordinator")

PIECE_BYTES = 32 * 1024
"""Read at once: some 200 commits."""

DECODED_PER_PIECE = 100
"""Records decoded and replayed between two moments at which other work may run."""

BATCHES_PER_PIECE = 256
"""Batches checked at once where a damaged segment is read batch by batch."""


class PartitionReader(Generic[RecordT]):
    """Reads partitions of one coordinator's topic."""

    def __init__(
        self, replicas: ReplicaManager, clock: Clock, topic: CoordinatorTopic[RecordT]
    ) -> None:
        self._replicas = replicas
        self._clock = clock
        self._topic = topic

    async def read_newest(
        self, partition: Partition, transactions: OpenTransactions
    ) -> AsyncIterator[RecordT]:
        """Each key's newest record, tombstones among them; nothing may be appended meanwhile but
        markers. What is in open transactions is put into ``transactions``.

        Damaged batches are logged and left out: the rest is still worth serving. Raises LogError
        if the disk cannot be read.
        """
        stored = partition.log
        offset, end_offset = stored.log_start_offset, stored.end_offset
        transactions.end_offset = end_offset
        aborted = stored.aborted_transactions(offset, end_offset)
        newest = NewestRecords(AppliedBatches(aborted, stored.producers), transactions)
        while offset < end_offset:
            offset = await self._read_segment(partition, offset, newest)
        for number, (key, value) in enumerate(newest.drain()):
            if number % DECODED_PER_PIECE == 0:
                gc.collect(0)  # of these few; fifty thousand at once would hold the loop for long
                await self._clock.sleep(0)
            record = self._decoded(key, value)
            if record is not None:
                yield record

    async def read_on(self, partition: Partition, transactions: OpenTransactions) -> None:
        """Bring ``transactions`` up to the high watermark as it is when this returns. Raises
        LogError or RecordsError if what follows cannot be read."""
        while transactions.end_offset < partition.high_watermark:
            offset, limit = transactions.end_offset, partition.high_watermark
            try:
                data = bytes(
                    partition.log.read(offset, PIECE_BYTES, upper_offset=limit, waits=False).data
                )
            except WouldBlock as waiting:
                await self._replicas.until_read(waiting)
                continue
            for batch in stored_batches(data, offset, limit):
                transactions.on_batch(batch[2], batch[4], batch[5], _written(data, batch))
                transactions.end_offset = batch[3]
            await self._clock.sleep(0)

    def decoded(self, pairs: list[tuple[bytes, bytes | None]]) -> list[RecordT]:
        """Those of them that can be decoded."""
        records = (self._decoded(key, value) for key, value in pairs)
        return [record for record in records if record is not None]

    async def _read_segment(
        self, partition: Partition, offset: int, newest: NewestRecords
    ) -> int:
        """Take the segment that holds ``offset``, from there on; where it ends. It may be rolled
        or replaced meanwhile: the files that were found are read to their end."""
        stored = partition.log
        segment, *later = stored.segments.since(offset)

        def end_offset() -> int:
            if later:
                return later[0].base_offset
            is_active = segment is stored.active_segment
            return stored.end_offset if is_active else segment.end_offset

        position, floor = 0, segment.base_offset
        while position < segment.size_bytes:
            try:
                data = bytes(partition.read_segment(segment, position, PIECE_BYTES))
                batches = stored_batches(data, floor, end_offset())
                for _ in newest.add(data, batches, offset):
                    await self._clock.sleep(0)
            except WouldBlock as waiting:
                await self._replicas.until_read(waiting)
                continue
            except (RecordsError, LogError) as error:
                if isinstance(error, LogError) and not is_corruption(error):
                    raise
                await self._read_damaged(partition, offset, newest)
                break
            position, floor = position + len(data), batches[-1][3]
            await self._clock.sleep(0)
        return end_offset()

    async def _read_damaged(
        self, partition: Partition, offset: int, newest: NewestRecords
    ) -> None:
        """Take what is readable of a damaged segment from ``offset`` on, which may repeat what was
        taken already."""
        for number, found in enumerate(audit_from(partition.log, offset)):
            if number % BATCHES_PER_PIECE == 0:
                await self._clock.sleep(0)
            fault = str(found)
            if isinstance(found, ScannedBatch):
                try:
                    data, header = bytes(found.data), found.header
                    batches = stored_batches(data, header.base_offset, header.end_offset)
                    for _ in newest.add(data, batches, offset):
                        await self._clock.sleep(0)
                    continue
                except RecordsError as error:
                    fault = f"offsets {found.header.base_offset} to {found.header.last_offset}: "
                    fault += str(error)
            log.error(
                "%s is damaged; %s: %s", partition.log.directory, self._topic.loss, fault
            )

    def _decoded(self, key: bytes, value: bytes | None) -> RecordT | None:
        try:
            return self._topic.decode(key, value)
        except Exception as error:  # bytes of a later version, or of a foreign producer
            log.error("%s: the newest record of key %r is left out: %r",
                      self._topic.name, key[:100], error)  # fmt: skip
            return None


def _written(data: bytes, batch: StoredBatch) -> NewestValues:
    written: NewestValues = {}
    add_newest(written, *records_of(data, batch), batch[-1])
    return written
