"""What a query did not get to read is counted and told, and nothing else is."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import msgspec
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st

from bus.client.kafka.cluster import admin_client, describe
from bus.client.kafka.consumer import Consumer
from bus.client.model import ClusterIdentity
from bus.contracts.alarms import BY_WATCH, Incident
from bus.contracts.topics import METER_LATENCY
from bus.settings import BusSettings
from spark_apps.publish.incidents import read_incidents, still_open
from spark_apps.source.group_positions import GroupPositions
from spark_apps.source.lost_records import LostRecords
from tests.spark_apps.ways import drawn_ways

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

A, B = ("data.vehicle", 0), ("data.vehicle", 1)


def told(lost: LostRecords, starts: dict[tuple[str, int], int]) -> list[tuple[str, str]]:
    """State and number of what is published now."""
    return [(one.state, one.detail["lost"]) for one in lost.incidents(starts, 5)]


def test_a_batch_with_all_its_records_is_never_asked_about() -> None:
    """No question to the cluster, whatever retention does afterwards."""
    lost = LostRecords("q")
    lost.read({A: (5, 9), B: (0, 2)}, 6)
    assert not lost.is_open()
    assert told(lost, {A: 100, B: 100}) == []


def test_an_incident_opens_grows_and_is_closed_with_the_whole_number() -> None:
    """One for as long as more is missing."""
    lost = LostRecords("q")
    lost.read({A: (5, 9), B: (0, 2)}, 3)
    assert lost.partitions() == [A, B]
    assert told(lost, {A: 8, B: 0}) == [("open", "3")]
    lost.add({B: 4})
    assert told(lost, {}) == [("open", "7")]
    assert told(lost, {}) == [("closed", "7")]
    assert not lost.is_open()


def test_holes_that_no_retention_made_are_no_loss() -> None:
    """Markers of transactions take offsets and are no records."""
    lost = LostRecords("q")
    lost.read({A: (5, 9)}, 2)
    assert told(lost, {A: 5}) == []
    assert not lost.is_open()


def test_a_range_waits_until_the_cluster_says_where_its_log_begins() -> None:
    """And grows meanwhile instead of becoming many."""
    lost = LostRecords("q")
    for end in range(1, 50):
        lost.read({A: (end - 1, end)}, 0)
    assert lost.partitions() == [A]
    assert told(lost, {}) == []
    assert told(lost, {A: 30}) == [("open", "30")]


def test_the_incident_of_a_driver_before_is_closed_by_this_one() -> None:
    """Those of other queries are not ours, nor those of the watch, which begin with the same words
    where the query is named as its stage: it was closed by the driver, and told twice."""
    lost = LostRecords("q")
    ours, others = (
        Incident(incident_id=f"lost:{name}:1", kind="lost", state="open", opened_at_ms=1,
                 detail={"lost": "2"})
        for name in ("q", "q2")
    )  # fmt: skip
    of_the_watch = msgspec.structs.replace(ours, incident_id="lost:q:2", notified_by=BY_WATCH)
    lost.resume([ours, others, of_the_watch])
    assert [(one.incident_id, one.state) for one in lost.incidents({}, 5)] == [
        ("lost:q:1", "closed")
    ]


@given(st.integers(0, 300), st.integers(0, 300), st.booleans())
def test_what_the_watch_has_told_is_not_told_again(
    lost_count: int, told_count: int, ours: bool
) -> None:
    """While the driver was away: one loss of 220 records made three incidents. What went after the
    watch's last look is told, and what another stage lost is not taken for ours."""
    lost = LostRecords("watchlist+ingest", {"watchlist": [A[0]], "ingest": [A[0]]})
    by_watch = Incident(
        incident_id="lost:ingest+watchlist:1", kind="lost", state="open", opened_at_ms=1,
        notified_by=BY_WATCH,
        detail={"stage": "ingest+watchlist" if ours else "quality", "lost": str(told_count)},
    )  # fmt: skip
    lost.add_of_readers({"watchlist": {A: lost_count}, "ingest": {A: lost_count}})
    lost.cover_by_watch([by_watch])
    left = lost_count - told_count * ours
    opened = told(lost, {})
    assert opened == ([("open", str(left))] if left > 0 and lost_count else [])
    lost.add({A: 5})
    lost.cover_by_watch([by_watch])
    after = told(lost, {})
    assert after == [("open", str(5 + max(0, left)))], "an incident of the watch counts once"


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=30))
def test_never_more_than_was_taken_and_never_less(batches: list[tuple[int, int, bool]]) -> None:
    """Batches of some records, of whose range retention has taken the first ones by then."""
    lost, position, taken, told_closed = LostRecords("q"), 0, 0, 0
    for size, wanted, is_counted in batches:
        gone = min(size, wanted)
        offsets, starts = {A: (position, position + size)}, {A: position + gone}
        if is_counted:
            lost.read(offsets, size - gone)
        else:
            lost.check(offsets, starts)
        position, taken = position + size, taken + gone
        told_closed += sum(int(n) for state, n in told(lost, starts) if state == "closed")
    assert told_closed + sum(int(n) for state, n in told(lost, {}) if state == "closed") == taken
    assert not lost.is_open()


@pytest.mark.java
@pytest.mark.timeout(400)
@pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
@pytest.mark.parametrize("work_in", drawn_ways("lost"), indirect=True)
def test_what_retention_takes_and_positions_of_an_earlier_topic_are_incidents(
    driver: DriverProcess,
) -> None:
    """The driver stands still while records pass it and are deleted; the rest is stored."""
    commit_on_an_earlier_topic(driver.bus, "latency", METER_LATENCY)
    driver.start("ingest", "latency")
    for number in range(50):
        driver.send_vehicle(number)
    driver.flush()
    driver.until(driver.stored, 50)
    assert driver.process is not None
    os.kill(driver.process.pid, signal.SIGSTOP)
    for number in range(50, 150):
        driver.send_vehicle(number)
    driver.flush()
    delete_all(driver.bus, "data.vehicle")
    for number in range(150, 160):
        driver.send_vehicle(number)
    driver.flush()
    os.kill(driver.process.pid, signal.SIGCONT)
    driver.until(driver.stored, 60)

    def lost() -> int:
        ends = [one.detail for one in read_incidents(driver.bus) if one.state == "closed"]
        return sum(int(one.get("lost", 0)) for one in ends if one["stage"] == "ingest")

    driver.until(lost, 100)
    found = read_incidents(driver.bus)
    assert still_open(found, "lost") == []
    void = {"subject": "latency", "stage": "latency", "replaced": METER_LATENCY}
    assert [one.state for one in found if one.detail == void] == ["open", "closed"]
    assert driver.stop() == 0


def commit_on_an_earlier_topic(bus: BusSettings, application: str, topic: str) -> None:
    """What a driver left before its topic was made anew."""
    here = describe(admin_client(bus), [topic])
    earlier = ClusterIdentity(here.cluster_id, {topic: "earlier"}, here.partitions)
    group = GroupPositions(bus, application, earlier, [topic], threading.Event())
    group.read()
    group.commit_soon({(topic, 0): 7})
    group.flush(60)
    group.close()


def delete_all(bus: BusSettings, topic: str) -> None:
    """What retention does, at once: every partition begins at its end."""
    with Consumer(bus, client_id="test") as consumer:
        ends = {place: consumer.bounds(place)[1] for place in consumer.partitions_of(topic)}
    admin = AdminClient({"bootstrap.servers": bus.bootstrap_servers})
    asked = admin.delete_records([TopicPartition(topic, p.partition, e) for p, e in ends.items()])
    for future in asked.values():
        future.result(30)
