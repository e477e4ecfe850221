"""Validates batches before they are appended: a leader's before they get offsets, and a follower's.

In: the bytes of a produce request for one partition, or of a leader's answer. Out: the header of
its one batch, or of each, or a ``LogError`` with Kafka's code. Records are unpacked only by
``record_validation``: on a compacted topic (a record without key is refused), if the header's times
are too far from now, and if ``produce.records.validation.enable`` is set. The 61 bytes of the
header and the CRC suffice for the rest.
"""

from __future__ import annotations

from enum import Enum

from crc32c import crc32c

from broker.config.views import TopicConfig
from broker.log.errors import LogError
from broker.log.producer_state import BatchMetadata
from broker.log.record_validation import check_single_batch, validate_records
from bus.errors import ErrorCode
from bus.records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    CRC_FROM,
    HEADER,
    HEADER_BYTES,
    LENGTH_AND_OFFSET_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    RecordsError,
    crc_is_right,
    iter_batches,
)
from bus.records.compression import Compression
from bus.records.recompress import recompressed

_make = BatchHeader._make
_unpack = HEADER.unpack_from


class AppendOrigin(Enum):
    """Who appends. Only clients are not trusted; only they and coordinators get offsets here."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    RAFT_LEADER = "raft-leader"
    REPLICATION = "replication"


class AppendInfo:
    """The result of an append; ``last_offset`` is inclusive, a ``duplicate`` was not written."""

    __slots__ = (
        "base_offset",
        "duplicate",
        "last_offset",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "max_timestamp_ms",
        "records",
        "size_bytes",
    )

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        log_append_time_ms: int,
        log_start_offset: int,
        records: int,
        size_bytes: int,
        leader_epoch: int,
        duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp_ms = max_timestamp_ms
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.records = records
        self.size_bytes = size_bytes
        self.leader_epoch = leader_epoch
        self.duplicate = duplicate

    @classmethod
    def of_duplicate(
        cls, sent: BatchMetadata, log_start_offset: int, leader_epoch: int
    ) -> AppendInfo:
        """The answer to a batch that was appended before. As in Kafka, its largest timestamp is
        its time of append, with either timestamp type."""
        return cls(
            sent.base_offset, sent.last_offset, sent.timestamp_ms, sent.timestamp_ms,
            log_start_offset, 0, 0, leader_epoch, duplicate=True,
        )  # fmt: skip


def validate_batch(
    records: Buffer, config: TopicConfig, now_ms: int, origin: AppendOrigin, place: str = ""
) -> BatchHeader:
    """The header of the batch that ``records`` begins with; raises LogError if it is invalid.

    What follows the batch is no part of it: a piece of another, which Kafka drops as well.
    """
    size = len(records)
    if size < HEADER_BYTES:
        check_single_batch(records)
        raise LogError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are no record batch")
    header = _make(_unpack(records))
    if header.magic != MAGIC or header.batch_length + LENGTH_AND_OFFSET_BYTES != size:
        size = check_single_batch(records)
    if size > config.max_message_bytes and origin is not AppendOrigin.RAFT_LEADER:
        raise LogError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {size} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    if crc32c(memoryview(records)[CRC_FROM:size]) != header.crc:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, "the CRC does not match")
    if header.records_count != header.last_offset_delta + 1 or header.records_count < 1:
        raise LogError(
            ErrorCode.INVALID_RECORD,
            f"{header.records_count} records, last offset delta {header.last_offset_delta}",
        )
    if origin is AppendOrigin.CLIENT:
        _validate_client_batch(header, records, config, now_ms, place)
    elif config.compacted and not header.attributes & CONTROL:
        validate_records(records, config, now_ms, place)
    return header


_RARE = CONTROL | Compression.ZSTD.value
"""Attributes that need a further check: zstd's bit is also set in unknown codecs."""


def _validate_client_batch(
    header: BatchHeader, records: Buffer, config: TopicConfig, now_ms: int, place: str
) -> None:
    if header.attributes & _RARE:
        _check_attributes(header.attributes)
    if header.base_offset:
        raise LogError(
            ErrorCode.INVALID_RECORD, f"base offset {header.base_offset}, a client's is 0"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise LogError(ErrorCode.INVALID_RECORD, "a producer id without a sequence number")
    looks_inside = (
        config.compacted
        or config.validates_records
        or (config.codec >= 0 and _needs_recompression(header, config))
        or (config.bounds_unpacked and header.compression != 0)
    )
    if not (looks_inside or config.log_append_time):
        late, early = header.max_timestamp - now_ms, now_ms - header.base_timestamp
        looks_inside = late > config.message_timestamp_after_max_ms or (
            early > config.message_timestamp_before_max_ms
            and header.base_timestamp != NO_TIMESTAMP
        )
    if looks_inside:
        validate_records(records, config, now_ms, place)


def _check_attributes(attributes: int) -> None:
    if attributes & CONTROL:
        raise LogError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise LogError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no codec {attributes & COMPRESSION_MASK}")


def _needs_recompression(header: BatchHeader, config: TopicConfig) -> bool:
    return header.compression != config.codec


def to_topic_codec(records: Buffer, header: BatchHeader, config: TopicConfig) -> Buffer:
    """A checked batch of a client, packed as the topic's compression.type says."""
    if config.codec < 0 or not _needs_recompression(header, config):
        return records
    packed = recompressed(records, header, config.codec, config.codec_level)
    if len(packed) > config.max_message_bytes:
        raise LogError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {len(packed)} bytes in the topic's compression.type, max.message.bytes "
            f"is {config.max_message_bytes}",
        )
    return packed


def validate_batches(view: memoryview) -> list[tuple[int, BatchHeader]]:
    """Positions and headers of the whole batches in what a leader sent; LogError if one is not
    as its producer sealed it."""
    try:
        batches = list(iter_batches(view))
        for at, header in batches:
            if not crc_is_right(view, at, header):
                raise LogError(
                    ErrorCode.CORRUPT_MESSAGE, f"the batch at {header.base_offset} is damaged"
                )
    except RecordsError as error:
        raise LogError(error.code, error.detail) from error
    if not batches:
        raise LogError(ErrorCode.CORRUPT_MESSAGE, f"{len(view)} bytes hold no whole batch")
    return batches


def writable(records: bytes | bytearray | memoryview) -> bytearray | memoryview:
    """The buffer itself if it can be written to, else a copy."""
    if isinstance(records, bytearray):
        return records
    view = memoryview(records)
    return bytearray(view) if view.readonly else view
