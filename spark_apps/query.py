"""From an application to a running query: source, transform, sink.

The checkpoint is a fresh one at every start; positions come from the store.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bus.client.kafka.cluster import start_offsets
from bus.client.model import TopicAndPartition
from spark_apps.application import AppCursor, Application, SharedQuery
from spark_apps.context import Context
from spark_apps.lost_records import LostRecords
from spark_apps.message import OffsetRanges
from spark_apps.offset_log import OffsetLog
from spark_apps.positions import resolve_positions, starting_offsets
from spark_apps.record_sizes import RecordSizes
from spark_apps.settings import JobSettings, StreamsSettings
from spark_apps.sink import DriverSink, ExecutorSink, Failed, Sink
from spark_apps.slicer import Slicer
from spark_apps.source import read, read_range

MEMORY = Path("/dev/shm")


def checkpoint(settings: JobSettings, query: str) -> Path:
    """An empty folder for a query's checkpoint: disposable, so in memory where there is some.

    Its parent's name follows from the data directory, so that what a killed driver left is found
    and removed; its own name is new every time, because beginning at an old checkpoint instead
    of at the store's positions would lose or double records.
    """
    chosen = settings.streams.checkpoint_dir
    if chosen:
        base = Path(chosen).absolute()
    elif MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        digest = hashlib.sha256(str(settings.site.data_path).encode()).hexdigest()[:12]
        base = MEMORY / f"databus-{os.getuid()}-{digest}"
    else:
        base = settings.site.data_path / "checkpoints"
    shutil.rmtree(base / query, ignore_errors=True)
    folder = base / query / uuid.uuid4().hex
    folder.mkdir(parents=True)
    return folder


def start(
    session: SparkSession, context: Context, query: SharedQuery, failed: Failed
) -> tuple[StreamingQuery, Sink]:
    """Begin at the store's positions and run until stopped."""
    streams = context.settings.streams
    lost = context.lost_records(query.name)
    starts = _starts(context, query, lost)
    folder = checkpoint(context.settings, query.name)
    offset_log = OffsetLog(folder, starts, lost)
    bus, client_id = context.settings.bus, f"streams-{query.name}"

    def select(messages: DataFrame) -> DataFrame:
        return query.transform(messages).coalesce(_tasks(session, streams))

    def read_slice(offsets: OffsetRanges, record_bytes: int) -> DataFrame:
        return select(read_range(session, offsets, record_bytes, bus=bus, client_id=client_id))

    sizes = RecordSizes(bus, client_id, streams.max_batch_bytes)
    slicer = Slicer(sizes, streams.max_batch_bytes, read_slice)
    sink: Sink
    if streams.work_in == "driver":
        sink = DriverSink(query.name, offset_log, slicer, lost, query.on_batch, failed)
    else:
        check = partial(context.check, lost)
        sink = ExecutorSink(offset_log, slicer, check, query.on_frame, failed)
    messages = read(
        session,
        bus=bus,
        topics=query.topics,
        starting_offsets=starting_offsets(starts),
        max_offsets=streams.max_offsets_per_batch,
        client_id=client_id,
    )
    running = (
        select(messages)
        .writeStream.queryName(query.name)
        .foreachBatch(sink)
        .option("checkpointLocation", _location(folder))
        .trigger(processingTime=f"{query.trigger_ms} milliseconds")
        .start()
    )
    return running, sink


def _tasks(session: SparkSession, streams: StreamsSettings) -> int:
    """Of a batch's reading: few where one process works on all of it, else one for each slot."""
    slots = session.sparkContext.defaultParallelism
    return streams.tasks_per_batch if streams.work_in == "driver" else slots


def _location(folder: Path) -> str:
    """Hadoop takes the path as it is written: a quoted one (`Path.as_uri`) is another folder."""
    return f"file://{folder}"


def open_cursor(application: Application) -> AppCursor:
    """The application where it stands."""
    return AppCursor(application, application.positions())


def _starts(
    context: Context, query: SharedQuery, lost: LostRecords
) -> dict[TopicAndPartition, int]:
    partitions = [p for p in context.cluster.partitions if p[0] in query.topics]
    earliest = start_offsets(context.admin, partitions)
    starts, gone = resolve_positions(query.starting_positions(partitions), partitions, earliest)
    lost.add(gone)
    return starts
