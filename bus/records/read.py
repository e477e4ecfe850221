"""Reads the records of one batch, compressed or not.

In: a buffer that begins with a batch. Out: `Record`s with absolute offsets and timestamps.
Never on the hot path of produce, fetch or replication: there a batch stays bytes.
Raises RecordsError and nothing else, for any bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from bus.errors import ErrorCode
from bus.limits import MAX_DECOMPRESSED_BYTES, MAX_HEADERS_PER_RECORD, MAX_RECORDS_PER_BATCH
from bus.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    RecordsError,
    check_shape,
    header_at,
    iter_batches,
)
from bus.records.compression import decompress
from bus.records.record import Record
from bus.records.varint import zagzig


def read_records(
    batch: Buffer, offset: int = 0, max_unpacked_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of the batch at `offset`. The CRC is not checked here (`batch.check_crc`).

    A record of a compressed batch may have at most `max_unpacked_bytes`.
    """
    header = header_at(batch, offset)
    check_shape(header)
    if offset + header.size_bytes > len(batch):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "the batch is cut off")
    body = unpacked(batch, header, offset)
    return _records(header, body, max_unpacked_bytes if header.compression else len(body))


def unpacked(batch: Buffer, header: BatchHeader, offset: int = 0) -> bytes:
    """The bytes of the records of the whole batch at `offset`."""
    if header.records_count > MAX_RECORDS_PER_BATCH:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"{header.records_count} records")
    packed = memoryview(batch)[offset + HEADER_BYTES : offset + header.size_bytes]
    return decompress(header.compression, packed)


def read_all(buf: Buffer) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record of every whole batch in `buf`, with the header of its batch."""
    for offset, header in iter_batches(buf):
        for record in read_records(buf, offset):
            yield header, record


def _records(header: BatchHeader, body: bytes, most: int) -> Iterator[Record]:
    at = 0
    for _ in range(header.records_count):
        record, at = record_at(header, body, at, most)
        yield record
    check_end(body, at)


def check_end(body: bytes, at: int) -> None:
    """Refuse a batch with more bytes than its records have."""
    if at != len(body):
        raise _malformed(f"{len(body) - at} bytes after the last record")


def record_at(header: BatchHeader, body: bytes, at: int, most: int) -> tuple[Record, int]:
    """The record of at most `most` bytes at a position of the unpacked bytes, and its end."""
    try:
        length, at = zagzig(body, at)
        if length > most:
            raise _malformed(f"a record of {length} bytes, more than the {most} allowed")
        end = at + length
        if length < 0 or end > len(body):
            raise _malformed(f"a record of {length} bytes")
        time_delta, at = zagzig(body, at + 1)
        offset_delta, at = zagzig(body, at)
        key, at = _bytes(body, at, end)
        value, at = _bytes(body, at, end)
        headers, at = _headers(body, at, end)
    except IndexError:
        raise _malformed("a record is cut off") from None
    if at != end:
        raise _malformed("a record does not end where it says")
    own_ms = header.base_timestamp + time_delta
    timestamp_ms = header.max_timestamp if header.is_log_append_time else own_ms
    return Record(key, value, headers, timestamp_ms, header.base_offset + offset_delta), end


def _bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = zagzig(body, at)
    if length < 0:
        return None, at
    stop = at + length
    if stop > end:
        raise _malformed(f"a field of {length} bytes")
    return body[at:stop], stop


def _headers(body: bytes, at: int, end: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, at = zagzig(body, at)
    if not 0 <= count <= MAX_HEADERS_PER_RECORD:
        raise _malformed(f"{count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _bytes(body, at, end)
        value, at = _bytes(body, at, end)
        headers.append((_header_name(name), value))
    return headers, at


def _header_name(name: bytes | None) -> str:
    if name is None:
        raise _malformed("a header without a name")
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise _malformed("a header's name is no UTF-8") from None


def _malformed(detail: str) -> RecordsError:
    return RecordsError(ErrorCode.INVALID_RECORD, detail)
