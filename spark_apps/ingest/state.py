"""From the messages of one batch to what the store changes. Pure.

In: messages, the register, the site's zone. Out: `StoreBatch`. Never: I/O, a clock.
Counts of arrived, valid and rejected are made here, where every message is read once and its
position stands in the same transaction; what producers sent is added by the quality application.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bus.contracts.headers import Reason
from bus.contracts.meters import LatencyCell
from bus.contracts.register import Register
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, DATA_VIDEO
from ingest.normalise import ClockLimits, Envelope, normalise, rejected_row
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.store.port import RecordRow, RejectedRow, StoreBatch
from monitor.latency.histogram import bucket_of
from monitor.latency.model import minute_of
from monitor.quality.model import CellCounter
from spark_apps.message import Message

KIND_OF_TOPIC = {DATA_VEHICLE: "vehicle", DATA_FACE: "face", DATA_VIDEO: "video"}


def store_batch(
    messages: Iterable[Message],
    register: Register,
    zone: str,
    clock: ClockLimits = DEFAULT_CLOCK,
) -> StoreBatch:
    """Rows, rejections and counts of one batch."""
    rows: list[RecordRow] = []
    rejected: list[RejectedRow] = []
    counter = CellCounter()
    for message in messages:
        kind, row = _row(message, register, zone, clock)
        minute_ms = minute_of(_claimed_at_ms(row) or row.received_at_ms)
        cell = (kind, row.camera_ip, row.recognizer_ip, minute_ms)
        if isinstance(row, RecordRow):
            rows.append(row)
            counter.valid(cell, partly_read=row.partly_read)
        else:
            rejected.append(row)
            counter.rejected(cell, row.reason)
    return StoreBatch(
        rows=rows, rejected=rejected, quality=counter.increments(), latency=latency_cells
    )


def latency_cells(stored: Sequence[RecordRow]) -> list[LatencyCell]:
    """Stored − captured of the rows that were new (L-1); what was sent again from files is left
    out.
    """
    counted: dict[tuple[str, str, str, int], dict[int, int]] = {}
    for row in stored:
        if row.replayed:
            continue
        key = (row.kind, row.district_id, row.camera_ip, minute_of(row.stored_at_ms))
        buckets = counted.setdefault(key, {})
        bucket = bucket_of(row.stored_at_ms - row.claimed_at_ms)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    return [
        LatencyCell(kind=k, district_id=d, camera_ip=c, minute_ms=minute_ms, buckets=buckets)
        for (k, d, c, minute_ms), buckets in counted.items()
    ]


def envelope_of(message: Message, clock: ClockLimits = DEFAULT_CLOCK) -> Envelope:
    """What the bus knows of a message; the edge's arrival time where a header tells it."""
    received_at = message.received_at or ""
    return Envelope(
        received_at_ms=int(received_at) if _is_number(received_at) else message.timestamp_ms,
        record_id=message.record_id or "",
        source=message.source or "",
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        replayed=message.replay == "1",
        clock=clock,
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 15


def _claimed_at_ms(row: RecordRow | RejectedRow) -> int:
    """The time under which the sender counted the record, whatever its clock was worth."""
    return row.claimed_at_ms if isinstance(row, RecordRow) else row.captured_at_ms


def _row(
    message: Message, register: Register, zone: str, clock: ClockLimits
) -> tuple[str, RecordRow | RejectedRow]:
    envelope = envelope_of(message, clock)
    kind = KIND_OF_TOPIC.get(message.topic)
    if kind is not None:
        return kind, normalise(message.value, kind, envelope, register, zone)
    meant = message.kind or ""
    reason = message.reason or Reason.BAD_VALUE.value
    field = message.field or ""
    return meant, rejected_row(message.value, meant, envelope, reason, field, zone)
