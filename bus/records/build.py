"""Building a record batch from records.

In: `Record`s. Out: one sealed batch as a bytearray, so that a log may still `assign` its offset.
Never: splitting into several batches; how much goes into one is the caller's decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from bus.errors import check
from bus.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    Buffer,
    seal,
)
from bus.records.compression import Compression, compress
from bus.records.record import IN_SEQUENCE, Record, RecordHeaders
from bus.records.varint import zigzag

_NULL = zigzag(-1)
_NO_HEADERS = zigzag(0)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    base_timestamp: int | None = None,
    compression: int = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    is_control: bool = False,
    is_transactional: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
) -> bytearray:
    """One batch of `records` (at least one, in offset order).

    `base_timestamp` defaults to the first record's. `last_offset_delta` is given by the cleaner
    only, whose batches keep their last offset after their last record is gone; with it `records`
    may be empty. `delete_horizon_ms` takes the place of the base timestamp, as in Kafka.
    """
    check(records or last_offset_delta is not None, "a batch of a producer holds a record")
    first_ms = records[0].timestamp_ms if base_timestamp is None and records else base_timestamp
    base_ms = (first_ms or 0) if delete_horizon_ms is None else delete_horizon_ms
    body, last_delta = _body(records, base_offset, base_ms)
    if compression:
        body = compress(compression, body)
    batch = bytearray(HEADER_BYTES + len(body))
    HEADER.pack_into(
        batch, 0,
        base_offset,
        len(batch) - LENGTH_AND_OFFSET_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,
        _attributes(compression, log_append_time_ms is not None, is_transactional, is_control,
                    delete_horizon_ms is not None),
        last_delta if last_offset_delta is None else last_offset_delta,
        base_ms,
        _max_timestamp(records, log_append_time_ms, first_ms),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )  # fmt: skip
    batch[HEADER_BYTES:] = body
    seal(batch, 0, len(batch))
    return batch


def _attributes(
    compression: int, by_broker: bool, transactional: bool, control: bool, horizon: bool
) -> int:
    return (
        compression
        | (LOG_APPEND_TIME if by_broker else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
        | (DELETE_HORIZON if horizon else 0)
    )


def _max_timestamp(
    records: Sequence[Record], log_append_time_ms: int | None, first_ms: int | None
) -> int:
    if log_append_time_ms is not None:
        return log_append_time_ms
    return max((record.timestamp_ms for record in records), default=first_ms or 0)


def _body(records: Sequence[Record], base_offset: int, base_ms: int) -> tuple[bytes, int]:
    chunks: list[Buffer] = []
    delta = -1
    for record in records:
        follows = record.offset == IN_SEQUENCE
        delta = delta + 1 if follows else record.offset - base_offset
        parts = _record(record, delta, base_ms)
        chunks.append(zigzag(sum(map(len, parts))))
        chunks += parts
    return b"".join(chunks), max(delta, 0)


def _record(record: Record, offset_delta: int, base_ms: int) -> list[Buffer]:
    parts: list[Buffer] = [
        b"\x00",  # attributes of a record: none are defined
        zigzag(record.timestamp_ms - base_ms),
        zigzag(offset_delta),
    ]
    _put(parts, record.key)
    _put(parts, record.value)
    _put_headers(parts, record.headers)
    return parts


def _put(parts: list[Buffer], value: Buffer | None) -> None:
    if value is None:
        parts.append(_NULL)
    else:
        parts.append(zigzag(len(value)))
        parts.append(value)


def _put_headers(parts: list[Buffer], headers: RecordHeaders) -> None:
    parts.append(zigzag(len(headers)) if headers else _NO_HEADERS)
    for name, value in headers:
        _put(parts, name.encode())
        _put(parts, value)
