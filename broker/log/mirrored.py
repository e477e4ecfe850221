"""Appends to the log of a mirrored partition: batches of another cluster, as they are there.

In: whole batches with their own offsets, the log's end as the mirror knows it; the offset before
which the source has nothing any more. Out: what was appended, or a ``LogError`` and nothing has
changed. Of the bytes only the partition leader epoch
changes, which no CRC covers. The topic's timestamp type and bounds, ``max.message.bytes`` and
``compression.type`` do not apply: the source has judged by its own.
"""

from __future__ import annotations

from broker.config.key import MAX_LONG
from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.validation import AppendInfo, validate_batches, writable
from bus.errors import ErrorCode
from bus.records.batch import NO_TIMESTAMP, BatchHeader, Buffer, assign, header_at
from bus.records.build import build_batch

EMPTY_BATCH_OFFSETS = OFFSETS_PER_SEGMENT - 1
"""Offsets that one empty batch covers at most."""


def append_mirrored(
    log: Log, records: Buffer, *, base_offset: int, leader_epoch: int, now_ms: int
) -> AppendInfo:
    """Append batches of the source that follow on what the log has.

    ``base_offset`` must be the log's end; the first batch may begin beyond it, and later ones
    beyond the end of the one before: the source has nothing there. Raises LogError:
    OFFSET_OUT_OF_RANGE at another end, CORRUPT_MESSAGE for a damaged or incomplete batch,
    INVALID_RECORD for offsets that do not rise.
    """
    log.guard.check_not_blocked()
    if base_offset != log.end_offset:
        raise LogError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"the records follow on {base_offset}, the log ends at {log.end_offset}",
        )
    view = memoryview(writable(records))
    batches = validate_batches(view)
    _check_whole(view, batches)
    _check_offsets(base_offset, batches)
    for at, header in batches:
        assign(view, at, header.base_offset, leader_epoch)
    replaced = [(at, one._replace(partition_leader_epoch=leader_epoch)) for at, one in batches]
    return log.append_batches(view, replaced, now_ms)


def append_empty(log: Log, end_offset: int, *, leader_epoch: int, now_ms: int) -> AppendInfo:
    """Append one batch without records, as the cleaner leaves them, that ends at ``end_offset``,
    which lies beyond the log's end, or EMPTY_BATCH_OFFSETS beyond it."""
    log.guard.check_not_blocked()
    begin = log.end_offset
    batch = build_batch(
        (), base_offset=begin, base_timestamp=NO_TIMESTAMP, partition_leader_epoch=leader_epoch,
        last_offset_delta=min(end_offset - begin, EMPTY_BATCH_OFFSETS) - 1,
    )  # fmt: skip
    return log.append_batches(memoryview(batch), [(0, header_at(batch))], now_ms)


def _check_whole(view: memoryview, batches: list[tuple[int, BatchHeader]]) -> None:
    at, last = batches[-1]
    if at + last.size_bytes != len(view):
        raise LogError(ErrorCode.CORRUPT_MESSAGE, "the last batch is cut off")


def _check_offsets(base_offset: int, batches: list[tuple[int, BatchHeader]]) -> None:
    """Nothing else checks them: base offsets lie outside the CRC."""
    end = base_offset
    for _, header in batches:
        if header.base_offset < end or header.last_offset >= MAX_LONG:
            raise LogError(
                ErrorCode.INVALID_RECORD, f"offset {header.base_offset} cannot follow on {end}"
            )
        end = header.end_offset
    if end - batches[0][1].base_offset >= OFFSETS_PER_SEGMENT:
        raise LogError(
            ErrorCode.INVALID_RECORD,
            "the batches span more offsets than a segment can hold; send them one by one",
        )
