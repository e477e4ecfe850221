"""From an application to a running query: source, transform, sink.

The checkpoint is a fresh one at every start; positions come from the store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import uuid
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from bus.client.kafka.cluster import start_offsets
from ingest.store.positions import valid_positions
from spark_apps.application import AppCursor, Application, SharedQuery
from spark_apps.context import Context
from spark_apps.positions import resolve_positions, starting_offsets
from spark_apps.settings import JobSettings
from spark_apps.sink import Sink
from spark_apps.source import read

log = logging.getLogger(__name__)

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
    session: SparkSession, context: Context, query: SharedQuery, sink: Sink
) -> StreamingQuery:
    """Begin at the store's positions and run until stopped."""
    settings = context.settings
    messages = read(
        session,
        bootstrap_servers=settings.bus.bootstrap_servers,
        topics=query.topics,
        starting_offsets=_starting_offsets(context, query),
        max_offsets=settings.streams.max_offsets_per_batch,
        client_id=f"streams-{query.name}",
    )
    return (
        query.transform(messages)
        .coalesce(settings.streams.tasks_per_batch)
        .writeStream.queryName(query.name)
        .foreachBatch(sink)
        .option("checkpointLocation", _location(checkpoint(settings, query.name)))
        .trigger(processingTime=f"{query.trigger_ms} milliseconds")
        .start()
    )


def _location(folder: Path) -> str:
    """Hadoop takes the path as it is written: a quoted one (`Path.as_uri`) is another folder."""
    return f"file://{folder}"


def load_cursor(context: Context, application: Application) -> AppCursor:
    """The application with its positions, as far as they still mean something."""
    stored = context.reader.positions(application.name)
    return AppCursor(application, valid_positions(stored, context.cluster))


def _starting_offsets(context: Context, query: SharedQuery) -> str:
    partitions = [p for p in context.cluster.partitions if p[0] in query.topics]
    earliest = start_offsets(context.admin, partitions)
    starts, lost = resolve_positions(query.starting_positions(partitions), partitions, earliest)
    for (topic, partition), count in lost.items():
        log.error(
            "%s: retention cut %d records of %s-%d before they were read",
            query.name, count, topic, partition,
        )  # fmt: skip
    return starting_offsets(starts)
