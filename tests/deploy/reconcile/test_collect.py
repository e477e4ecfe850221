"""The account of a running bus: a real broker, a real store, and an ingest that lags behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import OperationsStore
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import admin_client, describe
from bus.client.kafka.producer import Producer
from bus.contracts.topics import DATA_VEHICLE, METER_SENT, TOPICS
from bus.settings import BusSettings
from deploy.reconcile import collect
from deploy.reconcile.topic_totals import read_topic_totals
from deploy.servers.databus import RunningBroker, start_broker
from deploy.settings.composed import Settings, load
from ingest.store.open import open_store
from ingest.store.port import Position, StoreBatch
from tests.ingest.store.made import MINUTE, quality, row, sent

LAG = 3  # records that the store is behind the topic


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path_factory.mktemp("broker"))
    Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="t").ensure_topics(
        TOPICS.values()
    )
    yield running
    running.stop()


class RecordFlow:
    """A device that sends, and an ingest that stores what it sent a little later, until stopped."""

    def __init__(self, settings: Settings) -> None:
        self._store = open_store(settings.store.records_url(settings.site), "write")
        cluster = describe(admin_client(settings.bus), list(TOPICS))
        self._ids = cluster.cluster_id, cluster.topic_ids[DATA_VEHICLE]
        self._producer = Producer(settings.bus, client_id="device")
        self._stopping = threading.Event()
        self.sent = self.stored = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        for _ in range(LAG):
            self._send()
        self._thread.start()

    def stop(self) -> None:
        """The device stops; ingest stores the rest."""
        self._stopping.set()
        self._thread.join()
        while self.stored < self.sent:
            self._store_one()

    def close(self) -> None:
        self._producer.close()
        self._store.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._send()
            self._store_one()

    def _send(self) -> None:
        self._producer.send(DATA_VEHICLE, b"{}", partition=0)
        self._producer.flush(10)
        self.sent += 1

    def _store_one(self) -> None:
        n, (cluster_id, topic_id) = self.stored, self._ids
        place = Position(
            application="ingest", cluster_id=cluster_id, topic=DATA_VEHICLE, topic_id=topic_id,
            partition=0, end_offset=n + 1, start_offset=n,
        )  # fmt: skip
        cells = [quality(recognizer_ip="10.0.1.1", arrived=1, valid=1)]
        self._store.apply(StoreBatch(rows=[row(n)], quality=cells), [place])
        self.stored += 1


def test_an_account_of_a_living_bus_is_of_one_moment(tmp_path: Path, broker: RunningBroker) -> None:
    """Before, it said "7 off" while records came, because topics, store and positions were read one
    after the other. When they have stopped coming, everything is judged."""
    flags = [f"site.data_dir={tmp_path}", f"bus.bootstrap_servers={broker.bootstrap}"]
    settings = load(None, flags, {})
    OperationsStore(tmp_path / "store" / "operations.db").close()  # there are no alarms
    flow = RecordFlow(settings)
    flow.start()
    try:
        living = [collect.reconcile(settings) for _ in range(3)]
    finally:
        flow.stop()
    rested = collect.reconcile(settings)
    flow.close()
    assert [account.faults for account in living] == [[]] * 3
    assert all(account.is_alive for account in living)
    (vehicles,) = (line for line in rested.flows if line.kind == DATA_VEHICLE)
    assert (rested.is_alive, rested.faults) == (False, [])
    assert (vehicles.arrived, vehicles.stored, vehicles.in_flight) == (flow.sent, flow.sent, 0)


def test_the_minutes_that_differ_are_those_of_devices_that_count_the_largest_first() -> None:
    """A device that never counts has nothing to differ from. Both senders of a device are one sum."""
    cells = [
        quality(sent=46, stored=25),
        quality(minute_ms=60_000, sent=2, stored=1, rejected={"not-json": 1}),
        quality(minute_ms=120_000, recognizer_ip="a", sent=3, stored=3),
        quality(minute_ms=120_000, recognizer_ip="b", sent=1, stored=0),
        quality(camera_ip="10.0.0.2", stored=7),
        quality(kind="face", sent=9),
    ]
    found = collect._differences(cells, ["vehicle"])
    assert [(one.minute_ms, one.sent, one.kept) for one in found] == [(MINUTE, 46, 25), (120_000, 4, 3)]


def test_the_sender_of_a_count_is_read_from_the_bus(broker: RunningBroker) -> None:
    """What is no count there is nobody's."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    producer = Producer(bus, client_id="device")
    for value in (msgspec.json.encode(sent(46)), b"{", b"\xff"):
        producer.send(METER_SENT, value)
    assert producer.close() == 0
    senders = collect._senders(read_topic_totals(bus, [METER_SENT]))
    assert senders == {("10.0.0.1", MINUTE): {"server-1"}}
