"""A stored batch with some of its records removed, as Apache Kafka's log cleaner rewrites it.

In: one whole batch, which of its records stay. Out: the same bytes where nothing changes; else a
batch with those records under the same offsets, last offset, leader epoch, codec, timestamp type
and producer fields, so that neither consumers nor producers notice; None where nothing stays.
Never: a decision about what stays; a damaged batch under a new checksum. Raises RecordsError.

The delete horizon (KIP-534): from its first cleaning on a batch with tombstones says when they may
be removed. It takes the place of the base timestamp, so all timestamp deltas are written again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable

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
    kept = _RetainedPositions(header, body, keep)
    if not kept.times:
        return _sealed(_emptied(header), b"") if keeps_empty else None
    needs_horizon = header.delete_horizon_ms is None and (
        kept.has_tombstone or ends_empty_transaction
    )
    if len(kept.times) == header.records_count and not needs_horizon:
        return batch
    return _rewritten(header, body, kept, delete_horizon_ms if needs_horizon else None)


class _RetainedPositions:
    """Where the records that stay lie in the unpacked bytes, and their timestamps.

    Invariant: all three arrays have one entry a record: 16 bytes, however many there are.
    """

    def __init__(self, header: BatchHeader, body: bytes, keep: Callable[[Record], bool]) -> None:
        self.starts, self.ends, self.times = array("I"), array("I"), array("q")
        self.has_tombstone = False
        at, next_offset = 0, header.base_offset
        for _ in range(header.records_count):
            start = at
            record, at = record_at(header, body, at, len(body))
            if not next_offset <= record.offset <= header.last_offset:
                span = f"{next_offset}..{header.last_offset}"
                raise _invalid(f"offset {record.offset} is not in {span}")
            next_offset = record.offset + 1
            if keep(record):
                self._add(record, start, at)
        check_end(body, at)

    def _add(self, record: Record, start: int, end: int) -> None:
        if not -_LIMIT <= record.timestamp_ms < _LIMIT:
            raise _invalid(f"a record's timestamp is {record.timestamp_ms}")
        self.starts.append(start)
        self.ends.append(end)
        self.times.append(record.timestamp_ms)
        self.has_tombstone = self.has_tombstone or record.value is None


def _rewritten(
    header: BatchHeader, body: bytes, kept: _RetainedPositions, new_horizon_ms: int | None
) -> bytearray:
    horizon_ms = header.delete_horizon_ms if new_horizon_ms is None else new_horizon_ms
    base_ms = kept.times[0] if horizon_ms is None else horizon_ms
    newest_ms = max(max(kept.times), NO_TIMESTAMP)
    made = header._replace(
        attributes=header.attributes | (0 if horizon_ms is None else DELETE_HORIZON),
        base_timestamp=base_ms,
        max_timestamp=header.max_timestamp if header.is_log_append_time else newest_ms,
        records_count=len(kept.times),
    )
    return _sealed(made, compress(header.compression, _timed(body, kept, base_ms)))


def _timed(body: bytes, kept: _RetainedPositions, base_ms: int) -> bytearray:
    """The records that stay, their timestamps counted from ``base_ms``. All that follows a record's
    timestamp stays as it is: its offset counts from the base offset, which does not change."""
    made = bytearray()
    view = memoryview(body)
    for start, end, timestamp_ms in zip(kept.starts, kept.ends, kept.times, strict=True):
        _, attributes_at = zagzig(body, start)
        _, rest_at = zagzig(body, attributes_at + 1)
        delta = _delta(timestamp_ms, base_ms)
        made += zigzag(1 + len(delta) + end - rest_at)
        made += b"\x00"  # attributes of a record: none are defined
        made += delta
        made += view[rest_at:end]
    return made


def _delta(timestamp_ms: int, base_ms: int) -> bytes:
    delta = timestamp_ms - base_ms
    if not -_LIMIT <= delta < _LIMIT:
        raise _invalid(f"a record's timestamp {timestamp_ms} is too far from {base_ms}")
    return zigzag(delta)


def _emptied(header: BatchHeader) -> BatchHeader:
    """As Kafka writes it: neither codec nor horizon, no base timestamp, the newest timestamp as it
    was."""
    return header._replace(
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON),
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )


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
