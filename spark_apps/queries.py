"""From an application to a running query: source, transform, sink.

In: a session, the context, an application. Out: a started query.
Never: a position from the checkpoint; it is a fresh one at every start.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from pathlib import Path

from confluent_kafka.admin import OffsetSpec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_apps.application import Application
from spark_apps.cluster import offsets
from spark_apps.context import Context
from spark_apps.positions import begin, starting_offsets, valid_positions
from spark_apps.settings import JobSettings
from spark_apps.source import read

log = logging.getLogger(__name__)

MEMORY = Path("/dev/shm")


def checkpoint(settings: JobSettings, application: str) -> Path:
    """An empty folder for a query's checkpoint: disposable, so in memory where there is some.

    Its name follows from the data directory, so that what a killed driver left is found and
    removed.
    """
    chosen = settings.streams.checkpoint_dir
    if chosen:
        base = Path(chosen)
    elif MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
        digest = hashlib.sha256(str(settings.site.data_path).encode()).hexdigest()[:12]
        base = MEMORY / f"databus-{os.getuid()}-{digest}"
    else:
        base = settings.site.data_path / "checkpoints"
    folder = base / application
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def start(session: SparkSession, context: Context, application: Application) -> StreamingQuery:
    """Begin at the store's positions and run until stopped."""
    settings = context.settings
    messages = read(
        session,
        bootstrap_servers=settings.bus.bootstrap_servers,
        topics=application.topics,
        starting_offsets=_beginning(context, application),
        max_offsets=settings.streams.max_offsets_per_batch,
        client_id=f"streams-{application.name}",
    )
    return (
        application.transform(messages)
        .writeStream.queryName(application.name)
        .foreachBatch(_sink(application))
        .option("checkpointLocation", checkpoint(settings, application.name).as_uri())
        .trigger(processingTime=f"{application.trigger_ms} milliseconds")
        .start()
    )


def _sink(application: Application):  # type: ignore[no-untyped-def]
    def on_batch(batch: DataFrame, _batch_id: int) -> None:
        table = batch.toArrow()
        if table.num_rows:
            application.on_batch(table)

    return on_batch


def _beginning(context: Context, application: Application) -> str:
    cluster = context.cluster
    partitions = [p for p in cluster.partitions if p[0] in application.topics]
    earliest = offsets(context.admin, partitions, OffsetSpec.earliest())
    stored = valid_positions(context.reader.positions(application.name), cluster)
    starts, lost = begin(stored, partitions, earliest)
    for (topic, partition), count in lost.items():
        log.error(
            "%s: retention cut %d records of %s-%d before they were read",
            application.name, count, topic, partition,
        )  # fmt: skip
    return starting_offsets(starts)
