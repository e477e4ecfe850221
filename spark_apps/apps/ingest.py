"""Ingest: data topics, quarantine, `meter.sent` and `meter.arrived` → store, in one transaction
each (I-4).

Turns a batch of messages into rows, rejections and counts, adds what senders say that they sent
and edges that they took, and publishes the touched cells on `meter.latency` and `meter.quality`.
No position is stored without its rows. It is the only application that writes the record store,
and counts here, because here each message is read once and its position is in the same
transaction. `store_batch` is pure.
Alone: `spark_apps/driver.py --application ingest`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.meters import CumulativeCount, LatencyCell
from bus.contracts.topics import DATA_TOPICS, METER_ARRIVED, METER_SENT, QUARANTINE_RECORDS
from bus.domain.times import MINUTE_MS, minute_of
from bus.wall_clock import now_ms
from ingest.normalise import clock_limits
from ingest.store.attempts import StagedStore
from ingest.store.port import RecordRow, RejectedRow, StoreBatch
from monitor.models.histogram import bucket_of
from monitor.models.quality import CellCounter
from spark_apps import executor_writer
from spark_apps.broadcast import VersionedBroadcast
from spark_apps.context import Context
from spark_apps.judge import (
    JUDGED_SCHEMA,
    JudgedBatch,
    JudgedRecord,
    judge_messages,
    judged_batch,
)
from spark_apps.message import OffsetRanges, StreamMessage, ends_of
from spark_apps.positions import positions
from spark_apps.retry import retry
from spark_apps.source import select_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FORMER_READER = "quality"
PUBLISHED_AGAIN_MS = 10 * MINUTE_MS
"""What quality and latency still judge; older cells were published, or nobody asks for them."""


class Ingest:
    """The one writer of the record store. Keeps nothing between batches but what it has not
    published yet."""

    name: str = "ingest"
    topics: tuple[str, ...] = (
        *DATA_TOPICS,
        QUARANTINE_RECORDS,
        METER_SENT,
        METER_ARRIVED,
    )
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms
        self._group = context.group_positions(self.name, self.topics)
        self._register = VersionedBroadcast(context.register.read, lambda: context.register.version)
        retry(self._publish_last_minutes, context.stopping, "store")

    def positions(self) -> dict[TopicAndPartition, int]:
        """The store's, written with the rows. In a store of an earlier version the counters were
        read by the quality application, under its own name."""
        stored = self._context.stored_positions
        counters = {p: end for p, end in stored(FORMER_READER).items() if p[0] == METER_SENT}
        return counters | stored(self.name)

    def transform(self, messages: DataFrame) -> DataFrame:
        """With headers."""
        return select_columns(messages, headers=True)

    def on_batch(self, messages: Sequence[StreamMessage], offsets: OffsetRanges) -> None:
        """Judge in this process; one transaction of the store."""
        site = self._context.settings.site
        register, clock = self._context.register.read(), clock_limits(site)
        self._apply(judge_messages(messages, register, site.zone, clock), offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Judge in the executors, and write there too if the store can be written in parts; else
        one transaction of the store."""
        context = self._context
        register = self._register.current(frame.sparkSession)
        if isinstance(context.store.reader, StagedStore):
            places = positions(self.name, context.cluster, offsets)
            with context.commit_seconds.labels(self.name).time():
                executor_writer.write_batch(context, frame, places, register, store_batch)
            self._group.publish(ends_of(offsets))
            return
        work = executor_writer.judging(register, context.settings.site)
        judged = frame.mapInArrow(work, JUDGED_SCHEMA)
        self._apply(judged_batch(judged.toArrow()), offsets)

    def _apply(self, judged: JudgedBatch, offsets: OffsetRanges) -> None:
        """Store; then the meters, of what is committed."""
        context = self._context
        batch = store_batch(judged.records, judged.counters)
        with context.commit_seconds.labels(self.name).time():
            places = positions(self.name, context.cluster, offsets)
            applied = context.store.writer.apply(batch, places)
        context.cells.touch(applied.latency, applied.quality)
        self._group.publish(ends_of(offsets))

    def _publish_last_minutes(self) -> None:
        """What the driver before committed and may not have published."""
        store = self._context.store.reader
        since_ms = now_ms() - PUBLISHED_AGAIN_MS
        attempt = store.newest_attempt()
        latency = store.latency_cells(from_ms=since_ms, until_ms=0)
        quality = store.quality(from_ms=since_ms, until_ms=0)
        self._context.cells.touch(
            [msgspec.structs.replace(cell, attempt=attempt) for cell in latency],
            [msgspec.structs.replace(cell, attempt=attempt) for cell in quality],
        )


def store_batch(
    judged: Iterable[JudgedRecord], counters: Sequence[CumulativeCount] = ()
) -> StoreBatch:
    """Rows, rejections, counts and counters of one batch."""
    rows: list[RecordRow] = []
    rejected: list[RejectedRow] = []
    counter = CellCounter()
    for kind, row in judged:
        cell = (kind, *row.quality_key[1:])
        if isinstance(row, RecordRow):
            rows.append(row)
            counter.valid(cell, partly_read=row.partly_read)
        else:
            rejected.append(row)
            counter.rejected(cell, row.reason)
    return StoreBatch(
        rows=rows,
        rejected=rejected,
        quality=counter.increments(),
        counters=counters,
        latency=latency_cells,
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
