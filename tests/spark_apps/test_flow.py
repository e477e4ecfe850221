"""Records flow from the bus into the store and to candidates, through kills and restarts."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pytest

from bus.contracts.meters import Arrived, Sent
from bus.contracts.register import Checkpoint, District
from bus.contracts.topics import (
    CONTROL_REGISTER,
    DATA_VIDEO_SEGMENT,
    METER_ARRIVED,
    METER_SENT,
)
from bus.contracts.video_segments import VideoSegment
from bus.domain.register_changes import entries_from
from bus.domain.times import HOUR_MS, MINUTE_MS, local_time
from ingest.store.port import PageRequest, Query
from tests.spark_apps.ways import drawn_ways

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(400)]

FIRST_MS = local_time("Asia/Shanghai").to_ms("2026-08-24 17:00:30")
AHEAD_MS, WAY_MS = 3 * HOUR_MS, 500
SEGMENT = VideoSegment(
    segment_id="10.0.9.9-5", camera_ip="10.0.9.9", state="stored", start_ms=5, end_ms=10_005,
    name="10.0.9.9/19700101/5-a.mp4", codec="h264", size_bytes=7, sha256="a",
)  # fmt: skip
OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)


@pytest.mark.parametrize(
    ("bootstrap", "work_in"),
    [
        *(("our broker", way) for way in drawn_ways("one run")),
        ("Apache Kafka", "executors"),  # once: its topics are shared by all tests of a worker
    ],
    indirect=True,
)
def test_records_counts_and_candidates_of_one_run(driver: DriverProcess) -> None:
    """Good ones are stored, bad ones kept with their reason, all counted; a new rule applies at once.
    A device whose clock is three hours ahead is found, and its next record has its true time."""
    for number in range(295):
        driver.send_vehicle(number)
    for minute in range(5):
        send_ahead(driver, minute)
    driver.send("data.vehicle", b'{"broken', "bad-1")
    driver.send("data.face", '{"卡口编号": "c"}'.encode(), "bad-2")
    counter = Sent(producer="p", epoch=1, kind="vehicle", camera_ip="10.0.0.1", minute_ms=0, sent=9)
    driver.send(METER_SENT, msgspec.json.encode(counter))
    for number in (4, 7):
        taken = Arrived(
            edge="e/1", epoch=1, kind="vehicle", camera_ip="10.0.0.1", minute_ms=0, arrived=number
        )
        driver.send(METER_ARRIVED, msgspec.json.encode(taken))
    driver.send(DATA_VIDEO_SEGMENT, msgspec.json.encode(SEGMENT))
    driver.flush()
    driver.start()
    driver.until(driver.stored, 300)

    driver.put_rule("r1", "浙C00001")
    driver.put_tree("tree", 'plate_number matches ".*C0000[0-9]" and (lane_id = 77 or during 00:00-24:00)')
    driver.put_tree("misread", "plate_number resembles 浙CD0001 and during 00:00-24:00")
    driver.send_vehicle(1000, "浙 c00001")  # the very next record after the acknowledgement
    for number in range(1001, 1009):
        driver.send_vehicle(number)
    send_ahead(driver, 9)
    driver.flush()
    driver.until(driver.stored, 310)
    found = {(rule_id, "id-1000"): 1 for rule_id in ("r1", "tree", "misread")}
    driver.until(lambda: dict(driver.candidates()), found)
    driver.until(
        lambda: [(c.sent, c.accepted) for c in driver.reader().quality(from_ms=0, until_ms=1)],
        [(9, 7)],
    )
    driver.until(lambda: segments(driver), [SEGMENT])
    gone = msgspec.structs.replace(SEGMENT, state="deleted", reason="age")
    driver.send(DATA_VIDEO_SEGMENT, msgspec.json.encode(gone))
    driver.send(DATA_VIDEO_SEGMENT, msgspec.json.encode(SEGMENT))
    driver.flush()
    driver.until(lambda: segments(driver), [gone])
    driver.until(lambda: driver.lag("ingest"), 0)  # what every tool of Kafka shows
    assert driver.stop() == 0

    counts = driver.reader().counts()
    assert counts.rejected == {"vehicle": {"not-json": 1}, "face": {"no-time": 1}}
    cells = driver.reader().quality(from_ms=0, until_ms=0)
    assert sum(cell.arrived for cell in cells) == 312
    assert sum(cell.valid for cell in cells) == 310
    assert driver.reader().clocks() == {"10.0.0.0": AHEAD_MS - WAY_MS}
    [row], _ = driver.reader().query(Query(record_id="id-2045"), PageRequest())
    assert row.captured_at_ms == FIRST_MS + 9 * MINUTE_MS + WAY_MS
    assert row.claimed_at_ms == FIRST_MS + 9 * MINUTE_MS + AHEAD_MS


def segments(driver: DriverProcess) -> list[VideoSegment]:
    return driver.reader().segments(SEGMENT.camera_ip, from_ms=0, until_ms=0, limit=9)


def send_ahead(driver: DriverProcess, minute: int) -> None:
    """A record of that minute, through an edge, of a device whose clock is ahead."""
    true_ms = FIRST_MS + minute * MINUTE_MS
    time = f"2026-08-24 20:{minute:02d}:30"
    driver.send_vehicle(2000 + 5 * minute, time=time, received_at_ms=true_ms + WAY_MS)


@pytest.mark.rotates("what comes again or changes")
@OURS
@pytest.mark.parametrize("work_in", drawn_ways("register"), indirect=True)
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


@pytest.mark.rotates("what comes again or changes")
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


@pytest.mark.rotates("a driver alone")
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


