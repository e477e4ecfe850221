"""What the parts of the cleaner hand each other: the plan, its pass, its results.

In: nothing. Out: frozen structs of plain values, and their JSON, for a pass runs in another
process. Never: a segment, a file, a handle. What is read of a pipe is checked field by field;
``CleanerMessageError`` is the only error of that.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
Offset = Annotated[int, Meta(ge=0)]
Message = TypeVar("Message", bound=Struct)

NO_OFFSET = -1


class CleanerMessageError(ValueError):
    """These bytes are not the struct that was expected."""


class SegmentSummary(Struct, frozen=True, forbid_unknown_fields=True):
    """One segment as the broker knows it: the offsets [base_offset, end_offset).

    ``end_offset`` is the next segment's base, the log's end for the active one. ``index_bytes`` and
    ``time_index_bytes`` are the sizes of its index files. ``newest_timestamp_ms`` is its largest
    timestamp, or when it was written if its records carry none; ``first_timestamp_ms`` its first
    batch's largest one (Kafka measures a segment's age by that), -1 where it has none.
    """

    base_offset: Offset
    end_offset: Offset
    size_bytes: Count
    index_bytes: Count
    time_index_bytes: Count
    newest_timestamp_ms: int
    first_timestamp_ms: int


class CleanerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a topic that the cleaner follows; ``is_deleting``: its policy has delete as
    well."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: Count
    max_compaction_lag_ms: Count
    delete_retention_ms: Count
    segment_bytes: Count
    segment_index_bytes: Count
    index_interval_bytes: Count
    is_deleting: bool


class CompactedLog(Struct, frozen=True, forbid_unknown_fields=True):
    """All that the plan needs of one partition.

    The last of ``segments`` is the active one. ``first_dirty_offset`` is the checkpoint's, clamped
    to the log. ``generation`` changes whenever the log is shortened or replaced: results of an
    older one are void.
    """

    directory: str
    topic: str
    index: Count
    generation: Count
    segments: tuple[SegmentSummary, ...]
    log_start_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    recovery_point: Offset
    first_dirty_offset: Offset
    settings: CleanerSettings


class ActiveProducer(Struct, frozen=True, forbid_unknown_fields=True):
    """A producer that the log knows: its epoch and the last offset of its newest batch of data,
    -1 if only a marker of it is known. ``older_data_offsets``: of the batches before it that it may
    send again, when it has not heard of their acknowledgement. Apache Kafka knows of the newest
    only after a restart; here they are read from the log, and so must stay."""

    producer_id: int
    epoch: int
    last_data_offset: int
    older_data_offsets: tuple[Offset, ...] = ()

    @property
    def first_offset(self) -> int:
        """Of these offsets the lowest."""
        return min(self.older_data_offsets, default=self.last_data_offset)


class CleanerLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """What a pass may use: memory for its keys (and how full it may become), for reading and
    writing."""

    dedupe_buffer_bytes: Count
    load_factor: float
    io_buffer_bytes: Count


class CleaningPass(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """One pass over one partition, all that it needs.

    Keys are collected from [first_dirty_offset, end_offset) and ``groups`` cleaned, each into one
    segment; ``end_offset`` is a segment's base, nothing at or above it may be touched.
    ``later_bases`` are the segments from there on, whose ``.txnindex`` may end transactions of
    before. Tombstones and markers get the horizon ``now_ms + delete_retention_ms``, those whose
    horizon is not after ``now_ms`` go.
    """

    directory: str
    topic: str
    index: Count
    generation: Count
    first_dirty_offset: Offset
    end_offset: Offset
    groups: tuple[tuple[SegmentSummary, ...], ...]
    later_bases: tuple[Offset, ...]
    producers: tuple[ActiveProducer, ...]
    now_ms: Count
    delete_retention_ms: Count
    index_interval_bytes: Count
    limits: CleanerLimits


class CleanedGroup(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """A group's ``.cleaned`` files are written and forced: they stand for [base_offset, end_offset)
    of the segments that begin at ``bases``.

    ``is_changed``: false where they hold the same bytes as the one segment they stand for, which
    then need not be replaced. ``copied_whole``: batches that do not unpack and were copied as they
    are.
    """

    generation: Count
    base_offset: Offset
    end_offset: Offset
    bases: tuple[Offset, ...]
    is_changed: bool
    bytes_read: Count
    bytes_kept: Count
    records_read: Count
    records_kept: Count
    copied_whole: Count


class PassResult(Struct, frozen=True, forbid_unknown_fields=True, tag=True):
    """The end of a pass: from where the log is dirty now.

    ``next_dirty_offset`` is below the pass's end where the map was full. ``keys`` of at most
    ``max_keys`` were in the map. ``uncleanable`` says why the partition cannot be cleaned (damage),
    empty if it could: the groups reported before it stay valid, and nothing else of it does.
    """

    generation: Count
    next_dirty_offset: Offset
    keys: Count
    max_keys: Count
    map_bytes_read: Count
    uncleanable: str = ""


def to_json(message: Struct) -> bytes:
    """One line of JSON, without its line's end."""
    return msgspec.json.encode(message)


def from_json(line: bytes, kind: type[Message]) -> Message:
    """The struct in a line; CleanerMessageError if it is any other."""
    message: Message = _decoded(line, kind)
    return message


def report_from_json(line: bytes) -> CleanedGroup | PassResult:
    """What a pass reports: a group, or its end."""
    report: CleanedGroup | PassResult = _decoded(line, CleanedGroup | PassResult)
    return report


def _decoded(line: bytes, kind: object) -> Any:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CleanerMessageError(str(error)) from None
