"""A fetched run of batches, seen through its headers. Pure.

In: the bytes of one partition in a Fetch response. Out: a `BatchRun` that refers to them.
Never: a copy, a checksum, a look inside the records; the target checks what it appends.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from bus.errors import ErrorCode
from bus.protocol.wire import Buffer
from bus.records.batch import (
    EPOCH_AT,
    EPOCH_END,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    RecordsError,
)

# base_offset, batch_length, leader epoch, magic, last_offset_delta, max_timestamp, records_count
_FIELDS = Struct(">qiib6xi8xq14xi")


class SplitBatch(RecordsError):
    """A batch of the source begins before the position and ends behind it."""


@dataclass(frozen=True, slots=True)
class BatchRun:
    """Whole batches of one partition, ascending. `data` holds exactly them; `end_offset` is
    exclusive; `max_timestamp` is the last batch's, `leader_epoch` the source's of the last one."""

    data: memoryview
    base_offset: int
    end_offset: int
    batches: int
    records: int
    max_timestamp: int
    leader_epoch: int


def batch_run(records: Buffer, position: int, high_watermark: int) -> BatchRun | None:
    """The whole batches from `position` on and below the high watermark; None: there is none.

    A torn batch at the end is left out, as the next fetch begins with it. Raises RecordsError for
    what is no batch, SplitBatch where the first one begins before `position`.
    """
    view = memoryview(records)
    size = len(view)
    unpack = _FIELDS.unpack_from
    at = begin = 0
    base_offset = -1
    batches = count = 0
    expected, max_timestamp, leader_epoch = position, -1, -1
    while at + HEADER_BYTES <= size:
        base, length, epoch, magic, delta, timestamp, records_count = unpack(view, at)
        end_of_batch = at + LENGTH_AND_OFFSET_BYTES + length
        if magic != MAGIC or length < HEADER_BYTES - LENGTH_AND_OFFSET_BYTES or delta < 0:
            raise RecordsError(
                ErrorCode.CORRUPT_MESSAGE, f"bytes at offset {expected} are no batch of format 2"
            )
        if end_of_batch > size or base + delta >= high_watermark:
            break
        if base < expected:
            if batches or base + delta >= position:
                raise SplitBatch(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"the source's batch {base}..{base + delta} begins before offset {expected}",
                )
            begin = at = end_of_batch
            continue
        if base_offset < 0:
            base_offset = base
        batches += 1
        count += records_count
        expected, max_timestamp, leader_epoch = base + delta + 1, timestamp, epoch
        at = end_of_batch
    if not batches:
        return None
    return BatchRun(
        view[begin:at], base_offset, expected, batches, count, max_timestamp, leader_epoch
    )


def is_same_batch(one: Buffer, other: Buffer) -> bool:
    """Whether the first batches of both buffers are equal but for the partition leader epoch.

    Raises RecordsError where either holds no whole batch.
    """
    first, second = first_batch(one), first_batch(other)
    return (
        first[:EPOCH_AT] == second[:EPOCH_AT] and first[EPOCH_END:] == second[EPOCH_END:]
    )


def first_batch(records: Buffer) -> memoryview:
    """The bytes of the first batch. Raises RecordsError."""
    view = memoryview(records)
    if len(view) >= HEADER_BYTES:
        size = LENGTH_AND_OFFSET_BYTES + int(_FIELDS.unpack_from(view, 0)[1])
        if HEADER_BYTES <= size <= len(view):
            return view[:size]
    raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes hold no whole batch")
