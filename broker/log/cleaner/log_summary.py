"""What the plan needs of a log, taken from the log as it is now.

In: a log, its configuration. Out: frozen summaries of plain values. Never: a decision; a batch read
that is not in memory (of the first one of each segment, whose time says how long it waits, and only
where a topic bounds that).
"""

from __future__ import annotations

from collections.abc import Generator

from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import WouldBlock
from broker.log.cleaner.model import (
    ActiveProducer,
    CleanerLimits,
    CleanerSettings,
    CompactedLog,
    SegmentSummary,
)
from broker.log.log import Log
from broker.log.producer_state import ProducerEntry
from broker.log.segment import Segment
from bus.records.batch import HEADER_BYTES, NO_TIMESTAMP, header_at

SEGMENTS_PER_SLICE = 100
"""Summarised before the loop serves others."""

_NO_LAG_MS = (1 << 63) - 1
"""Kafka's default of max.compaction.lag.ms: never due."""


def compacted_log(partition: Log) -> Generator[None, None, CompactedLog]:
    """A log, for the plan, in pieces between which other work may run: the segments that there were
    when it began. One that was replaced or cut off since makes a pass over them void, for its
    segments are none of the log's any more. DiskError."""
    all_segments = list(partition.segments.all)
    ends = [*(one.base_offset for one in all_segments[1:]), partition.end_offset]
    settings = settings_of(partition.config)
    is_timed = settings.max_compaction_lag_ms < _NO_LAG_MS
    generation = partition.cleaning.generation
    segments: list[SegmentSummary] = []
    for segment, end_offset in zip(all_segments, ends, strict=True):
        segments.append(_summary(segment, end_offset, partition, is_timed))
        if len(segments) % SEGMENTS_PER_SLICE == 0:
            yield
    return CompactedLog(
        directory=partition.directory,
        topic=partition.topic,
        index=partition.index,
        generation=generation,
        segments=tuple(segments),
        log_start_offset=partition.log_start_offset,
        high_watermark=partition.high_watermark,
        last_stable_offset=partition.last_stable_offset,
        recovery_point=partition.recovery_point,
        first_dirty_offset=first_dirty_offset(partition),
        settings=settings,
    )


def first_dirty_offset(partition: Log) -> int:
    """From where the log is dirty, within its bounds."""
    first = max(partition.cleaning.first_dirty_offset, partition.segments.first.base_offset)
    return min(first, partition.end_offset)


def oldest_dirty_ms(partition: Log) -> int:
    """The time of the first batch that no pass has read, as of its segment; -1 if there is none."""
    [segment, *_] = partition.segments.since(first_dirty_offset(partition))
    return first_timestamp_ms(segment, partition) if segment.size_bytes else NO_TIMESTAMP


def _summary(segment: Segment, end_offset: int, partition: Log, is_timed: bool) -> SegmentSummary:
    return SegmentSummary(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        size_bytes=segment.size_bytes,
        index_bytes=segment.offsets.size_bytes,
        time_index_bytes=segment.times.size_bytes,
        newest_timestamp_ms=segment.largest_timestamp_ms,
        first_timestamp_ms=first_timestamp_ms(segment, partition) if is_timed else NO_TIMESTAMP,
    )


def first_timestamp_ms(segment: Segment, partition: Log) -> int:
    """Of a segment's first batch, -1 where it has none or cannot be read now without waiting."""
    if segment.first_timestamp_ms < 0 and segment.size_bytes:
        try:
            with partition.non_blocking_reads():
                head = segment.read_bytes(0, HEADER_BYTES)
        except WouldBlock:
            return segment.max_timestamp_ms
        segment.first_timestamp_ms = header_at(head).max_timestamp
    return segment.first_timestamp_ms


def settings_of(config: TopicConfig) -> CleanerSettings:
    """What the cleaner follows of a topic's configuration."""
    return CleanerSettings(
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        delete_retention_ms=config.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        is_deleting=config.deletes,
    )


def limits_of(config: BrokerConfig) -> CleanerLimits:
    """What one pass may use: a worker's share of all."""
    workers = max(int(config["log.cleaner.threads"]), 1)
    return CleanerLimits(
        dedupe_buffer_bytes=int(config["log.cleaner.dedupe.buffer.size"]) // workers,
        load_factor=float(config["log.cleaner.io.buffer.load.factor"]),
        io_buffer_bytes=int(config["log.cleaner.io.buffer.size"]) // workers,
    )


def active_producer(entry: ProducerEntry) -> ActiveProducer:
    """A producer that the log knows."""
    offsets = tuple(one.last_offset for one in entry.batches)
    return ActiveProducer(entry.producer_id, entry.epoch, entry.last_offset, offsets[:-1])


