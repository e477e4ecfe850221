"""Alarms need neither ingest nor its store: two drivers, and everything of the one is away.

What is found must keep coming while the other stands, in one fault that the run draws; how soon,
`./databus bench ingest --only fault` measures for all three.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings
from deploy.errors import Unavailable
from deploy.servers.databus import start_broker
from deploy.servers.hbase import Hbase
from deploy.servers.small_disk import ResizableDisk
from deploy.servers.tcp_proxy import TcpProxy
from deploy.setup.jars import spark_connector_jars
from ingest.store.port import StoreUnavailable
from tests.own_disk import own_disk
from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(500)]

WATCHED = "浙C00001"
EACH = 20
ONE_FAULT = pytest.mark.rotates("a driver is dead or ingest cannot work")
LONG_PAUSE = "trying again in 5.0 s"
FULL_BYTES, ROOMY_BYTES = 8 << 20, 256 << 20


@pytest.fixture
def jars() -> list[Path]:
    try:
        return spark_connector_jars()
    except Unavailable as missing:
        pytest.skip(f"Spark's Kafka connector: {missing}")


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusSettings]:
    broker = start_broker(tmp_path / "broker")
    settings = BusSettings(bootstrap_servers=broker.bootstrap)
    Admin(settings, client_id="test").ensure_topics(TOPICS.values())
    yield settings
    broker.stop()


@pytest.fixture
def alarms(bus: BusSettings, jars: list[Path], tmp_path: Path) -> Iterator[DriverProcess]:
    """The watch list alone; its rule is there and it runs."""
    found = DriverProcess(bus, folder(tmp_path / "alarms"), jars)
    found.put_rule("r1", WATCHED)
    found.start("watchlist")
    yield found
    found.close()


def stored_as_far_as_told(ingest: DriverProcess) -> int:
    """The number of records in the store; -1 while it does not answer."""
    try:
        return ingest.stored()
    except StoreUnavailable:
        return -1


def folder(path: Path) -> Path:
    path.mkdir()
    return path


class WatchedTraffic:
    """Records of which every second one is watched for."""

    def __init__(self, alarms: DriverProcess) -> None:
        self.alarms = alarms
        self.sent = 0

    def goes_on(self) -> None:
        """So many records more, and each watched one is found."""
        for _ in range(EACH):
            self.alarms.send_vehicle(self.sent, WATCHED if self.sent % 2 else "")
            self.sent += 1
        self.alarms.flush()
        watched = {("r1", f"id-{number}") for number in range(self.sent) if number % 2}
        self.alarms.until(lambda: set(self.alarms.candidates()), watched)


@ONE_FAULT
def test_two_drivers_of_the_watch_list_run_on_one_data_directory(
    alarms: DriverProcess, jars: list[Path], tmp_path: Path
) -> None:
    """kill -9 of one: the other goes on, without a start. What broke: the second to start removed
    the checkpoint of the first, whose query ended."""
    second = DriverProcess(alarms.bus, tmp_path / "alarms", jars, name="second")
    traffic = WatchedTraffic(alarms)
    try:
        second.start("watchlist")
        traffic.goes_on()
        assert alarms.process is not None
        assert alarms.process.poll() is None, "the first ran on"
        alarms.kill()
        traffic.alarms = second
        traffic.goes_on()
        second.until(lambda: second.lag("watchlist"), 0)
        assert second.stop() == 0
        assert second.log.read_text("utf-8").count("streams: ready") == 1
    finally:
        second.close()


@ONE_FAULT
def test_alarms_go_on_while_the_driver_of_ingest_is_dead(
    alarms: DriverProcess, bus: BusSettings, jars: list[Path], tmp_path: Path
) -> None:
    """kill -9; whoever comes after it stores what passed meanwhile."""
    ingest = DriverProcess(bus, folder(tmp_path / "ingest"), jars)
    traffic = WatchedTraffic(alarms)
    try:
        ingest.start("ingest", "latency", "quality")
        traffic.goes_on()
        ingest.until(ingest.stored, traffic.sent)
        ingest.kill()
        for _ in range(3):
            traffic.goes_on()
        assert ingest.stored() == EACH, "nobody stores"
        ingest.start("ingest", "latency", "quality")
        ingest.until(ingest.stored, traffic.sent)
    finally:
        ingest.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ResizableDisk]:
    """Of the record store alone."""
    with own_disk(tmp_path / "disk", FULL_BYTES) as mounted:
        yield mounted


@ONE_FAULT
def test_alarms_go_on_while_the_disk_of_the_store_is_full(
    alarms: DriverProcess, bus: BusSettings, jars: list[Path], disk: ResizableDisk, tmp_path: Path
) -> None:
    """The driver of ingest neither ends nor gives up a batch: with room again, it stores it."""
    url = f"sqlite://{disk.folder / 'records.db'}"
    ingest = DriverProcess(bus, folder(tmp_path / "ingest"), jars, store_url=url)
    traffic = WatchedTraffic(alarms)
    try:
        ingest.start("ingest")
        traffic.goes_on()
        ingest.until(ingest.stored, traffic.sent)
        (disk.folder / "ballast").write_bytes(b"x" * (disk.free_bytes - 1))
        for _ in range(3):
            traffic.goes_on()
        ingest.until(lambda: "trying again" in ingest.log.read_text("utf-8"), True)
        traffic.goes_on()
        disk.resize(ROOMY_BYTES)
        ingest.until(ingest.stored, traffic.sent)
        assert ingest.stop() == 0
    finally:
        ingest.close()


@ONE_FAULT
def test_alarms_go_on_while_hbase_is_away(
    alarms: DriverProcess, bus: BusSettings, jars: list[Path], hbase: Hbase, tmp_path: Path
) -> None:
    """First the tasks of ingest do not reach it, for longer than a task waits (20 s): the driver does
    the same batch again under the same number, when it reaches it itself. Then its Thrift server is
    killed. The driver stays."""
    host, _, port = hbase.address.partition(":")
    proxy = TcpProxy(host, int(port))
    url = f"hbase://{proxy.address}/s{uuid.uuid4().hex}"
    ingest = DriverProcess(bus, folder(tmp_path / "ingest"), jars, "executors", url)
    traffic = WatchedTraffic(alarms)
    try:
        ingest.start("ingest")
        proxy.refuses_new = True  # the driver has its line, tasks have none yet
        traffic.goes_on()
        ingest.until(lambda: ingest.said("the same is done again") > 0, True)
        before = ingest.said(LONG_PAUSE)  # by now the driver, too, has opened its line anew
        traffic.goes_on()
        ingest.until(lambda: ingest.said(LONG_PAUSE) > before + 1, True)
        proxy.refuses_new = False
        ingest.until(partial(stored_as_far_as_told, ingest), traffic.sent)
        hbase.kill_thrift()
        try:
            for _ in range(3):
                traffic.goes_on()
            assert ingest.process is not None
            assert ingest.process.poll() is None, "it waits"
        finally:
            hbase.start_thrift()
        ingest.until(partial(stored_as_far_as_told, ingest), traffic.sent)
        assert ingest.said("streams: ready") == 1, "it is the same driver"
        assert ingest.failed_attempts() == ()
        assert ingest.stop() == 0
    finally:
        ingest.close()
        proxy.close()
