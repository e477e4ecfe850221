"""Rarely needed checks of a produced batch: that it is one batch, and that its records are valid.

Raises ``LogError`` with Kafka's code and words. Not on the usual path: it is called when the header
check found something unusual, or where a setting demands that records are unpacked.
"""

from __future__ import annotations

from struct import Struct

from broker.config.views import TopicConfig
from broker.log.errors import LogError, NotOneBatch
from bus.errors import ErrorCode
from bus.records.batch import (
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    Buffer,
    RecordsError,
    header_at,
)
from bus.records.read import read_records
from bus.records.record import Record

_LENGTH = Struct(">i")
_LENGTH_AT = 8
_MAGIC_AT = 16
_MIN_LENGTH = 14
"""The overhead of the oldest record format; less is no length in any."""

SHOWN_ERRORS = 3
"""Records named in the message; the list of record errors has all of them."""

NO_KEY = "Compacted topic cannot accept message without key in topic partition {place}"
TIMESTAMP_OUT_OF_RANGE = (
    "Timestamp {timestamp} of message with offset {index} is out of range. "
    "The timestamp should be within [{earliest}, {latest}]"
)


def check_single_batch(records: Buffer) -> int:
    """The size of the one batch in ``records``, which no other whole batch follows."""
    size = _batch_at(records, 0)
    if not size:
        raise NotOneBatch(ErrorCode.INVALID_RECORD, f"{len(records)} bytes hold no whole batch")
    if records[_MAGIC_AT] != MAGIC:
        raise NotOneBatch(
            ErrorCode.INVALID_RECORD,
            f"message format {records[_MAGIC_AT]}; only format 2 is served (KIP-724)",
        )
    if _batch_at(records, size):
        raise NotOneBatch(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    if size < HEADER_BYTES:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {size} bytes")
    return size


def _batch_at(records: Buffer, at: int) -> int:
    """The size of the whole batch there, of any format; 0 if there is only a piece of one."""
    left = len(records) - at
    if left < LENGTH_AND_OFFSET_BYTES:
        return 0
    (length,) = _LENGTH.unpack_from(records, at + _LENGTH_AT)
    if length < _MIN_LENGTH:
        raise _corrupt(
            at, f"Record size {length} is less than the minimum record overhead ({_MIN_LENGTH})"
        )
    if left <= _MAGIC_AT:
        return 0
    magic = records[at + _MAGIC_AT]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        raise _corrupt(at, f"Invalid magic found in record: {signed}")
    size: int = length + LENGTH_AND_OFFSET_BYTES
    return size if size <= left else 0


def _corrupt(at: int, text: str) -> NotOneBatch:
    # Kafka checks the first batch before it handles partitions one by one, and only then says why.
    return NotOneBatch(ErrorCode.CORRUPT_MESSAGE, text, answer=None if at else text)


def validate_records(records: Buffer, config: TopicConfig, now_ms: int, place: str) -> None:
    """Unpack the batch that ``records`` begins with and check each record against the topic's
    rules."""
    out_of_range: list[tuple[int, str]] = []
    keyless: list[tuple[int, str]] = []
    for index, record in enumerate(_unpacked(records, config)):
        if config.compacted and record.key is None:
            keyless.append((index, NO_KEY.format(place=place)))
        elif not config.log_append_time and _is_timestamp_out_of_range(record, config, now_ms):
            out_of_range.append((index, _out_of_range_text(record, index, config, now_ms)))
    errors = tuple(sorted((*keyless, *out_of_range)))
    if out_of_range:
        text = "One or more records have been rejected due to invalid timestamp"
        raise LogError(ErrorCode.INVALID_TIMESTAMP, errors[0][1], errors, text)
    if keyless:
        raise LogError(ErrorCode.INVALID_RECORD, errors[0][1], errors, _rejected(errors))


def _unpacked(records: Buffer, config: TopicConfig) -> list[Record]:
    header = header_at(records)
    try:
        found = list(read_records(records, 0, config.max_decompressed_message_bytes))
    except RecordsError as error:
        # A record that breaks the format is the client's fault; what does not unpack at all ends
        # in Kafka as an unexpected error.
        is_client_error = error.code is ErrorCode.INVALID_RECORD
        code = error.code if is_client_error else ErrorCode.UNKNOWN_SERVER_ERROR
        raise LogError(code, error.detail) from error
    if any(record.offset != header.base_offset + at for at, record in enumerate(found)):
        raise LogError(ErrorCode.INVALID_RECORD, "the records' offsets are not consecutive")
    return found


def _is_timestamp_out_of_range(record: Record, config: TopicConfig, now_ms: int) -> bool:
    if record.timestamp_ms == NO_TIMESTAMP:
        return False
    early_ms = now_ms - record.timestamp_ms
    before_ms, after_ms = (
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )
    return early_ms > before_ms or -early_ms > after_ms


def _out_of_range_text(record: Record, index: int, config: TopicConfig, now_ms: int) -> str:
    return TIMESTAMP_OUT_OF_RANGE.format(
        timestamp=record.timestamp_ms,
        index=index,
        earliest=now_ms - config.message_timestamp_before_max_ms,
        latest=now_ms + config.message_timestamp_after_max_ms,
    )


def _rejected(errors: tuple[tuple[int, str], ...]) -> str:
    shown = ", ".join(
        f"RecordError(batchIndex={index}, message='{text}')"
        for index, text in errors[:SHOWN_ERRORS]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )
