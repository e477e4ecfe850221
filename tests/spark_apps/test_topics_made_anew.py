"""A topic that is deleted and made again under a running driver is read from its start, by itself.

What broke: the driver read nothing of the new topic until it was started again, or ended; it told a
loss where nothing was lost.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from bus.client.followed_topics import SEEN_S
from bus.contracts.alarms import Incident
from bus.contracts.groups import application_group
from bus.contracts.topics import (
    DATA_VEHICLE,
    METER_LATENCY,
    METER_QUALITY,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.settings import BusSettings
from deploy.reconcile.topic_totals import read_topic_totals
from spark_apps.publish.incidents import read_incidents, still_open
from tests.spark_apps.test_lost_records import delete_all
from tests.spark_apps.ways import drawn_ways

if TYPE_CHECKING:
    from tests.spark_apps.conftest import DriverProcess

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True),
]
WATCHED = "浙C00001"


def delete(bus: BusSettings, topics: Sequence[str]) -> None:
    """As Kafka's tool does it."""
    admin = AdminClient({"bootstrap.servers": bus.bootstrap_servers})
    for future in admin.delete_topics(list(topics)).values():
        future.result(30)


def make(bus: BusSettings, topic: str, partitions: int | None = None) -> None:
    """Again, with so many partitions."""
    admin = AdminClient({"bootstrap.servers": bus.bootstrap_servers})
    count = partitions or TOPICS[topic].partitions
    for future in admin.create_topics([NewTopic(topic, count, 1)]).values():
        future.result(30)


def grow(bus: BusSettings, topic: str, partitions: int) -> None:
    """To so many partitions."""
    admin = AdminClient({"bootstrap.servers": bus.bootstrap_servers})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(30)


class NumberedVehicles:
    """Vehicles, numbered; every second one is watched for."""

    def __init__(self, driver: DriverProcess) -> None:
        self._driver = driver
        self.sent = 0

    def send(self, count: int) -> None:
        """Acknowledged when this returns. By a new producer: one that knows the former topic may
        send to partitions that are no longer there."""
        self._driver.new_producer()
        for _ in range(count):
            self._driver.send_vehicle(self.sent, WATCHED if self.sent % 2 else "")
            self.sent += 1
        self._driver.flush()

    def arrives(self) -> None:
        """Everything sent is stored, and everything watched for was found."""
        watched = {("r1", f"id-{number}") for number in range(self.sent) if number % 2}
        self._driver.until(self._driver.stored, self.sent)
        self._driver.until(lambda: set(self._driver.candidates()), watched)


def ends(driver: DriverProcess) -> list[Incident]:
    """Of all losses that were told."""
    found = read_incidents(driver.bus)
    return [one for one in found if one.kind == "lost" and one.state == "closed"]


@pytest.mark.parametrize("work_in", drawn_ways("made anew"), indirect=True)
def test_every_record_of_the_new_topic_is_stored_and_found(driver: DriverProcess) -> None:
    """Nothing was lost, so none is told. Made anew at once, with fewer partitions after a while;
    grown; cut by DeleteRecords where it was read."""
    driver.put_rule("r1", WATCHED)
    driver.start()
    assert driver.process is not None
    pid, traffic = driver.process.pid, NumberedVehicles(driver)
    traffic.send(50)
    traffic.arrives()
    for wait, partitions in ((False, None), (True, 2)):
        said = driver.said("is gone")
        delete(driver.bus, [DATA_VEHICLE])
        if wait:
            driver.until(lambda said=said: driver.said("is gone") > said, True)
        make(driver.bus, DATA_VEHICLE, partitions)
        traffic.send(30)
        traffic.arrives()
    grow(driver.bus, DATA_VEHICLE, 6)
    traffic.send(30)
    traffic.arrives()
    delete_all(driver.bus, DATA_VEHICLE)
    traffic.send(30)
    traffic.arrives()
    assert driver.process.pid == pid
    assert ends(driver) == []
    assert still_open(read_incidents(driver.bus), "lost") == []
    reader = driver.reader()
    assert sum(reader.counts().duplicates.values()) == 0, "each record was read once"
    reader.close()
    assert driver.said("Traceback") == 0
    assert driver.stop() == 0


def test_what_nobody_read_of_the_former_topic_is_told_once(driver: DriverProcess) -> None:
    """The driver stands still while records come and their topic is made anew: it has not seen the
    end, and says so; the driver after it tells nothing."""
    driver.start("ingest", "watchlist")
    assert driver.process is not None
    traffic = NumberedVehicles(driver)
    traffic.send(20)
    driver.until(driver.stored, 20)
    os.kill(driver.process.pid, signal.SIGSTOP)
    traffic.send(40)
    time.sleep(SEEN_S)
    delete(driver.bus, [DATA_VEHICLE])
    make(driver.bus, DATA_VEHICLE)
    traffic.send(7)
    os.kill(driver.process.pid, signal.SIGCONT)
    driver.until(driver.stored, 27)
    told = {"subject": "watchlist+ingest", "stage": "watchlist+ingest", "lost": "0",
            "topics": DATA_VEHICLE, "end_unseen": DATA_VEHICLE}  # fmt: skip
    driver.until(lambda: [one.detail for one in ends(driver)], [told])
    assert driver.stop() == 0
    driver.start("ingest", "watchlist")
    traffic.send(3)
    driver.until(driver.stored, 30)
    driver.until(lambda: driver.lag("watchlist"), 0)
    assert [one.detail for one in ends(driver)] == [told]
    assert driver.stop() == 0


def test_meters_made_anew_are_judged_on(driver: DriverProcess) -> None:
    """The topics of latency, quality and the rules; queries of other topics are not disturbed."""
    driver.start()
    assert driver.process is not None
    pid, traffic = driver.process.pid, NumberedVehicles(driver)
    for topic, query in ((METER_LATENCY, "latency"), (METER_QUALITY, "quality")):
        delete(driver.bus, [topic])
        make(driver.bus, topic)
        driver.until(lambda query=query: driver.said(f"{query} began anew"), 1)
        traffic.send(10)
        driver.until(partial(behind, driver, query, topic), 0)
    delete(driver.bus, [STATE_WATCHLIST])
    make(driver.bus, STATE_WATCHLIST)
    driver.new_producer()
    driver.put_rule("r1", WATCHED)
    first = traffic.sent
    traffic.send(10)
    wanted = {("r1", f"id-{number}") for number in range(first, traffic.sent) if number % 2}
    driver.until(lambda: wanted <= set(driver.candidates()), True)
    driver.until(driver.stored, traffic.sent)
    assert driver.said("watchlist+ingest began anew") == 0
    assert driver.process.pid == pid
    assert driver.stop() == 0


def behind(driver: DriverProcess, application: str, topic: str) -> int:
    """Records of a topic beyond what an application has committed, once there are some; -1 before."""
    totals = read_topic_totals(driver.bus, [topic])
    if not totals.on_topic(topic):
        return -1
    return totals.behind_group(application_group(application), [topic])
