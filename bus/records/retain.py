"""A stored batch with some of its records removed, as Apache Kafka's log cleaner rewrites it.

In: one whole batch, which of its records stay: ``retain`` asks of each, to ``rewritten`` a cleaner
that has looked at many batches at once says where they lie. Out: the same bytes where nothing
changes; else a batch with those records under the same offsets, last offset, leader epoch, codec,
timestamp type and producer fields, so that neither consumers nor producers notice; None where
nothing stays.
Never: a decision about what stays; a damaged batch under a new checksum. Raises RecordsError.

The delete horizon (KIP-534): from its first cleaning on a batch with tombstones says when they may
be removed. It takes the place of the base timestamp, so all timestamp deltas are written again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bus.errors import ErrorCode
from bus.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    RecordsError,
    check_shape,
    only_batch,
    seal,
)
from bus.records.compression import compress
from bus.records.read import check_end, record_at, unpacked
from bus.records.record import Record
from bus.records.varint import zagzig, zigzag

_LIMIT = 1 << 63


def retain(
    batch: Buffer,
    keep: Callable[[Record], bool],
    *,
    delete_horizon_ms: int,
    ends_empty_transaction: bool = False,
    keeps_empty: bool = False,
) -> Buffer | None:
    """The batch with the records that ``keep`` accepts.

    ``delete_horizon_ms`` is set where the batch has none yet and a tombstone stays, or the marker
    of a transaction without records (``ends_empty_transaction``). With ``keeps_empty`` a batch
    without records remains where none stays: a producer's last, whose sequence is needed.
    """
    header = only_batch(batch)
    body = unpacked(batch, header)
    retained, has_tombstone = _kept_of(header, body, keep)
    if not retained.times_ms:
        return emptied(header) if keeps_empty else None
    needs_horizon = header.delete_horizon_ms is None and (has_tombstone or ends_empty_transaction)
    if len(retained.times_ms) == header.records_count and not needs_horizon:
        return batch
    return rewritten(header, body, retained, delete_horizon_ms if needs_horizon else None)


class RetainedPositions(NamedTuple):
    """Where the records that stay lie in the unpacked bytes: from what follows their timestamps to
    their ends; and their timestamps. One entry a record each."""

    rests: Sequence[int]
    ends: Sequence[int]
    times_ms: Sequence[int]


def _kept_of(
    header: BatchHeader, body: bytes, keep: Callable[[Record], bool]
) -> tuple[RetainedPositions, bool]:
    """Which records stay, in 16 bytes each, however many there are; whether one is a tombstone."""
    rests, ends, times_ms = array("I"), array("I"), array("q")
    has_tombstone = False
    at, next_offset = 0, header.base_offset
    for _ in range(header.records_count):
        start = at
        record, at = record_at(header, body, at, len(body))
        if not next_offset <= record.offset <= header.last_offset:
            span = f"{next_offset}..{header.last_offset}"
            raise _invalid(f"offset {record.offset} is not in {span}")
        next_offset = record.offset + 1
        if keep(record):
            if not -_LIMIT <= record.timestamp_ms < _LIMIT:
                raise _invalid(f"a record's timestamp is {record.timestamp_ms}")
            rests.append(_rest_at(body, start))
            ends.append(at)
            times_ms.append(record.timestamp_ms)
            has_tombstone = has_tombstone or record.value is None
    check_end(body, at)
    return RetainedPositions(rests, ends, times_ms), has_tombstone


def _rest_at(body: bytes, start: int) -> int:
    """Where what follows a record's timestamp begins."""
    _, attributes_at = zagzig(body, start)
    return zagzig(body, attributes_at + 1)[1]


def rewritten(
    header: BatchHeader, body: Buffer, retained: RetainedPositions, new_horizon_ms: int | None
) -> bytearray:
    """A batch with those of its unpacked records that stay, at least one; ``new_horizon_ms``: its
    delete horizon from now on, None to leave it. The caller has checked the CRC of what it was."""
    horizon_ms = header.delete_horizon_ms if new_horizon_ms is None else new_horizon_ms
    base_ms = retained.times_ms[0] if horizon_ms is None else horizon_ms
    newest_ms = max(max(retained.times_ms), NO_TIMESTAMP)
    made = header._replace(
        attributes=header.attributes | (0 if horizon_ms is None else DELETE_HORIZON),
        base_timestamp=base_ms,
        max_timestamp=header.max_timestamp if header.is_log_append_time else newest_ms,
        records_count=len(retained.times_ms),
    )
    return _sealed(made, compress(header.compression, _timed(body, retained, base_ms)))


def _timed(body: Buffer, retained: RetainedPositions, base_ms: int) -> bytearray:
    """The records that stay, their timestamps counted from ``base_ms``. All that follows a record's
    timestamp stays as it is: its offset counts from the base offset, which does not change."""
    made = bytearray()
    view = memoryview(body)
    for rest, end, timestamp_ms in zip(*retained, strict=True):
        delta = _delta(timestamp_ms, base_ms)
        made += zigzag(1 + len(delta) + end - rest)
        made += b"\x00"  # attributes of a record: none are defined
        made += delta
        made += view[rest:end]
    return made


def _delta(timestamp_ms: int, base_ms: int) -> bytes:
    delta = timestamp_ms - base_ms
    if not -_LIMIT <= delta < _LIMIT:
        raise _invalid(f"a record's timestamp {timestamp_ms} is too far from {base_ms}")
    return zigzag(delta)


def emptied(header: BatchHeader) -> bytearray:
    """A batch without records, as Kafka writes it: neither codec nor horizon, no base timestamp,
    the newest timestamp as it was."""
    made = header._replace(
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )
    return _sealed(made, b"")


def _sealed(header: BatchHeader, body: Buffer) -> bytearray:
    header = header._replace(
        batch_length=HEADER_BYTES - LENGTH_AND_OFFSET_BYTES + len(body)
    )
    check_shape(header)  # packed at another level than the producer's, it may be too large
    batch = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(batch, 0, *header)
    batch[HEADER_BYTES:] = body
    seal(batch, 0, len(batch))
    return batch


def _invalid(detail: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, detail)
