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

import logging
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from bus.client.model import TopicAndPartition
from bus.contracts.headers import Reason
from bus.contracts.meters import CumulativeCount, LatencyCell
from bus.contracts.topics import INGESTED_TOPICS, METER_SENT
from bus.domain.times import MINUTE_MS, minute_of
from bus.runtime import wall_clock
from ingest.normalise import ClockEstimates, ClockLimits, clock_limits
from ingest.normalise.clock import at_minute
from ingest.store.attempts import StagedStore
from ingest.store.hbase.ledger import Ledger
from ingest.store.port import RecordRow, RejectedRow, StoreBatch
from monitor.models.histogram import bucket_of
from monitor.models.quality import CellCounter
from spark_apps.batches.committed_batch import of_store_batch
from spark_apps.batches.message import OffsetRanges, StreamMessage, ends_of
from spark_apps.queries.context import Context
from spark_apps.queries.executor_batch import write_batch
from spark_apps.session.job_failures import JobFailed
from spark_apps.session.retry import retry, retry_job
from spark_apps.source.kafka_source import select_columns
from spark_apps.source.positions import positions
from spark_apps.tasks import executor_writer
from spark_apps.tasks.broadcast import VersionedBroadcast
from spark_apps.tasks.judge import (
    JUDGED_SCHEMA,
    JudgedBatch,
    JudgedRecord,
    judge_messages,
    judged_batch,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame


log = logging.getLogger(__name__)

FORMER_READER = "quality"
PUBLISHED_AGAIN_MS = 10 * MINUTE_MS
"""Before the newest commit, whose number is its moment, however long ago that is: the cells that it
and those just before it touched may not be published. Quality and latency still judge them after an
outage of up to two hours."""

LOGGED_CLOCKS = 20  # of those that begin or end to be corrected with one batch


class Ingest:
    """The one writer of the record store. Keeps nothing between batches but what it has not
    published yet."""

    name: str = "ingest"
    topics: tuple[str, ...] = INGESTED_TOPICS
    headers: bool = True

    def __init__(self, context: Context) -> None:
        self._context = context
        self.trigger_ms = context.settings.streams.ingest_trigger_ms
        self._group = context.group_positions(self.name, self.topics)
        self._register = VersionedBroadcast(
            "register", context.register.read, lambda: context.register.version
        )
        limits = clock_limits(context.settings.site)
        offsets = retry(context.store.reader.clocks, context.stopping, "store")
        self._clocks = ClockEstimates.create(limits, offsets)
        """After the newest batch that is committed: a batch that is tried again is corrected by
        the same offsets."""
        self._limits = self._clocks.limits
        self._known_clocks = VersionedBroadcast(
            "clocks", lambda: self._limits, lambda: (self._clocks.version, self._limits.now_ms)
        )
        context.metrics.clocks.set(len(offsets))
        self._published_again = False
        if not self._writes_by_executors:
            retry(self._publish_last_minutes, context.stopping, "store")
            self._published_again = True

    @property
    def _writes_by_executors(self) -> bool:
        """Nothing that grows with the number of devices reaches this process then."""
        in_parts = isinstance(self._context.store.reader, StagedStore)
        return in_parts and self._context.settings.streams.work_in == "executors"

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
        judged = judge_messages(
            messages, self._context.register.read(), site.zone, self._limits_of_batch()
        )
        self._apply(judged, offsets)

    def on_frame(self, frame: DataFrame, offsets: OffsetRanges) -> None:
        """Judge in the executors, and write there too if the store can be written in parts; else
        one transaction of the store."""
        context = self._context
        register = self._register.current(frame.sparkSession)
        self._limits_of_batch()
        clocks = self._known_clocks.current(frame.sparkSession)
        if self._writes_by_executors:
            if not self._published_again:
                self._publish_by_executors(frame.sparkSession.sparkContext)
            places = positions(self.name, context.cluster, offsets)
            begun_s = time.monotonic()
            after = write_batch(
                context, frame, offsets, places, register, clocks, store_batch, self._clocks
            )
            if after is not None:
                context.observe_commit(self.name, begun_s)
                context.metrics.passed(offsets)
                self._set_clocks(after)
            self._group.publish(ends_of(offsets))
            return
        work = executor_writer.judging(register, clocks, context.settings.site.zone)
        judged = frame.mapInArrow(work, JUDGED_SCHEMA)
        table = retry_job(judged.toArrow, context.stopping, "judging a batch")
        self._apply(judged_batch(table), offsets)

    def _apply(self, judged: JudgedBatch, offsets: OffsetRanges) -> None:
        """Store; then the meters, of what is committed."""
        context = self._context
        after = self._clocks.advanced(judged.delays)
        batch = store_batch(judged.records, judged.counters)
        batch = msgspec.structs.replace(
            batch, clocks=after.changed_since(self._clocks), segments=judged.segments
        )
        begun_s = time.monotonic()
        places = positions(self.name, context.cluster, offsets)
        context.confirm(offsets)
        applied = context.store.writer.apply(batch, places)
        if not applied.already_applied:
            context.observe_commit(self.name, begun_s)
            new = latency_cells([row for row in batch.rows if row.stored_at_ms])
            context.metrics.committed(of_store_batch(batch, applied, new))
            context.metrics.passed(offsets)
            self._set_clocks(after)
        context.cells.touch(applied.latency, applied.quality)
        self._group.publish(ends_of(offsets))

    def _limits_of_batch(self) -> ClockLimits:
        """What a batch is judged with, however often it is tried."""
        self._limits = at_minute(self._clocks.limits, wall_clock.now_ms())
        return self._limits

    def _set_clocks(self, after: ClockEstimates) -> None:
        """What is committed is what the next batch is corrected by."""
        before, self._clocks = self._clocks, after
        if (corrected := after.changed_since(before)) is None:
            return
        self._context.metrics.clocks.set(len(corrected))
        for camera_ip in sorted(before.corrected.keys() ^ corrected.keys())[:LOGGED_CLOCKS]:
            log.info("clock of %s: corrected by %d ms", camera_ip, -corrected.get(camera_ip, 0))

    def _publish_by_executors(self, spark: SparkContext) -> None:
        """The same by tasks, before the first batch; if the store is away just then, before the
        next one: what these wrote themselves they have also published."""
        context, store = self._context, self._context.store.reader
        newest = retry(store.newest_attempt, context.stopping, "store")
        if not newest:
            self._published_again = True
            return
        attempt = Ledger(begun=newest, committed=newest)
        job = executor_writer.job_of(context.settings, attempt)
        minutes = range(minute_of(newest - PUBLISHED_AGAIN_MS), newest + MINUTE_MS, MINUTE_MS)
        publish = partial(executor_writer.publish_minutes, spark, job, minutes)
        try:
            retry_job(publish, context.stopping, "publishing the last minutes", wait_s=0)
            self._published_again = True
        except JobFailed as error:
            log.warning("the last minutes are published with the next batch: %s", error)

    def _publish_last_minutes(self) -> None:
        """What the driver before committed and may not have published."""
        store = self._context.store.reader
        attempt = store.newest_attempt()
        if not attempt:
            return
        since_ms = attempt - PUBLISHED_AGAIN_MS
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
            if row.reason != Reason.REFUSED.value:  # of a refused request; no record arrived
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
    out, and what came with a clock that is known to be wrong.
    """
    counted: dict[tuple[str, str, str, int], dict[int, int]] = {}
    for row in stored:
        if row.replayed or row.has_untrue_arrival:
            continue
        key = (row.kind, row.district_id, row.camera_ip, minute_of(row.stored_at_ms))
        buckets = counted.setdefault(key, {})
        bucket = bucket_of(row.stored_at_ms - row.claimed_at_ms)
        buckets[bucket] = buckets.get(bucket, 0) + 1
    return [
        LatencyCell(kind=k, district_id=d, camera_ip=c, minute_ms=minute_ms, buckets=buckets)
        for (k, d, c, minute_ms), buckets in counted.items()
    ]
