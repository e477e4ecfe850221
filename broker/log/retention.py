"""Deletes old segments: by age, by size, below the log's start.

Segments are renamed to ``.deleted``, and the manager removes them later (a reader may still use
them). A segment that holds anything at or above the high watermark is kept, and age and size count
only in a log whose policy says "delete".
"""

from __future__ import annotations

import logging

from broker.disk.port import Disk
from broker.log.log import Log
from broker.log.segment import Segment

log = logging.getLogger("broker.log")


def delete_old_segments(partition: Log, disk: Disk, now_ms: int) -> list[str]:
    """Rename what retention allows; returns the paths to remove after file.delete.delay.ms."""
    count = max(_expired(partition, now_ms), _in_excess(partition), _below_start(partition))
    if not count:
        return []
    if count == len(partition.segments):
        partition.roll(now_ms)
        count = min(count, len(partition.segments) - 1)
    partition.advance_log_start_offset(
        max(partition.log_start_offset, partition.segments.all[count].base_offset)
    )
    partition.segments.withdraw_replacement(disk)
    partition.cleaning.on_shortened()
    paths = [
        path
        for segment in partition.segments.remove_first(count)
        for path in segment.mark_deleted()
    ]
    for offset in partition.snapshots.offsets[:-1]:
        if offset < partition.segments.first.base_offset:
            partition.snapshots.drop(offset)
    log.info("%s: %d segments deleted", partition.directory, count)
    return paths


def _deletable(partition: Log) -> list[Segment]:
    """Closed segments, and the active one if it holds anything, all below the high watermark."""
    segments = partition.segments.all
    return [s for s in segments if s.size_bytes and s.end_offset <= partition.high_watermark]


def _expired(partition: Log, now_ms: int) -> int:
    config = partition.config
    if not config.deletes or config.retention_ms < 0:
        return 0
    count = 0
    for segment in _deletable(partition):
        if now_ms - segment.largest_timestamp_ms <= config.retention_ms:
            break
        count += 1
    return count


def _in_excess(partition: Log) -> int:
    config = partition.config
    if not config.deletes or config.retention_bytes < 0:
        return 0
    count, excess = 0, partition.size_bytes - config.retention_bytes
    for segment in _deletable(partition):
        excess -= segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count


def _below_start(partition: Log) -> int:
    bases = [segment.base_offset for segment in partition.segments.all]
    return sum(1 for following in bases[1:] if following <= partition.log_start_offset)

