"""Smart cameras whose site is lost send to the other one what they have; nothing is missing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import Consumer
from bus.contracts.headers import RECORD_ID
from bus.contracts.topics import DATA_VEHICLE, TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import start_broker
from ingest.senders.simulator.bus_uplink import BusRecord, BusUplink

RECORDS = 60
WITHIN_S = 30.0


def until_acknowledged(uplink: BusUplink, count: int) -> list[int]:
    found: list[int] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < deadline:
        found += uplink.poll_acknowledged()
        time.sleep(0.01)
    return found


@pytest.mark.slow
def test_what_the_lost_site_has_not_acknowledged_is_sent_to_the_other_one(tmp_path: Path) -> None:
    brokers = [start_broker(tmp_path / name) for name in "ab"]
    buses = [BusSettings(bootstrap_servers=one.bootstrap) for one in brokers]
    for bus in buses:
        admin = Admin(bus, client_id="test")
        admin.ensure_topics([TOPICS[DATA_VEHICLE]])
        admin.close()
    uplink = BusUplink(buses[0], buffer_records=1000, message_timeout_ms=600_000)
    try:
        records = [BusRecord(n, DATA_VEHICLE, None, f"id-{n}", b"{}") for n in range(RECORDS)]
        for record in records[:20]:
            uplink.put(record)
        assert sorted(until_acknowledged(uplink, 20)) == list(range(20))
        brokers[0].kill()
        for record in records[20:40]:
            uplink.put(record)
        uplink.move(buses[1])
        for record in records[40:]:
            uplink.put(record)
        assert sorted(until_acknowledged(uplink, 40)) == list(range(20, RECORDS))
        assert uplink.flush(5)
        with Consumer(buses[1], client_id="check") as consumer:
            consumer.assign(dict.fromkeys(consumer.partitions_of(DATA_VEHICLE), 0))
            found = []
            while not consumer.at_end:
                found += [one.header(RECORD_ID) for one in consumer.poll(1000, 0.2)]
        assert sorted(found) == sorted(f"id-{n}".encode() for n in range(20, RECORDS))
    finally:
        for broker in brokers:
            broker.kill()
