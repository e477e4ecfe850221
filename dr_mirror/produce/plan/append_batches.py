"""The batches of one partition on their way to an ordinary target, one in each request. Pure.

In: one append of a `PartitionCopy`, the answers. Out: the next batch, where the records are at the
target. Never: a batch in other bytes the second time; by its sequence the target knows it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from bus.client.model import TopicPartition
from bus.errors import ErrorCode
from bus.records.batch import iter_batches
from dr_mirror.produce.plan.offset_translation import OffsetSegment
from dr_mirror.produce.plan.produce_errors import SEND_AGAIN
from dr_mirror.produce.plan.rewrite import (
    BatchProducer,
    ProducedBatch,
    next_sequence,
    produced_batch,
)


class AppendBatches:
    """Invariant: `sent` are those without a good answer, oldest first; after a failure none follows
    until `rewind`. Everything of the source below `acknowledged` is at the target."""

    def __init__(
        self, partition: TopicPartition, data: Sequence[memoryview], from_offset: int, sequence: int
    ) -> None:
        """`sequence` is that of the partition's next record in this life of the producer."""
        self.partition = partition
        self.sequence = sequence
        self._from_offset = from_offset
        self._source = self._batches(data)
        self._again: deque[ProducedBatch] = deque()
        self.sent: deque[ProducedBatch] = deque()
        self.segments: list[OffsetSegment] = []
        self.acknowledged = from_offset
        self.target_end = -1
        self.rebuilt = 0
        self.failure: tuple[ErrorCode, str] | None = None

    @property
    def may_send_again(self) -> bool:
        """Whether what failed may succeed with the same batches."""
        return self.failure is not None and self.failure[0] in SEND_AGAIN

    def next_batch(self, producer: BatchProducer) -> ProducedBatch | None:
        """None: there is no more, or one failed. Raises RecordsError where one does not unpack."""
        if self.failure is not None:
            return None
        batch = self._again.popleft() if self._again else self._made(producer)
        if batch is not None:
            self.sent.append(batch)
        return batch

    def on_acknowledged(self, batch: ProducedBatch, target_offset: int) -> None:
        """`target_offset`: of its first record; -1 where the target only says that it has it."""
        self.sent.remove(batch)
        self.acknowledged = max(self.acknowledged, batch.end_offset)
        if target_offset >= 0:
            count = 1 if batch.is_rebuilt else batch.records
            self.segments.append(OffsetSegment(batch.first_offset, target_offset, count))
            self.target_end = max(self.target_end, target_offset + batch.records)

    def on_failed(self, code: ErrorCode, detail: str) -> None:
        """The first failure counts: those behind it follow from it."""
        if self.failure is None:
            self.failure = code, detail

    def rewind(self) -> None:
        """Send again all that has no good answer."""
        self.failure = None
        self._again = self.sent + self._again
        self.sent = deque()

    def _made(self, producer: BatchProducer) -> ProducedBatch | None:
        for view in self._source:
            batch = produced_batch(view, self._from_offset, producer, self.sequence)
            if batch is not None:
                self.sequence = next_sequence(self.sequence, batch.records)
                self.rebuilt += batch.is_rebuilt
                return batch
        return None

    @staticmethod
    def _batches(data: Sequence[memoryview]) -> Iterator[memoryview]:
        for view in data:
            for at, header in iter_batches(view):
                yield view[at : at + header.size_bytes]
