"""Ingest: data topics and quarantine → store, positions in the same transaction (I-4).

Turns a batch of messages into rows, rejections and counts, and publishes the touched latency cells
on `meter.latency`. No position is stored without its rows. `store_batch` and what it calls is pure.
It counts arrived, valid and rejected records, because here each message is read once and its
position is in the same transaction; the quality application adds what producers sent.
Alone: `spark_apps/driver.py --application ingest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from bus.client.model import TopicAndPartition
from bus.contracts.meters import LatencyCell
from bus.contracts.topics import DATA_TOPICS, METER_LATENCY, QUARANTINE_RECORDS
from bus.domain.times import minute_of
from ingest.normalise import clock_limits
from ingest.store.port import RecordRow, RejectedRow, StoreBatch
from monitor.models.histogram import bucket_of
from monitor.models.quality import CellCounter
from spark_apps.broadcast import VersionedBroadcast
from spark_apps.context import Context
from spark_apps.judge import (
    JUDGED_SCHEMA,
    JudgedRecord,
    judge,
    judge_batches,
    judged_records,
)
from spark_apps.message import OffsetRanges, StreamMessage, ends_of
from spark_apps.positions import positions
from spark_apps.source import select_columns

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


class Ingest:
    """Keeps nothing between batches."""

    name: str = "ingest"
    topics: tuple[str, ...] = (*DATA_TOPICS, QUARANTINE_RECORDS)
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms
        self._group = context.group_positions(self.name, self.topics)
        self._register = VersionedBroadcast(context.register.read, lambda: context.register.version)

    def positions(self) -> dict[TopicAndPartition, int]:
        """The store's, written with the rows."""
        return self._context.stored_positions(self.name)

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return select_columns(messages, headers=True)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Judge in this process; one transaction of the store."""
        site = self._context.settings.site
        register, clock = self._context.register.read(), clock_limits(site)
        self._apply((judge(m, register, site.zone, clock) for m in messages), offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Judge in the executors; one transaction of the store."""
        site = self._context.settings.site
        zone, clock = site.zone, clock_limits(site)
        register = self._register.current(frame.sparkSession)

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return judge_batches(batches, register.value, zone, clock)

        judged = frame.mapInArrow(work, JUDGED_SCHEMA)
        self._apply(judged_records(judged.toArrow()), offsets)

    def _apply(self, judged: Iterable[JudgedRecord], offsets: OffsetRanges) -> None:
        """Store, then the meters (cumulative: a lost one heals by the next)."""
        context = self._context
        batch = store_batch(judged)
        applied = context.store.writer.apply(batch, positions(self.name, context.cluster, offsets))
        for cell in applied.latency:
            context.publisher.send(METER_LATENCY, f"{cell.kind}:{cell.minute_ms}", cell)
        self._group.publish(ends_of(offsets))


def store_batch(judged: Iterable[JudgedRecord]) -> StoreBatch:
    """Rows, rejections and counts of one batch."""
    rows: list[RecordRow] = []
    rejected: list[RejectedRow] = []
    counter = CellCounter()
    for kind, row in judged:
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
