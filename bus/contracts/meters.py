"""Counter messages: what producers say they sent, and what latency and quality measured.

All are *cumulative within an epoch*, so that a lost message heals with the next one (design:
*counts*). In/out: frozen structs, JSON with English keys. Never: arithmetic over them (that is
`monitor`).
"""

from __future__ import annotations

import msgspec


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.sent`: the number of records one producer sent for one device and capture minute.

    `epoch` is the start of the producer's counting (epoch ms, grows at each start); `minute_ms` the
    capture minute by the producer's own clock; `sent` counts well-formed and garbled records alike.
    """

    producer: str
    epoch: int
    kind: str
    camera_ip: str
    minute_ms: int
    sent: int
    recognizer_ip: str = ""
    checkpoint_id: str = ""


class LatencyCell(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.latency`: a mergeable histogram of stored − captured for one class, device and store
    minute.

    `buckets` maps the bucket number of `monitor.latency.model` to a count; it is the whole cell,
    not a delta.
    """

    kind: str
    district_id: str
    camera_ip: str
    minute_ms: int
    buckets: dict[int, int]


class QualityCell(msgspec.Struct, frozen=True, kw_only=True):
    """`meter.quality`: counts of one class, device, server and capture minute, cumulative."""

    kind: str
    camera_ip: str
    recognizer_ip: str
    minute_ms: int
    sent: int
    arrived: int
    valid: int
    rejected: dict[str, int]
    partly_read: int = 0
