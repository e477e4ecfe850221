"""Alarms need neither ingest nor its store: two drivers, and everything of the one is away.

No time is asserted: what is found must keep coming while the other stands.
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
from deploy.setup.jars import spark_connector_jars
from deploy.testservers.databus import start_broker
from deploy.testservers.hbase import Hbase
from ingest.store.port import StoreUnavailable
from tests.processes.small_disk import CannotMount, ResizableDisk
from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(500)]

WATCHED = "浙C00001"
EACH = 20
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


def test_alarms_go_on_while_the_disk_of_the_store_is_full(
    alarms: DriverProcess, bus: BusSettings, jars: list[Path], tmp_path: Path
) -> None:
    """The driver of ingest neither ends nor gives up a batch: with room again, it stores it."""
    try:
        disk = ResizableDisk(tmp_path / "disk", FULL_BYTES)
    except CannotMount as why:
        pytest.skip(f"a full disk needs a file system of its own: {why}")
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
        disk.unmount()


def test_alarms_go_on_while_hbase_is_away(
    alarms: DriverProcess, bus: BusSettings, jars: list[Path], hbase: Hbase, tmp_path: Path
) -> None:
    """Its Thrift server is killed; the driver of ingest waits for it and goes on."""
    url = f"hbase://{hbase.address}/s{uuid.uuid4().hex}"
    ingest = DriverProcess(bus, folder(tmp_path / "ingest"), jars, "executors", url)
    traffic = WatchedTraffic(alarms)
    try:
        ingest.start("ingest")
        traffic.goes_on()
        ingest.until(ingest.stored, traffic.sent)
        hbase.kill_thrift()
        try:
            for _ in range(3):
                traffic.goes_on()
            assert ingest.process is not None
            assert ingest.process.poll() is None, "it waits"
        finally:
            hbase.start_thrift()
        ingest.until(partial(stored_as_far_as_told, ingest), traffic.sent)
        assert ingest.stop() == 0
    finally:
        ingest.close()
