"""Ingest: data topics and quarantine → store, positions in the same transaction (I-4).

Turns a batch of messages into rows, rejections and counts, and publishes the touched latency cells
on `meter.latency`. No position is stored without its rows. `store_batch` and what it calls is pure.
It counts arrived, valid and rejected records, because here each message is read once and its
position is in the same transaction; the quality application adds what producers sent.
Alone: `spark_apps/driver.py --application ingest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bus.contracts.headers import Reason
from bus.contracts.meters import LatencyCell
from bus.contracts.register import Register
from bus.contracts.topics import (
    DATA_TOPICS,
    METER_LATENCY,
    QUARANTINE_RECORDS,
)
from bus.domain.kinds import KIND_OF_TOPIC
from bus.domain.times import minute_of
from ingest.normalise import ClockLimits, clock_limits, normalise, rejected_row
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.store.port import RecordRow, RejectedRow, StoreBatch
from monitor.models.histogram import bucket_of
from monitor.models.quality import CellCounter
from spark_apps.context import Context
from spark_apps.message import OffsetRanges, StreamMessage, envelope_of
from spark_apps.positions import positions
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame



class Ingest:
    """Keeps nothing between batches."""

    name: str = "ingest"
    topics: tuple[str, ...] = (*DATA_TOPICS, QUARANTINE_RECORDS)
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return select_columns(messages, headers=True)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """One transaction of the store, then the meters (cumulative: a lost one heals by the
        next).
        """
        context = self._context
        site = context.settings.site
        register, clock = context.register.read(), clock_limits(site)
        batch = store_batch(messages, register, site.zone, clock)
        applied = context.store.apply(batch, positions(self.name, context.cluster, offsets))
        for cell in applied.latency:
            context.publisher.send(METER_LATENCY, f"{cell.kind}:{cell.minute_ms}", cell)


def store_batch(
    messages: Iterable[StreamMessage],
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



def _claimed_at_ms(row: RecordRow | RejectedRow) -> int:
    """The time under which the sender counted the record, even if its clock was wrong."""
    return row.claimed_at_ms if isinstance(row, RecordRow) else row.captured_at_ms


def _row(
    message: StreamMessage, register: Register, zone: str, clock: ClockLimits
) -> tuple[str, RecordRow | RejectedRow]:
    envelope = envelope_of(message, clock)
    kind = KIND_OF_TOPIC.get(message.topic)
    if kind is not None:
        return kind, normalise(message.value, kind, envelope, register, zone)
    meant = message.kind or ""
    reason = message.reason or Reason.BAD_VALUE.value
    field = message.field or ""
    return meant, rejected_row(message.value, meant, envelope, reason, field, zone)
