"""When the active segment of a compacted log is closed although nobody appends much to it.

In: a log, the time. Out: whether to roll. Never: the roll of an append (``segment.should_roll``).
Only closed segments are cleaned: what an active one holds, every reader reads at every start.
"""

from __future__ import annotations

from broker.log.cleaner.log_summary import first_timestamp_ms
from broker.log.log import Log
from broker.log.segment import Segment

MOST_UNCLEANED_RECORDS = 20_000
"""Records of a coordinator's topic beyond its live keys before its active segment is closed: at 20
commits a second a quarter of an hour. A coordinator that loads reads no more than these for
nothing, whatever the age of the topic."""

QUIET_MS = 60_000
"""A log that was written to more recently is rolled by its appends, in its records' own time: old
records that are copied here would otherwise begin a segment at every look."""


def is_roll_due(partition: Log, now_ms: int, *, is_internal: bool) -> bool:
    """Whether to close the active segment. DiskError."""
    active = partition.active_segment
    if not (partition.config.compacted and active.size_bytes):
        return False
    if is_internal and _records(active) > partition.cleaning.live_records + MOST_UNCLEANED_RECORDS:
        return True
    return _age_ms(partition, active, now_ms) > partition.config.max_segment_ms and _is_quiet(
        partition, active, now_ms
    )


def _records(active: Segment) -> int:
    """At most so many: offsets have no holes where only this broker's coordinator writes."""
    return active.end_offset - active.base_offset


def _age_ms(partition: Log, active: Segment, now_ms: int) -> int:
    first_ms = first_timestamp_ms(active, partition)
    return now_ms - (first_ms if first_ms >= 0 else active.created_ms)


def _is_quiet(partition: Log, active: Segment, now_ms: int) -> bool:
    quiet_ms = min(QUIET_MS, partition.config.max_segment_ms)
    return now_ms - active.modified_ms >= quiet_ms
