"""A fetched run as a read_committed consumer sees it: no markers, no aborted batches. Pure.

In: the bytes of one partition in a Fetch response of isolation level 1, its aborted transactions.
Out: `BatchRun`s that refer to those bytes. Never: a batch at or above the last stable offset, one
whose CRC is wrong, or a look inside the records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from bus.errors import ErrorCode
from bus.protocol.wire import Buffer
from bus.records.batch import (
    CONTROL,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    TRANSACTIONAL,
    RecordsError,
    computed_crc,
)
from bus.records.control import ControlType, control_type
from bus.records.read import read_records
from dr_mirror.copy.plan.batches import BatchRun

READ_COMMITTED = 1

# base_offset, batch_length, leader epoch, magic, crc, attributes, last_offset_delta, max_timestamp,
# producer_id, records_count
_FIELDS = Struct(">qiibIhi8xqq6xi")
_NOT_PRODUCED = CONTROL | TRANSACTIONAL


@dataclass(slots=True)
class _AbortedProducers:
    """Which producers' transactional batches are aborted at the offset that is being walked over.

    Invariant: `_pending` is ascending from its end, so that the next one is popped.
    """

    pending: list[tuple[int, int]]
    current: set[int]

    def advance(self, last_offset: int) -> None:
        """Transactions that began at or before this offset count from here on."""
        while self.pending and self.pending[-1][0] <= last_offset:
            self.current.add(self.pending.pop()[1])


def committed_runs(
    records: Buffer,
    position: int,
    last_stable_offset: int,
    aborted: Iterable[tuple[int, int]],
) -> list[BatchRun]:
    """The batches to produce from `position` on, in runs that lie together; what a run leaves out
    lies between it and the next one, or is its end. Runs without a batch are empty and have their
    offsets all the same.

    `aborted`: (producer id, first offset) as the response names them. The first batch may begin
    before `position`: its records from there on count. Raises RecordsError.
    """
    view = memoryview(records)
    producers = _AbortedProducers(sorted(((at, who) for who, at in aborted), reverse=True), set())
    walk = _RunBuilder(view, position)
    at = 0
    while at + HEADER_BYTES <= len(view):
        base, length, epoch, magic, crc, attributes, delta, timestamp, producer_id, count = (
            _FIELDS.unpack_from(view, at)
        )
        size = LENGTH_AND_OFFSET_BYTES + length
        if magic != MAGIC or size < HEADER_BYTES or delta < 0 or count < 0:
            raise RecordsError(
                ErrorCode.CORRUPT_MESSAGE,
                f"bytes at offset {walk.end_offset} are no batch of format 2",
            )
        if at + size > len(view) or base + delta >= last_stable_offset:
            break
        end = base + delta + 1
        if end > walk.end_offset:
            _check(view, at, size, crc, base, walk)
            producers.advance(end - 1)
            is_kept = count > 0 and (
                not attributes & _NOT_PRODUCED
                or _is_committed(view, at, attributes, producer_id, producers)
            )
            walk.add(at, size, end, count if is_kept else 0, timestamp, epoch)
        at += size
    return walk.finish()


class _RunBuilder:
    """Invariant: what lies in view[_begin:_at] is whole batches that are kept."""

    def __init__(self, view: memoryview, position: int) -> None:
        self._view = view
        self._base = self.end_offset = position
        self._begin = self._at = 0
        self._batches = self._records = 0
        self._max_timestamp = self._epoch = -1
        self.runs: list[BatchRun] = []

    @property
    def is_first(self) -> bool:
        """Whether nothing has been added yet."""
        return not self.runs and not self._batches

    def add(self, at: int, size: int, end: int, count: int, timestamp: int, epoch: int) -> None:
        """One batch of view[at:at + size]; `count` 0: it is left out."""
        if count:
            if self._batches and self._at != at:
                self._close()
            if not self._batches:
                self._begin = at
            self._at = at + size
            self._batches += 1
            self._records += count
            self._max_timestamp = timestamp
        self.end_offset, self._epoch = end, epoch

    def finish(self) -> list[BatchRun]:
        """All of them; the last one ends where the next fetch begins."""
        if self.end_offset > self._base:
            self._close()
        return self.runs

    def _close(self) -> None:
        data = self._view[self._begin : self._at] if self._batches else self._view[:0]
        self.runs.append(
            BatchRun(
                data, self._base, self.end_offset, self._batches, self._records,
                self._max_timestamp, self._epoch,
            )
        )  # fmt: skip
        self._base = self.end_offset
        self._batches = self._records = 0


def _check(view: memoryview, at: int, size: int, crc: int, base: int, walk: _RunBuilder) -> None:
    """The CRC is computed anew for the target: one that is wrong must not become right by that."""
    if computed_crc(view, at, size) != crc:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"the CRC of the batch at {base} is wrong")
    if base < walk.end_offset and not walk.is_first:
        raise RecordsError(
            ErrorCode.CORRUPT_MESSAGE, f"the batch at {base} begins before {walk.end_offset}"
        )


def _is_committed(
    view: memoryview, at: int, attributes: int, producer_id: int, producers: _AbortedProducers
) -> bool:
    """Of a control batch: no, and an abort marker ends its producer's aborted transaction."""
    if attributes & CONTROL:
        if producer_id in producers.current and _is_abort(view, at):
            producers.current.discard(producer_id)
        return False
    return producer_id not in producers.current


def _is_abort(view: memoryview, at: int) -> bool:
    marker = next(iter(read_records(view, at)), None)
    return marker is not None and control_type(marker.key) is ControlType.ABORT
