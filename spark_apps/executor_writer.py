"""A batch into HBase by Spark's executors: judged, written and added up there; committed here.

One attempt is one action of three stages: *judge* (messages → rows), *rows* (divided by identity:
written, what they add to cells comes out), *cells* (divided by cell: added up, written, published).
What comes back are totals by kind and reason; nothing that grows with the batch or with the number
of devices reaches the driver. A task that runs twice, at once or late, writes the same again
(`ingest.store.hbase.attempt`). Never: an accumulator, the clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from pyspark.errors import PySparkException

from bus.contracts.meters import Arrived, CumulativeCount, Sent
from bus.contracts.register import Register
from bus.settings import BusSettings, SiteSettings
from ingest.normalise import clock_limits
from ingest.store.hbase import aggregates
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.attempt import TouchedCells, write_cells, write_rows
from ingest.store.hbase.keys import cell_kind, parts_of
from ingest.store.hbase.ledger import Ledger
from ingest.store.port import Position, StoreBatch, StoreUnavailable
from spark_apps import worker_cache
from spark_apps.arrow_rows import record_batch
from spark_apps.cell_publisher import PublishedCell, place_of
from spark_apps.context import Context
from spark_apps.judge import (
    JUDGED_SCHEMA,
    JudgedRecord,
    judge_batches,
    judged_batch,
)
from spark_apps.retry import WAIT_S, retry

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Broadcast
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

CHANGES_SCHEMA = "cell binary, changed binary, change binary"
"""`cell`: what must be added up by one task; `changed`: the cell that grows, empty for a counter,
whose growth only that task can tell; `change`: the numbers, or the counter."""
TOTALS_SCHEMA = "name string, kind string, reason string, count bigint"
RETRY_S = 20.0  # how long a task waits for a store that is away; then the driver begins again

_encode = msgspec.msgpack.Encoder().encode
_numbers = msgspec.msgpack.Decoder(dict[str, int])
_counter = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_COUNTERS: dict[str, msgspec.msgpack.Decoder[CumulativeCount]] = {
    kind.adds_to: msgspec.msgpack.Decoder(kind) for kind in (Sent, Arrived)
}
Done = TypeVar("Done")
ToBatch = Callable[[Iterable[JudgedRecord]], StoreBatch]


class Job(NamedTuple):
    """What every task is handed. `attempt` is the ledger as it was begun: another version of it
    would tell other rows new."""

    url: str
    bus: BusSettings
    site: SiteSettings
    attempt: Ledger


Total = tuple[str, str, str, int]
"""A name, a kind, a reason where there is one, and so many more."""


def write_batch(
    context: Context,
    frame: DataFrame,
    places: Sequence[Position],
    register: Broadcast[Register],
    to_batch: ToBatch,
) -> None:
    """Begin, write, commit. While the store is away, again, under the same number: with the same
    register and the same offsets, so that the same is written. Raises `StoreError`, or what Spark
    raises for another reason."""
    store: Any = context.store.reader
    settings, spark = context.settings, frame.sparkSession.sparkContext
    url, deadline = settings.store.records_url(settings.site), time.monotonic() + WAIT_S
    while True:
        attempt = retry(partial(store.begin, places), context.stopping, "store")
        if attempt is None:
            return  # committed, and the answer was lost
        job = spark.broadcast(Job(url, settings.bus, settings.site, attempt))
        try:
            totals = write(frame, job, register, to_batch, spark.defaultParallelism)
            break
        except PySparkException as error:
            if not _is_away(error) or time.monotonic() > deadline or context.stopping.is_set():
                raise
            log.warning("store: away; attempt %d is written again", attempt.begun)
        finally:
            job.unpersist()
    retry(partial(store.commit, attempt, places), context.stopping, "store")
    log.debug("attempt %d: %s", attempt.begun, totals)


def _is_away(error: PySparkException) -> bool:
    """Whether a task gave up because the store did not answer: Spark tells it as a text."""
    return StoreUnavailable.__name__ in str(error)


def write(
    frame: DataFrame,
    job: Broadcast[Job],
    register: Broadcast[Register],
    to_batch: ToBatch,
    tasks: int,
) -> list[Total]:
    """The one action of an attempt. Raises what Spark raises when a task has failed for good."""
    judged = frame.mapInArrow(judging(register, job.value.site), JUDGED_SCHEMA)
    changes = judged.repartition(tasks, "record_id").mapInArrow(
        _writing_rows(job, to_batch), CHANGES_SCHEMA
    )
    totals = changes.repartition(tasks, "cell").mapInArrow(_writing_cells(job), TOTALS_SCHEMA)
    return [tuple(row) for row in totals.collect()]


Work = Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def judging(register: Broadcast[Register], site: SiteSettings) -> Work:
    """What a task makes of its messages: Arrow batches of `JUDGED_SCHEMA`."""
    zone, clock = site.zone, clock_limits(site)

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judge_batches(batches, register.value, zone, clock)

    return work


def _writing_rows(job: Broadcast[Job], to_batch: ToBatch) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        changes = rows_written(pa.Table.from_batches(given), job.value, to_batch)
        yield record_batch(CHANGES_SCHEMA, changes)

    return work


def _writing_cells(job: Broadcast[Job]) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = [row for batch in batches for row in batch.to_pylist()]
        if not given:
            return
        yield record_batch(TOTALS_SCHEMA, cells_written(given, job.value))

    return work


def rows_written(judged: pa.Table, job: Job, to_batch: ToBatch) -> list[tuple[bytes, bytes, bytes]]:
    """One part of the rows, written; what it adds to cells. Of equal identities the row of the
    smallest (topic, partition, offset) is kept, whoever is asked."""
    places = [(name, "ascending") for name in ("topic", "partition", "offset")]
    records, counters = judged_batch(judged.sort_by(places))
    changes = [
        (aggregates.quality_key(one), b"", _encode((one.adds_to, one))) for one in counters
    ]
    if not records:
        return changes
    hbase = worker_cache.hbase(job.url)

    updates = _retried(lambda: write_rows(hbase, job.attempt, to_batch(records)).updates)
    return changes + [(key, key, _encode(numbers)) for key, numbers in updates.numbers.items()]


def cells_written(changes: Sequence[dict[str, Any]], job: Job) -> list[Total]:
    """One part of the cells, added up, written and published; the totals among them."""
    hbase = worker_cache.hbase(job.url)
    updates, touched = _retried(lambda: _put_cells(hbase, job, changes))
    with worker_cache.publisher(job.bus, job.site.name) as publisher:
        cells: list[PublishedCell] = [*touched.latency, *touched.quality]
        for cell in cells:
            publisher.send(*place_of(cell), cell)
    return [
        (*parts_of(key, "sss"), numbers[aggregates.COUNT])
        for key, numbers in updates.numbers.items()
        if cell_kind(key) == aggregates.TOTAL and numbers
    ]


def _put_cells(
    hbase: Any, job: Job, changes: Sequence[dict[str, Any]]
) -> tuple[AggregateUpdates, TouchedCells]:
    updates = AggregateUpdates()
    counters: list[CumulativeCount] = []
    for row in changes:
        if row["changed"]:
            updates.add(row["changed"], _numbers.decode(row["change"]))
        else:
            adds_to, counter = _counter.decode(row["change"])
            counters.append(_COUNTERS[adds_to].decode(counter))
    return updates, write_cells(hbase, job.attempt, updates, counters)


def _retried(work: Callable[[], Done]) -> Done:
    """The same part again, which changes nothing, until the store takes it. A task that Spark no
    longer wants is killed, not asked."""
    return retry(work, threading.Event(), "store", RETRY_S)
