"""Drivers that are killed, that fail, and whose batches are too large for them."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from ingest.store.port import PageRequest, Query
from spark_apps.settings import StreamsSettings
from tests.rotation import drawn
from tests.spark_apps.ways import WAYS, drawn_ways

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

LARGE, LARGE_BYTES = 2_000, 512 << 10

OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)


@OURS
@pytest.mark.parametrize("work_in", drawn_ways("kills"), indirect=True)
def test_a_killed_driver_leaves_the_store_equal_to_the_truth(
    driver: DriverProcess, dice: random.Random
) -> None:
    """kill -9 under way, twice, each with a fresh checkpoint: nothing lost, nothing doubled."""
    driver.put_rule("r1", "浙C00001")
    watched, number = set(), 0
    for _ in range(2):
        driver.start()
        wanted = number + dice.randrange(300, 3000)
        while number < wanted:
            hit = dice.random() < 0.02
            if hit:
                watched.add(("r1", f"id-{number}"))
            driver.send_vehicle(number, "浙C00001" if hit else "")
            number += 1
        driver.flush()
        before = driver.stored()
        driver.until(lambda before=before: driver.stored() > before, True)  # in the midst of it
        driver.kill()
    driver.start()
    driver.until(driver.stored, number)
    driver.until(lambda: set(driver.candidates()), watched)
    assert driver.stop() == 0
    check_stored_once(driver, number)


@OURS
@pytest.mark.rotates("large batches")
@pytest.mark.parametrize("work_in", drawn_ways("slices"), indirect=True)
def test_a_batch_too_large_is_read_in_slices_and_a_killed_driver_goes_on_behind_the_last(
    driver: DriverProcess,
) -> None:
    """kill -9 in the midst of a batch, which began with positions and ends with others."""
    number = 3000
    for one in range(number):
        driver.send_vehicle(one)
    driver.flush()
    driver.set_streams(max_batch_bytes=20_000, applications=["ingest"])
    driver.start()
    driver.until(lambda: 0 < driver.stored() < number, True)
    driver.kill()
    assert 0 < driver.stored() < number, "the kill came too late"
    driver.start()
    driver.until(driver.stored, number)
    assert driver.stop() == 0
    assert "slices" in driver.log.read_text(encoding="utf-8")
    check_stored_once(driver, number)


@OURS
@pytest.mark.slow
@pytest.mark.rotates("large batches")
@pytest.mark.parametrize("work_in", drawn("large records", WAYS[:2]), indirect=True)
def test_a_gigabyte_of_large_records_passes_a_heap_of_one(driver: DriverProcess) -> None:
    """In the driver or in executors, drawn. What broke: a batch was bounded by records only, and its
    heap ended at 500 of these; and again at every start. Both bounds are metrics."""
    driver.set_streams(driver_memory="1g", applications=["ingest"], metrics_port=0)
    for number in range(LARGE):
        driver.send_vehicle(number, picture=LARGE_BYTES)
    driver.flush()
    driver.start()
    driver.until(driver.stored, LARGE)
    assert driver.said("streams: ready") == 1, "it did not die meanwhile"
    page = driver.metrics()
    settings = StreamsSettings()
    assert page["databus_streams_batch_bound_records"] == settings.max_offsets_per_batch
    assert page["databus_streams_batch_bound_bytes"] == settings.max_batch_bytes
    assert page['databus_streams_records_total{kind="vehicle",outcome="stored",reason=""}'] == LARGE
    assert driver.stop() == 0


def check_stored_once(driver: DriverProcess, number: int) -> None:
    """So many records, each once, and nothing was seen twice."""
    reader = driver.reader()
    ids, cursor = [], ""
    while True:
        rows, cursor = reader.query(Query(), PageRequest(limit=500, cursor=cursor))
        ids += [row.record_id for row in rows]
        if not cursor:
            break
    assert sorted(ids) == sorted(f"id-{n}" for n in range(number))
    assert reader.counts().duplicates.get("vehicle", 0) == 0
    assert sum(cell.valid for cell in reader.quality(from_ms=0, until_ms=0)) == number


@pytest.mark.rotates("a driver alone")
@OURS
def test_a_driver_whose_query_fails_ends_with_an_error(driver: DriverProcess) -> None:
    """The supervisor starts a new one; no driver continues with only some of its queries."""
    driver.start()
    with closing(sqlite3.connect(driver.data_dir / "store" / "records.db")) as database:
        database.execute("DROP TABLE positions")
    driver.send_vehicle(1)
    driver.flush()
    assert driver.process is not None
    assert driver.process.wait(60) == 1
    assert "no such table: positions" in driver.log.read_text(encoding="utf-8")


@pytest.mark.rotates("a driver alone")
@OURS
def test_the_watch_list_alone_needs_no_store(driver: DriverProcess) -> None:
    """Its positions are a consumer group: candidates go on while the store is away, and a driver
    that was killed begins where it stood."""
    driver.put_rule("r1", "浙C00001")
    driver.start("watchlist")
    driver.send_vehicle(1, "浙C00001")
    driver.flush()
    driver.until(lambda: dict(driver.candidates()), {("r1", "id-1"): 1})
    driver.until(lambda: driver.lag("watchlist"), 0)
    driver.kill()
    driver.send_vehicle(2, "浙C00001")
    driver.flush()
    assert driver.lag("watchlist") == 1
    driver.start("watchlist")
    driver.until(lambda: dict(driver.candidates()), {("r1", "id-1"): 1, ("r1", "id-2"): 1})
    assert driver.stop() == 0
    assert not (driver.data_dir / "store").exists()
