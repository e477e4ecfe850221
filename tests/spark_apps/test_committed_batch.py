"""The numbers of a committed batch are the same, whoever has written it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from ingest.store.hbase.aggregates import AggregateUpdates, latency_cell_of, minute_sums, sums_of
from ingest.store.hbase.ledger import Cell
from ingest.store.port import RecordRow, StoreBatch
from ingest.store.sqlite.writer import SqliteStore
from spark_apps.apps.ingest import latency_cells
from spark_apps.batches.committed_batch import (
    CommittedBatch,
    merged_histograms,
    of_store_batch,
    of_sums,
    unarrived_of,
)
from tests.ingest.store.made import MINUTE, accepted, position, quality, row

STORED_MS = MINUTE + 900_000


def added_up_by_executors(batch: StoreBatch, new: list[RecordRow]) -> CommittedBatch:
    """As `executor_writer` does it, without Spark and HBase: of one attempt, in an empty store."""
    updates = AggregateUpdates()
    updates.quality(batch.quality)
    updates.histograms(latency_cells(new))
    updates.counters(batch.counters, {})
    cells = {key: Cell(1, dict(more)) for key, more in updates.numbers.items()}
    sums = sums_of(cells, updates.numbers).of_all
    histograms = merged_histograms(updates.numbers)
    latencies = [latency_cell_of(key, more) for key, more in histograms.items()]
    return of_sums([], minute_sums(sums.numbers), latencies, unarrived_of(new))


def elapsed(batch: CommittedBatch) -> Counter[tuple[str, int]]:
    counted: Counter[tuple[str, int]] = Counter()
    for kind, elapsed_ms, records in batch.elapsed():
        counted[kind, elapsed_ms] += records
    return counted


def test_driver_and_executors_count_the_same(dice: random.Random, tmp_path: Path) -> None:
    """Devices, kinds, minutes and districts make no difference; records that come late by hours,
    which no chart adds up, are counted as well."""
    rows = [
        row(number, kind=dice.choice(("vehicle", "face")), camera_ip=f"10.0.0.{dice.randrange(9)}",
            district_id=dice.choice(("west", "east")), captured_at_ms=STORED_MS - late_ms,
            received_at_ms=MINUTE * (number >= 5))
        for number, late_ms in enumerate(dice.choices((-9_000, 40, 5_000, 700_000, 9 << 30), k=200))
    ]  # fmt: skip
    cells = [
        quality(minute_ms=MINUTE + 60_000 * n, arrived=9, valid=dice.randrange(9)) for n in range(9)
    ]
    counters = [accepted(dice.randrange(1, 9), epoch=epoch) for epoch in range(20)]
    batch = StoreBatch(rows=rows, quality=cells, counters=counters, latency=latency_cells)
    store = SqliteStore(tmp_path / "records.db", lambda: STORED_MS)
    applied = store.apply(batch, [position(200)])
    store.close()
    new = [one for one in batch.rows if one.stored_at_ms]
    by_driver = of_store_batch(batch, applied, latency_cells(new))
    by_executors = added_up_by_executors(batch, [replace(one) for one in new])
    assert by_driver.arrived == by_executors.arrived != {}
    assert by_driver.valid == by_executors.valid != {}
    assert elapsed(by_driver) == elapsed(by_executors)
    assert elapsed(by_driver).total() == 195
    assert by_driver.unarrived == by_executors.unarrived
    assert sum(by_driver.unarrived.values()) == 5  # in no latency
