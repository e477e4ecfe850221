"""A batch into HBase by Spark's executors: judged, written and added up here; committed by the
driver (`queries.executor_batch`).

One attempt is one action of three stages: *judge* (messages → rows), *rows* (divided by identity:
written, what they add to cells comes out), *cells* (divided by cell: added up, written, published).
What is for one task is divided by nothing: the three run in it, one behind the other.
What comes back are sums over all devices, which the driver adds up; nothing that grows with the
number of records or of devices reaches the driver. A task that runs twice, at once or late, writes
the same again (`ingest.store.hbase.attempt`). Never: an accumulator, the clock.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from bus.contracts.meters import Arrived, CumulativeCount, LatencyCell, Sent
from bus.contracts.register import Register
from bus.domain.times import MINUTE_MS
from bus.settings import BusSettings, SiteSettings
from ingest.normalise import ClockLimits, Readings
from ingest.normalise.clock import DEFAULT as DEFAULT_CLOCK
from ingest.normalise.device_clocks import bounded, merged_readings
from ingest.store.hbase import aggregates
from ingest.store.hbase.aggregates import AggregateUpdates
from ingest.store.hbase.attempt import TouchedCells, write_cells, write_rows, write_segments
from ingest.store.hbase.keys import cell_kind, parts_of
from ingest.store.hbase.ledger import Ledger
from ingest.store.hbase.reader import HbaseReader
from ingest.store.port import RecordRow, StoreBatch
from ingest.store.totals import Total
from spark_apps.batches.committed_batch import (
    CommittedBatch,
    merged_histograms,
    of_sums,
    unarrived_of,
)
from spark_apps.publish.cell_publisher import PublishedCell, place_of
from spark_apps.session.retry import retry
from spark_apps.settings import JobSettings
from spark_apps.tasks import worker_cache
from spark_apps.tasks.arrow_rows import record_batch
from spark_apps.tasks.broadcast import VersionedValue
from spark_apps.tasks.judge import (
    JUDGED_SCHEMA,
    JudgedRecord,
    judge_batches,
    judged_batch,
)
from spark_apps.tasks.worker_cache import Work, task_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

CHANGES_SCHEMA = "cell binary, changed binary, change binary"
"""`cell`: what must be added up by one task; `changed`: the cell that grows, empty for a counter,
whose growth only that task can tell; `change`: the numbers, or the counter."""
SUMS_SCHEMA = "sum binary, change binary"
"""What a task adds to the sums of all devices, for charts: keys and numbers. As many as there are
minutes, kinds and districts in a batch."""
UNARRIVED_KEY = b"unarrived"
"""In both, how many records of each kind tell no arrival; passed on to the driver."""
RETRY_S = 20.0  # how long a task waits for a store that is away; then the driver begins again

_encode = msgspec.msgpack.Encoder().encode
_numbers = msgspec.msgpack.Decoder(dict[str, int])
_readings = msgspec.msgpack.Decoder(Readings)
_counter = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_COUNTERS: dict[str, msgspec.msgpack.Decoder[CumulativeCount]] = {
    kind.adds_to: msgspec.msgpack.Decoder(kind) for kind in (Sent, Arrived)
}
Done = TypeVar("Done")
ToBatch = Callable[[Iterable[JudgedRecord]], StoreBatch]


class Job(NamedTuple):
    """What every task is handed, within its function: a broadcast for each batch would cost more
    than the few hundred bytes. `attempt` is the ledger as it was begun: another version of it
    would tell other rows new."""

    url: str
    bus: BusSettings
    site: SiteSettings
    attempt: Ledger


Sums = dict[bytes, dict[str, int]]
"""By the key of a sum: so much more."""


class BatchResult(NamedTuple):
    """What the action of an attempt brings back: as much whatever the number of records and
    devices. `numbers` count when the attempt is committed. `delays`: of devices whose clocks seem
    off, which are few and bounded."""

    sums: Sums
    numbers: CommittedBatch
    delays: Readings


def job_of(settings: JobSettings, attempt: Ledger) -> Job:
    """What tasks need of the settings."""
    return Job(
        settings.store.records_url(settings.site), settings.bus, settings.site, attempt
    )


def write(
    frame: DataFrame,
    job: Job,
    register: VersionedValue[Register],
    clocks: VersionedValue[ClockLimits],
    to_batch: ToBatch,
    tasks: int,
) -> BatchResult:
    """The one action of an attempt. Raises what Spark raises when a task has failed for good."""
    judge = _judging(register, clocks, job.site.zone)
    parts = _parts(frame, judge, _writing_rows(job, clocks, to_batch), _writing_cells(job), tasks)
    sums, totals, latencies = AggregateUpdates(), list[Total](), list[LatencyCell]()
    delays: list[Readings] = []
    unarrived: Counter[str] = Counter()
    for found, change in parts.collect():
        key = bytes(found)
        if key == aggregates.clocks_key():
            delays.append(_readings.decode(change))
            continue
        numbers = _numbers.decode(change)
        if key == UNARRIVED_KEY:
            unarrived.update(numbers)
            continue
        if cell_kind(key) == aggregates.TOTAL:
            totals.append((*parts_of(key, "sss"), numbers[aggregates.COUNT]))
        elif cell_kind(key) == aggregates.HISTOGRAM:
            latencies.append(aggregates.latency_cell_of(key, numbers))
        else:
            sums.add(key, numbers)
    minutes = aggregates.minute_sums(sums.numbers)
    committed = of_sums(totals, minutes, latencies, unarrived)
    return BatchResult(sums.numbers, committed, merged_readings(delays))


def _parts(frame: DataFrame, judge: Work, rows: Work, cells: Work, tasks: int) -> DataFrame:
    """The plan of the action. With one task all records of an identity and all changes of a cell
    are in it anyway: no shuffle, and one worker instead of three."""
    if tasks == 1:

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return cells(rows(judge(batches)))

        return frame.coalesce(1).mapInArrow(task_of(work), SUMS_SCHEMA)
    judged = frame.mapInArrow(task_of(judge), JUDGED_SCHEMA)
    changes = judged.repartition(tasks, "record_id").mapInArrow(task_of(rows), CHANGES_SCHEMA)
    return changes.repartition(tasks, "cell").mapInArrow(task_of(cells), SUMS_SCHEMA)


def judging(
    register: VersionedValue[Register], clocks: VersionedValue[ClockLimits], zone: str
) -> Work:
    """What a task makes of its messages: Arrow batches of `JUDGED_SCHEMA`."""
    return task_of(_judging(register, clocks, zone))


def _judging(
    register: VersionedValue[Register], clocks: VersionedValue[ClockLimits], zone: str
) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return judge_batches(batches, register.value, zone, clocks.value)

    return work


def _writing_rows(
    job: Job, clocks: VersionedValue[ClockLimits], to_batch: ToBatch
) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        given = [batch for batch in batches if batch.num_rows]
        if not given:
            return
        table = pa.Table.from_batches(given)
        changes = rows_written(table, job, to_batch, clocks.value)
        yield record_batch(CHANGES_SCHEMA, changes)

    return work


def _writing_cells(job: Job) -> Work:
    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = [row for batch in batches for row in batch.to_pylist()]
        if not given:
            return
        yield record_batch(SUMS_SCHEMA, cells_written(given, job))

    return work


def rows_written(
    judged: pa.Table, job: Job, to_batch: ToBatch, clocks: ClockLimits = DEFAULT_CLOCK
) -> list[tuple[bytes, bytes, bytes]]:
    """One part of the rows, written; what it adds to cells. Of equal identities the row of the
    smallest (topic, partition, offset) is kept, whoever is asked. The delays of all devices are in
    the same part, as they have no identity."""
    records, counters, delays, segments = judged_batch(judged)
    changes = [
        (aggregates.part_of(aggregates.quality_key(one)), b"", _encode((one.adds_to, one)))
        for one in counters
    ]
    if delays:
        changes.append((aggregates.clocks_key(), b"", _encode(bounded(delays, clocks))))
    if segments:
        films = worker_cache.hbase(job.url)
        _retried(lambda: write_segments(films, job.attempt, segments))
    if not records:
        return changes
    rows = (one.row for one in records if isinstance(one.row, RecordRow))
    if unarrived := unarrived_of(rows):
        changes.append((UNARRIVED_KEY, b"", _encode(unarrived)))
    hbase = worker_cache.hbase(job.url)

    updates = _retried(lambda: write_rows(hbase, job.attempt, to_batch(records)).updates)
    return changes + [
        (aggregates.part_of(key), key, _encode(more)) for key, more in updates.numbers.items()
    ]


def cells_written(changes: Sequence[dict[str, Any]], job: Job) -> list[tuple[bytes, bytes]]:
    """One part of the cells, added up, written and published; what they add to sums, the totals
    among them, and the histogram of each kind. Delays are passed on, and what tells no arrival."""
    passed_on = (aggregates.clocks_key(), UNARRIVED_KEY)
    passed = [(bytes(r["cell"]), bytes(r["change"])) for r in changes if r["cell"] in passed_on]
    changes = [row for row in changes if row["cell"] not in passed_on]
    hbase = worker_cache.hbase(job.url)
    updates, touched = _retried(lambda: _put_cells(hbase, job, changes))
    with worker_cache.publisher(job.bus, job.site.name) as publisher:
        cells: list[PublishedCell] = [*touched.latency, *touched.quality]
        for cell in cells:
            publisher.send(*place_of(cell), cell)
    totals = {
        key: more
        for key, more in updates.numbers.items()
        if cell_kind(key) == aggregates.TOTAL
    }
    merged = (touched.sums.numbers | totals | merged_histograms(updates.numbers)).items()
    found = [(key, _encode(more)) for key, more in merged if more]
    return found + passed


def publish_minutes(spark: SparkContext, job: Job, minutes: Sequence[int]) -> None:
    """The cells of these minutes as they are committed, one task for each: what a driver before has
    committed and perhaps not published."""

    def work(given: Iterable[int]) -> None:
        for minute_ms in given:
            minute_published(minute_ms, job)

    spark.parallelize(minutes, len(minutes)).foreachPartition(work)


def minute_published(minute_ms: int, job: Job) -> None:
    """Of all devices; `job.attempt` is committed."""
    reader = HbaseReader(worker_cache.hbase(job.url))
    until_ms = minute_ms + MINUTE_MS
    cells: list[PublishedCell] = [
        *reader.latency_cells(from_ms=minute_ms, until_ms=until_ms),
        *reader.quality(from_ms=minute_ms, until_ms=until_ms),
    ]
    with worker_cache.publisher(job.bus, job.site.name) as publisher:
        for cell in cells:
            newest = msgspec.structs.replace(cell, attempt=job.attempt.committed)
            publisher.send(*place_of(cell), newest)


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
