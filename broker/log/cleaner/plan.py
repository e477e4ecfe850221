"""Which compacted log is cleaned next, up to where, and which of its segments become one. Pure.

In: what the broker knows of its logs, the time. Out: the pass to run. Never: an offset at or above
the active segment, the high watermark, the last stable offset, the recovery point (what is not
forced may be lost with the power, ADR 0082) or a record younger than ``min.compaction.lag.ms``.

As in Apache Kafka a segment is cleaned whole or not at all. Otherwise than there, a log that is
due by ``max.compaction.lag.ms`` comes before every dirtier one that is not, the one that waits for
longest first; and a segment that is dirty in part counts once, as dirty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker.log.batch_scanner import OFFSETS_PER_SEGMENT
from broker.log.cleaner.model import (
    ActiveProducer,
    CleanerLimits,
    CleanerSettings,
    CleaningPass,
    CompactedLog,
    SegmentSummary,
)
from bus.errors import check

MOST_SEGMENTS = 6
"""Of a group. Its swap renames four files of each on the loop, in one piece with the change in
memory: a tenth of a millisecond a segment. Many small ones become one in a few passes more."""


class DirtyLog(NamedTuple):
    """A log with what of it is dirty.

    Segments before ``end_offset`` may be cleaned; ``clean_bytes`` of them lie before the first
    dirty offset, ``cleanable_bytes`` after it. ``overdue_ms``: how much later than
    ``max.compaction.lag.ms`` asks this is, 0 if it is not.
    """

    log: CompactedLog
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int

    @property
    def ratio(self) -> float:
        """The dirty share of what may be cleaned or is clean; 0 for an empty log."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0

    @property
    def is_cleanable(self) -> bool:
        """Whether it is dirty enough, or for too long."""
        return self.cleanable_bytes > 0 and (
            self.overdue_ms > 0 or self.ratio > self.log.settings.min_cleanable_dirty_ratio
        )


def dirty_log(log: CompactedLog, now_ms: int) -> DirtyLog:
    """What of a log is dirty at this time."""
    end_offset = _end_offset(log, now_ms)
    clean_bytes = cleanable_bytes = 0
    for segment in log.segments[:-1]:
        if segment.end_offset <= log.first_dirty_offset:
            clean_bytes += segment.size_bytes
        elif segment.base_offset < end_offset:
            cleanable_bytes += segment.size_bytes
    return DirtyLog(log, end_offset, clean_bytes, cleanable_bytes, _overdue_ms(log, now_ms))


def next_log(found: Iterable[DirtyLog]) -> DirtyLog | None:
    """The log to clean next, None while none is dirty enough."""
    return max((one for one in found if one.is_cleanable), key=_urgency, default=None)


def _urgency(dirty: DirtyLog) -> tuple[int, float]:
    return dirty.overdue_ms, dirty.ratio


def cleaning_pass(
    dirty: DirtyLog, producers: Iterable[ActiveProducer], limits: CleanerLimits, now_ms: int
) -> CleaningPass:
    """The pass over a log. ``producers``: all that the log knows now, so that each keeps its last
    batch; those who come later write above ``end_offset``."""
    log, end_offset = dirty.log, dirty.end_offset
    check(bool(log.segments), "a log has an active segment")
    closed = [segment for segment in log.segments[:-1] if segment.base_offset < end_offset]
    return CleaningPass(
        directory=log.directory,
        topic=log.topic,
        index=log.index,
        generation=log.generation,
        first_dirty_offset=log.first_dirty_offset,
        end_offset=end_offset,
        groups=tuple(groups_of(closed, log.settings)),
        later_bases=tuple(s.base_offset for s in log.segments if s.base_offset >= end_offset),
        producers=tuple(one for one in producers if one.first_offset < end_offset),
        now_ms=max(now_ms, 0),
        delete_retention_ms=log.settings.delete_retention_ms,
        index_interval_bytes=log.settings.index_interval_bytes,
        limits=limits,
    )


def groups_of(
    segments: Sequence[SegmentSummary], settings: CleanerSettings
) -> Iterator[tuple[SegmentSummary, ...]]:
    """Neighbouring segments that fit into one, by the sizes they have before they are cleaned."""
    group: list[SegmentSummary] = []
    sizes = _GroupSizes()
    for segment in segments:
        larger = sizes.with_segment(segment)
        is_long = len(group) == MOST_SEGMENTS
        if group and (
            is_long or not larger.fit(settings, segment.end_offset - group[0].base_offset)
        ):
            yield tuple(group)
            group, larger = [], _GroupSizes().with_segment(segment)
        group.append(segment)
        sizes = larger
    if group:
        yield tuple(group)


class _GroupSizes(NamedTuple):
    """Sizes of a group's files."""

    log_bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0

    def with_segment(self, segment: SegmentSummary) -> _GroupSizes:
        return _GroupSizes(
            self.log_bytes + segment.size_bytes,
            self.index_bytes + segment.index_bytes,
            self.time_index_bytes + segment.time_index_bytes,
        )

    def fit(self, settings: CleanerSettings, offsets: int) -> bool:
        """Whether a segment may be so large and span so many offsets."""
        return (
            self.log_bytes <= settings.segment_bytes
            and max(self.index_bytes, self.time_index_bytes) <= settings.segment_index_bytes
            and offsets - 1 <= OFFSETS_PER_SEGMENT
        )


def groups_before(cleaning: CleaningPass, offset: int) -> Iterator[tuple[SegmentSummary, ...]]:
    """The pass's groups without the segments from ``offset`` on, of whose keys none is known."""
    for group in cleaning.groups:
        members = tuple(segment for segment in group if segment.base_offset < offset)
        if members:
            yield members


def _end_offset(log: CompactedLog, now_ms: int) -> int:
    """Where the first segment begins that may not be cleaned."""
    bound = min(
        log.segments[-1].base_offset,
        log.high_watermark,
        log.last_stable_offset,
        log.recovery_point,
        _lag_bound(log, now_ms),
    )
    ends = (segment.end_offset for segment in log.segments[:-1] if segment.end_offset <= bound)
    return max(ends, default=log.segments[0].base_offset)


def _lag_bound(log: CompactedLog, now_ms: int) -> int:
    lag_ms = log.settings.min_compaction_lag_ms
    young = (
        segment.base_offset
        for segment in log.segments[:-1]
        if segment.end_offset > log.first_dirty_offset
        and segment.newest_timestamp_ms > now_ms - lag_ms
    )
    end_offset = log.segments[-1].end_offset
    return next(young, end_offset) if lag_ms > 0 else end_offset


def _overdue_ms(log: CompactedLog, now_ms: int) -> int:
    """As Kafka measures it: by the oldest of the dirty closed segments' first batches."""
    dirty = (s for s in log.segments[:-1] if s.end_offset > log.first_dirty_offset)
    times = (segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms > 0)
    earliest_ms = min(times, default=None)
    if earliest_ms is None:
        return 0
    return max(now_ms - log.settings.max_compaction_lag_ms - earliest_ms, 0)
