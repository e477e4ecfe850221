"""Records flow from the bus into the store and to candidates, through kills and restarts."""

from __future__ import annotations

import itertools
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import msgspec
import pytest

from bus.contracts.meters import Arrived, Sent
from bus.contracts.register import Checkpoint, District
from bus.contracts.topics import CONTROL_REGISTER, METER_ARRIVED, METER_SENT
from bus.domain.register_changes import entries_from
from ingest.store.port import PageRequest, Query
from tests.spark_apps.ways import WAYS, drawn_ways

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
TWO_WAYS = pytest.mark.parametrize("work_in", drawn_ways(2), indirect=True)


@pytest.mark.parametrize(
    ("bootstrap", "work_in"),
    [
        *(("our broker", way) for way in WAYS),
        ("Apache Kafka", "executors"),  # once: its topics are shared by all tests of a worker
    ],
    indirect=True,
)
def test_records_counts_and_candidates_of_one_run(driver: DriverProcess) -> None:
    """Good ones are stored, bad ones kept with their reason, all counted; a new rule applies at once."""
    for number in range(300):
        driver.send_vehicle(number)
    driver.send("data.vehicle", b'{"broken', "bad-1")
    driver.send("data.face", '{"卡口编号": "c"}'.encode(), "bad-2")
    counter = Sent(producer="p", epoch=1, kind="vehicle", camera_ip="10.0.0.1", minute_ms=0, sent=9)
    driver.send(METER_SENT, msgspec.json.encode(counter))
    for number in (4, 7):
        taken = Arrived(
            edge="e/1", epoch=1, kind="vehicle", camera_ip="10.0.0.1", minute_ms=0, arrived=number
        )
        driver.send(METER_ARRIVED, msgspec.json.encode(taken))
    driver.flush()
    driver.start()
    driver.until(driver.stored, 300)

    driver.put_rule("r1", "浙C00001")
    driver.send_vehicle(1000, "浙 c00001")  # the very next record after the acknowledgement
    for number in range(1001, 1010):
        driver.send_vehicle(number)
    driver.flush()
    driver.until(driver.stored, 310)
    driver.until(lambda: dict(driver.candidates()), {("r1", "id-1000"): 1})
    driver.until(
        lambda: [(c.sent, c.accepted) for c in driver.reader().quality(from_ms=0, until_ms=1)],
        [(9, 7)],
    )
    assert driver.stop() == 0

    counts = driver.reader().counts()
    assert counts.rejected == {"vehicle": {"not-json": 1}, "face": {"no-time": 1}}
    cells = driver.reader().quality(from_ms=0, until_ms=0)
    assert sum(cell.arrived for cell in cells) == 312
    assert sum(cell.valid for cell in cells) == 310


@OURS
@TWO_WAYS
def test_an_edit_of_the_register_reaches_a_running_driver(driver: DriverProcess) -> None:
    """The next records of a checkpoint are stored in its new district."""
    place = Checkpoint(checkpoint_id="c0", name="", name_en="", district_id="west", latitude=30.0,
                       longitude=120.0)  # fmt: skip
    district = District(district_id="west", name="", name_en="")
    for number, moved in enumerate(("west", "east")):
        entries = entries_from([district, msgspec.structs.replace(place, district_id=moved)])
        for entry in entries:
            driver.send(CONTROL_REGISTER, msgspec.json.encode(entry), key=entry.key)
        driver.flush()
        if not number:
            driver.start()
        sent = itertools.count(7 * 1000 * (number + 1), 7)  # of checkpoint c0

        def is_there(moved: str = moved, sent: Iterator[int] = sent) -> bool:
            """One more record each time: it is the newest that says where it belongs."""
            driver.send_vehicle(next(sent))
            driver.flush()
            return driver.reader().count(Query(district_id=moved)) > 0

        driver.until(is_there, True)
    assert driver.stop() == 0


@OURS
@TWO_WAYS
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
@TWO_WAYS
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


@OURS
def test_what_is_sent_again_changes_nothing_and_is_counted(driver: DriverProcess) -> None:
    """A sender's retry has the same id: the first write wins, the second is a duplicate."""
    for number in range(50):
        driver.send_vehicle(number)
    driver.flush()
    driver.start()
    driver.until(driver.stored, 50)
    first, _ = driver.reader().query(Query(record_id="id-7"), PageRequest())
    for number in range(50):
        driver.send_vehicle(number)
    driver.flush()
    driver.until(lambda: driver.reader().counts().duplicates.get("vehicle", 0), 50)
    again, _ = driver.reader().query(Query(record_id="id-7"), PageRequest())
    assert (driver.stored(), again) == (50, first)
    assert driver.stop() == 0

    shutil.rmtree(driver.data_dir / "store")  # positions are the store's alone
    driver.start()
    driver.until(driver.stored, 50)
    assert driver.stop() == 0


@OURS
def test_each_application_also_starts_alone(driver: DriverProcess) -> None:
    """A driver of ingest only runs first; the whole driver then continues at its positions."""
    driver.send_vehicle(1)
    driver.flush()
    driver.start("ingest")
    driver.until(driver.stored, 1)
    assert driver.stop() == 0
    driver.put_rule("r1", "浙C00001")
    driver.send_vehicle(2, "浙C00001")
    driver.flush()
    driver.start()
    driver.until(driver.stored, 2)
    driver.until(lambda: set(driver.candidates()), {("r1", "id-2")})
    assert driver.stop() == 0
    assert driver.reader().counts().duplicates == {}


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
    assert "failed" in driver.log.read_text(encoding="utf-8")


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
