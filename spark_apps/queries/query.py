"""From an application to a running query: source, transform, sink.

The checkpoint is a fresh one at every start; positions are the application's: ingest's come from
the store, those of the others from their consumer group.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bus.client.kafka.cluster import start_offsets
from bus.client.model import TopicAndPartition
from spark_apps.batches.message import OffsetRanges
from spark_apps.batches.record_sizes import RecordSizes
from spark_apps.batches.slicer import Slicer
from spark_apps.queries.application import SharedQuery
from spark_apps.queries.checkpoint import QueryCheckpoint
from spark_apps.queries.context import Context
from spark_apps.queries.sink import DriverSink, ExecutorSink, Failed, Sink
from spark_apps.session.session import slots_now
from spark_apps.source.kafka_source import read, read_range
from spark_apps.source.lost_records import LostRecords
from spark_apps.source.offset_log import OffsetLog
from spark_apps.source.positions import resolve_positions, starting_offsets


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """One streaming query, and what it holds."""

    query: SharedQuery
    stream: StreamingQuery
    sink: Sink
    checkpoint: QueryCheckpoint

    def close(self) -> None:
        """After the stream has stopped: let the batch under way end."""
        self.sink.close()
        self.checkpoint.close()


def start(
    session: SparkSession, context: Context, query: SharedQuery, queries: int, failed: Failed
) -> RunningQuery:
    """Begin at the applications' positions and run until stopped. `queries`: in this session."""
    streams = context.settings.streams
    lost = context.losses.of_query(query)
    starts = _starts(context, query, lost)
    checkpoint = QueryCheckpoint.create(context.settings, query.name)
    offset_log = OffsetLog(checkpoint.folder, starts, lost, context.confirm_fallen)
    bus, client_id = context.settings.bus, f"streams-{query.name}"

    partitions = sum(1 for place in context.cluster.partitions if place[0] in query.topics)

    def select(messages: DataFrame) -> DataFrame:
        chosen = query.transform(messages)
        if streams.work_in == "executors":
            return chosen  # how many tasks there may be, the sink asks before each batch
        cores = os.cpu_count() or 1
        derived = tasks_of(slots_now(session), queries, partitions, cores)
        return chosen.coalesce(streams.tasks_per_batch or derived)

    def read_slice(offsets: OffsetRanges, record_bytes: int) -> DataFrame:
        return select(read_range(session, offsets, record_bytes, bus=bus, client_id=client_id))

    sizes = RecordSizes(bus, client_id, streams.max_batch_bytes)
    slicer = Slicer(sizes, streams.max_batch_bytes, read_slice)
    sink: Sink
    if streams.work_in == "driver":
        sink = DriverSink(
            query.name, offset_log, slicer, lost, context.confirm, query.on_batch, failed
        )
    else:
        check = partial(context.losses.check, lost, context.losses.log_starts(query.name))
        slots = partial(slots_now, session)
        sink = ExecutorSink(offset_log, slicer, check, slots, query.on_frame, failed)
    messages = read(
        session,
        bus=bus,
        topics=sorted({topic for topic, _ in starts}),
        starting_offsets=starting_offsets(starts),
        max_offsets=streams.max_offsets_per_batch,
        client_id=client_id,
    )
    running = (
        select(messages)
        .writeStream.queryName(query.name)
        .foreachBatch(sink)
        .option("checkpointLocation", checkpoint.location)
        .trigger(processingTime=f"{query.trigger_ms} milliseconds")
        .start()
    )
    return RunningQuery(query, running, sink, checkpoint)


def tasks_of(slots: int, queries: int, partitions: int, cores: int) -> int:
    """Of a batch that one process works on: its share of the slots, no more than there are
    partitions or cores. A task more costs more than it reads."""
    return max(1, min(slots // max(1, queries), partitions, max(2, cores)))


def _starts(
    context: Context, query: SharedQuery, lost: LostRecords
) -> dict[TopicAndPartition, int]:
    partitions = [p for p in context.cluster.partitions if p[0] in query.topics]
    earliest = start_offsets(context.admin, partitions)
    starts, _ = resolve_positions(query.starting_positions(partitions), partitions, earliest)
    lost_by = {}
    for member in query.cursors:
        own = [p for p in partitions if p[0] in member.application.topics]
        begins, lost_by[member.application.name] = resolve_positions(member.ends, own, earliest)
        member.ends |= begins
        context.begin_group(member.application.name, begins)
    lost.add_of_readers(lost_by)
    return starts
