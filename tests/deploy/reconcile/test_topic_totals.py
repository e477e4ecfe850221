"""What the bus says of records that an edge put aside: a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.log import Log
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.headers import KIND
from bus.contracts.topics import DATA_FACE, DATA_VEHICLE, QUARANTINE_RECORDS, TOPICS
from bus.records.build import build_batch
from bus.settings import BusSettings
from deploy.reconcile.topic_totals import PutAside, read_topic_totals, read_up_to
from deploy.servers.databus import RunningBroker, start_broker
from ingest.store.port import Position

MEANT = (DATA_VEHICLE, DATA_FACE, DATA_VEHICLE, DATA_FACE, DATA_FACE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    yield running
    running.stop()


def test_a_record_put_aside_is_in_flight_for_its_own_kind_only(broker: RunningBroker) -> None:
    """Regression: while ingest was behind, each kind's account had the in-flight records of all."""
    bus = BusSettings(bootstrap_servers=broker.bootstrap)
    Admin(bus, client_id="t").ensure_topics(TOPICS.values())
    producer = Producer(bus, client_id="edge")
    for kind in MEANT:
        producer.send(QUARANTINE_RECORDS, b"{}", partition=0, headers=[(KIND, kind.encode())])
    producer.flush(10)
    producer.close()
    totals = read_topic_totals(bus, (QUARANTINE_RECORDS,))
    passed = Position(
        application="ingest", cluster_id=totals.cluster.cluster_id, topic=QUARANTINE_RECORDS,
        topic_id=totals.cluster.topic_ids[QUARANTINE_RECORDS], partition=0, end_offset=2,
        start_offset=0,
    )  # fmt: skip
    assert totals.put_aside("ingest", [passed]) == {
        DATA_VEHICLE: PutAside(arrived=2, in_flight=1),
        DATA_FACE: PutAside(arrived=3, in_flight=2),
    }
    assert totals.put_aside("ingest", [])[DATA_FACE] == PutAside(arrived=3, in_flight=3)


def test_a_topic_is_read_to_its_end_where_that_is_no_record(tmp_path: Path) -> None:
    """What a cleaner leaves of a batch ends a partition, or the marker of a transaction: a reader
    that waited for the last offset waited until its time was over."""
    running = start_broker(tmp_path / "broker")
    bus = BusSettings(bootstrap_servers=running.bootstrap)
    Admin(bus, client_id="t").ensure_topics(TOPICS.values())
    producer = Producer(bus, client_id="edge")
    producer.send(QUARANTINE_RECORDS, b"{}", partition=0)
    producer.flush(10)
    producer.close()
    running.stop()
    [directory] = (tmp_path / "broker").rglob(f"{QUARANTINE_RECORDS}-0")
    log = Log(str(directory), disk=RealDisk(), config=TopicConfig(), now_ms=0)
    emptied = build_batch([], base_offset=log.end_offset, base_timestamp=0, last_offset_delta=4)
    log.append_as_follower(emptied, 0)
    log.close()
    running = start_broker(tmp_path / "broker")
    try:
        bus = BusSettings(bootstrap_servers=running.bootstrap)
        totals = read_topic_totals(bus, (QUARANTINE_RECORDS,))
        ends = {p: end for (_, p), end in totals.end_offsets.items() if end}
        assert ends == {0: 6}
        found = list(read_up_to(bus, QUARANTINE_RECORDS, ends))
        assert [record.offset for record in found] == [0]
    finally:
        running.stop()
