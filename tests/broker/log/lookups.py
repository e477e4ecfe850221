"""Look-ups by time from their begin to their end, with what they wait for."""

from __future__ import annotations

from broker.disk.port import WouldBlock
from broker.log.log import Log
from broker.log.timestamps import LARGEST, SearchPending, TimestampOffset, TimestampSearch


def first_at_or_after(partition: Log, timestamp_ms: int) -> TimestampOffset | None:
    """The first record whose timestamp is not before ``timestamp_ms``."""
    search = TimestampSearch(partition, timestamp_ms)
    while True:
        try:
            return search.next_piece()
        except SearchPending:
            continue
        except WouldBlock as waiting:
            waiting.file.read(waiting.position, waiting.size)


def with_largest_timestamp(partition: Log) -> TimestampOffset | None:
    """The first record that has the largest timestamp."""
    return first_at_or_after(partition, LARGEST)
