"""What can still be read of a log that has rotted.

In: a log, an offset. Out: the sound batches of one segment, and the damage between them. Never on
the way of a fetch: the segment is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.log.audit import Damage, audit
from broker.log.log import Log
from broker.log.scan import Found


def salvage(log: Log, offset: int) -> Iterator[Found | Damage]:
    """From ``offset`` on, of the segment that holds it."""
    segment = log.segments.since(offset)[0]
    end_offset = segment_end(log, offset)
    for found in audit(
        segment.file, segment.size_bytes, segment.base_offset, end_offset=end_offset
    ):
        end = found.header.end_offset if isinstance(found, Found) else found.to_offset
        if end > offset or end < 0:
            yield found


def segment_end(log: Log, offset: int) -> int:
    """Where the segment ends that holds ``offset``."""
    rest = log.segments.since(offset)
    return rest[1].base_offset if len(rest) > 1 else log.end_offset
