"""Counter messages: what producers say they sent, what edges took, what latency and quality
measured.

All are *cumulative within an epoch*, so that the next message makes up for a lost one.
In/out: frozen structs, JSON with English keys. Never: arithmetic over them (that is `monitor`).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

# What anybody may write is bounded where it is read: a number that a store cannot hold, or a name
# that makes no row key, would stop the application that counts, again after every start.
MAX_WHOLE = (1 << 53) - 1  # what every reader of JSON reads exactly
MAX_SENT = 1_000_000_000  # of one device in one minute; sums of it fit a store's 64 bits
MAX_NAME_CHARACTERS = 256
_Moment = Annotated[int, Meta(ge=-MAX_WHOLE, le=MAX_WHOLE)]
_Count = Annotated[int, Meta(ge=0, le=MAX_SENT)]
_Bucket = Annotated[int, Meta(ge=-2048, le=2047)]  # those of `monitor.models.histogram` fit well
_Name = Annotated[str, Meta(max_length=MAX_NAME_CHARACTERS)]


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.sent`: the number of records one producer sent for one device and capture minute.

    `epoch` is the start of the producer's counting (epoch ms, grows at each start); `minute_ms` the
    capture minute by the producer's own clock; `sent` counts well-formed and garbled records alike.
    """

    producer: _Name
    epoch: _Moment
    kind: _Name
    camera_ip: _Name
    minute_ms: _Moment
    sent: _Count
    recognizer_ip: _Name = ""
    checkpoint_id: _Name = ""

    adds_to: ClassVar[str] = "sent"
    """The number of a quality cell that it feeds."""

    @property
    def source(self) -> str:
        """Who counts."""
        return self.producer

    @property
    def count(self) -> int:
        """How many so far in this epoch."""
        return self.sent


class Arrived(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.arrived`: the number of records that one edge took from one device for one slot, made
    durable, and handed to the bus; `minute_ms` is the slot in which ingest counts them.

    `epoch` is that of a segment of the edge's spool (epoch ms of its making): the count is a
    function of the segment, so an edge that was killed counts it again and says the same.
    """

    edge: _Name
    epoch: _Moment
    kind: _Name
    camera_ip: _Name
    minute_ms: _Moment
    arrived: _Count
    recognizer_ip: _Name = ""

    adds_to: ClassVar[str] = "accepted"
    """The number of a quality cell that it feeds."""

    @property
    def source(self) -> str:
        """Who counts."""
        return self.edge

    @property
    def count(self) -> int:
        """How many so far in this epoch."""
        return self.arrived


CumulativeCount = Sent | Arrived
"""Cumulative in the epoch of its source: the largest counts."""


class LatencyCell(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.latency`: a mergeable histogram of stored − captured for one class, device and store
    minute.

    `buckets` maps the bucket number of `monitor.models.latency` to a count; it is the whole cell,
    not a delta. `attempt` is the number of the batch that changed it last; the highest wins.
    """

    kind: str
    district_id: str
    camera_ip: str
    minute_ms: _Moment
    buckets: dict[_Bucket, _Count]
    attempt: _Moment = 0


class QualityCell(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.quality`: counts of one class, device, server and capture minute, cumulative.

    `arrived` are the messages on the bus, `accepted` those of which edges say that they took them
    (0 for a device that writes to the bus by itself). `stored` are the valid records that were new;
    `duplicates` are those that the store has found there already. Each is counted by itself: that
    `valid` is `stored` and `duplicates` together is for the reader to see.
    `attempt` is the number of the batch that changed the cell last; the highest wins.
    """

    kind: _Name
    camera_ip: _Name
    recognizer_ip: _Name
    minute_ms: _Moment
    sent: _Count
    arrived: _Count
    valid: _Count
    rejected: dict[str, _Count]
    partly_read: _Count = 0
    stored: _Count = 0
    accepted: _Count = 0
    duplicates: _Count = 0
    attempt: _Moment = 0

    @property
    def missing(self) -> int:
        """Records that an edge has handed to the bus and that nobody has found there, or not yet.
        A message that came twice hides one; that happens when an edge was killed."""
        return max(0, self.accepted - self.arrived)
