"""When a segment is full: by size, by age, by its indexes. Pure."""

from __future__ import annotations

from broker.config.views import TopicConfig
from broker.log.scan import OFFSETS_PER_SEGMENT
from broker.log.segment import Segment


def must_roll(
    segment: Segment,
    config: TopicConfig,
    jitter_ms: int,
    size: int,
    timestamp_ms: int,
    last_offset: int,
    now_ms: int,
) -> bool:
    """Whether ``size`` bytes ending at ``last_offset`` belong into a new segment."""
    if not segment.size_bytes:
        return last_offset - segment.base_offset >= OFFSETS_PER_SEGMENT
    return (
        segment.size_bytes + size > config.segment_bytes
        or _age_ms(segment, timestamp_ms, now_ms) > config.segment_ms - jitter_ms
        or segment.index_bytes > config.segment_index_bytes
        or last_offset - segment.base_offset >= OFFSETS_PER_SEGMENT
    )


def _age_ms(segment: Segment, timestamp_ms: int, now_ms: int) -> int:
    """Measured in the records' own time where they have one, as Kafka does."""
    if segment.first_timestamp_ms >= 0 and timestamp_ms >= 0:
        return timestamp_ms - segment.first_timestamp_ms
    return now_ms - segment.created_ms
