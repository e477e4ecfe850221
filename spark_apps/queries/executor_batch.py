"""A batch that Spark's executors write: begun, written and committed under one number.

In: the records of a batch as Spark has them, the positions they reach. Out: the store's rows and
positions, in one commit. Never: a batch committed whose topic was made again meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bus.contracts.register import Register
from ingest.normalise import ClockEstimates, ClockLimits
from ingest.store.hbase.ledger import Ledger
from ingest.store.port import AttemptForgotten, Position
from spark_apps.batches.batch_tasks import tasks_for
from spark_apps.batches.message import OffsetRanges
from spark_apps.queries.context import Context
from spark_apps.session.retry import retry, retry_job
from spark_apps.tasks.broadcast import VersionedValue
from spark_apps.tasks.executor_writer import BatchResult, ToBatch, job_of, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

INGEST = "ingest"


def write_batch(
    context: Context,
    frame: DataFrame,
    offsets: OffsetRanges,
    places: Sequence[Position],
    register: VersionedValue[Register],
    clocks: VersionedValue[ClockLimits],
    to_batch: ToBatch,
    estimates: ClockEstimates,
) -> ClockEstimates | None:
    """Begin, write, commit. The estimates of clocks after the batch; None if all of it was
    committed before. While the store is away, a disk is full or executors are lost, again, under
    the same number: with the same register, clocks and offsets, so that the same is written.
    Raises `StoreError`, `JobFailed`, or what Spark raises for a reason that nobody foresaw."""
    store: Any = context.store.reader
    settings, spark = context.settings, frame.sparkSession.sparkContext
    step = partial(context.metrics.step, INGEST)

    def begin_and_write() -> tuple[Ledger, BatchResult] | None:
        with step("begin"):
            attempt = retry(partial(store.begin, places), context.stopping, "store")
        if attempt is None:
            return None  # committed, and the answer was lost
        job = job_of(settings, attempt)
        tasks = tasks_for(offsets, spark.defaultParallelism)
        with step("action"):
            return attempt, write(frame, job, register, clocks, to_batch, tasks)

    while True:
        done = retry_job(begin_and_write, context.stopping, "a batch into the store")
        if done is None:
            return None
        attempt, (sums, numbers, delays) = done
        context.confirm(offsets)
        after = estimates.advanced(delays)
        with step("sums"):
            retry(partial(store.add_up, attempt, sums), context.stopping, "store")
        commit = partial(store.commit, attempt, places, after.changed_since(estimates))
        try:
            with step("commit"):
                retry(commit, context.stopping, "store")
        except AttemptForgotten as error:
            if context.stopping.is_set():
                raise
            log.warning("%s; the same is written again under the same number", error)
            continue
        context.metrics.committed(numbers)
        return after
