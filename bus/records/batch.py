"""The header view of record batches: where they lie in a buffer, what their headers say, the CRC.

In: any buffer. Out: `BatchHeader` tuples and offsets into that buffer.
Never: a copy of record bytes, a look inside the records. Of a batch that is already sealed only the
base offset and the partition leader epoch may be rewritten (`assign`); both lie outside the CRC.

Layout (61 bytes): base_offset i64, batch_length i32 (bytes after itself), partition_leader_epoch
i32, magic i8, crc u32 (CRC32C of everything after itself), attributes i16, last_offset_delta i32,
base_timestamp i64, max_timestamp i64, producer_id i64, producer_epoch i16, base_sequence i32,
records_count i32.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from bus.errors import BusError, ErrorCode
from bus.limits import MAX_BATCH_BYTES

Buffer = bytes | bytearray | memoryview

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_AND_OFFSET_BYTES = 12  # what batch_length does not count
MAGIC = 2
EPOCH_AT, EPOCH_END = 12, 16  # the partition leader epoch, which the CRC does not cover
CRC_FROM = 21  # the first byte the CRC covers

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

_ASSIGN_OFFSET = Struct(">q")
_ASSIGN_EPOCH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_MAX_TIMESTAMP = Struct(">q")
_CRC = Struct(">I")
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_SEQUENCE_MODULUS = 1 << 31


class RecordsError(BusError):
    """A batch or record that breaks the format; the only exception of this package's parsers."""


class BatchHeader(NamedTuple):
    """The fields of one header, as stored."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch, header and records."""
        return LENGTH_AND_OFFSET_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The offset after the batch, exclusive."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; wraps at 2^31 as in Kafka."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_MODULUS

    @property
    def compression(self) -> int:
        """The codec's number, see `bus.records.compression`."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether max_timestamp is the broker's time of append and overrides the records' own."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, which consumers skip."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones; then base_timestamp holds it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


_make = BatchHeader._make
_unpack = HEADER.unpack_from


def header_at(buf: Buffer, offset: int = 0) -> BatchHeader:
    """The header at `offset`. Raises RecordsError if the buffer ends before the header does."""
    try:
        return _make(_unpack(buf, offset))
    except StructError:
        raise RecordsError(
            ErrorCode.CORRUPT_MESSAGE, f"{len(buf) - offset} bytes are no batch header"
        ) from None


def iter_batches(
    buf: Buffer, offset: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader]]:
    """(offset, header) of every *whole* batch in buf[offset:end].

    A torn last batch is not yielded and is no error: where the next one would start is the last
    offset plus its `size_bytes`. A header that cannot be one (magic, length) raises RecordsError.
    """
    stop = len(buf) if end is None else end
    while offset + HEADER_BYTES <= stop:
        header = _make(_unpack(buf, offset))
        end_of_batch = offset + check_shape(header)
        if end_of_batch > stop:
            return
        yield offset, header
        offset = end_of_batch


def check_shape(header: BatchHeader) -> int:
    """Refuse what cannot be a v2 batch before its length is trusted; the total length."""
    size_bytes = LENGTH_AND_OFFSET_BYTES + header.batch_length
    if header.magic != MAGIC:
        code = (
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            if header.magic in (0, 1)
            else (ErrorCode.CORRUPT_MESSAGE)
        )
        raise RecordsError(code, f"magic {header.magic}, only record format 2 is served")
    if not HEADER_BYTES <= size_bytes <= MAX_BATCH_BYTES:
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, f"batch_length {header.batch_length}")
    if header.last_offset_delta < 0 or header.records_count < 0:
        raise RecordsError(
            ErrorCode.CORRUPT_MESSAGE,
            f"last_offset_delta {header.last_offset_delta}, records_count {header.records_count}",
        )
    return size_bytes


def computed_crc(buf: Buffer, offset: int, size_bytes: int) -> int:
    """CRC32C over what the CRC of a batch covers."""
    view = memoryview(buf)[offset + CRC_FROM : offset + size_bytes]
    return int(crc32c(view))


def crc_is_right(buf: Buffer, offset: int, header: BatchHeader) -> bool:
    """Whether the bytes of the whole batch at `offset` are those its producer sealed."""
    return computed_crc(buf, offset, header.size_bytes) == header.crc


def check_crc(buf: Buffer, offset: int = 0) -> BatchHeader:
    """The header at `offset`, once its batch is whole and its CRC is right; else RecordsError."""
    header = header_at(buf, offset)
    check_shape(header)
    if offset + header.size_bytes > len(buf):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "the batch is cut off")
    if not crc_is_right(buf, offset, header):
        raise RecordsError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    return header


def only_batch(buf: Buffer) -> BatchHeader:
    """The header of a buffer that must hold exactly one sound batch, as in a Produce request."""
    header = check_crc(buf)
    if header.size_bytes != len(buf):
        raise RecordsError(ErrorCode.INVALID_RECORD, "more than one batch for a partition")
    return header


def assign(
    buf: bytearray | memoryview, offset: int, base_offset: int, partition_leader_epoch: int
) -> None:
    """Write base offset and leader epoch into the batch at `offset`; the CRC stays right."""
    _ASSIGN_OFFSET.pack_into(buf, offset, base_offset)
    _ASSIGN_EPOCH.pack_into(buf, offset + EPOCH_AT, partition_leader_epoch)


def stamp_log_append_time(buf: bytearray | memoryview, offset: int, now_ms: int) -> None:
    """Time the batch by the broker (message.timestamp.type=LogAppendTime) and seal it again."""
    header = header_at(buf, offset)
    _ATTRIBUTES.pack_into(buf, offset + _ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buf, offset + _MAX_TIMESTAMP_AT, now_ms)
    seal(buf, offset, header.size_bytes)


def seal(buf: bytearray | memoryview, offset: int, size_bytes: int) -> None:
    """Write the CRC of a batch whose header or records were just written."""
    _CRC.pack_into(buf, offset + _CRC_AT, computed_crc(buf, offset, size_bytes))
