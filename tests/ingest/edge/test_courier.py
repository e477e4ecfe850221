"""The courier before a real broker: what the brokers refuse for ever does not stop the rest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from broker.server.embedded import RunningBroker
from bus.client.consumer import BEGINNING, Consumer, Place
from bus.contracts import topics
from bus.settings import BusSettings
from ingest.edge.courier import Courier
from ingest.spool import Entry, Spool


def entry(topic: str, number: int, size: int) -> Entry:
    return Entry(
        topic=topic, key=b"k", value=b"%d " % number + b"x" * size, timestamp_ms=1, tally="a",
        headers=[("record-id", b"%d" % number)],
    )  # fmt: skip


@pytest.mark.slow
async def test_a_message_no_broker_takes_is_quarantined_and_the_next_ones_follow(
    bus_of_edge: RunningBroker, tmp_path: Path
):
    """Larger than the client and the brokers allow: kept as far as it fits, with its size."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    spool = Spool(tmp_path, max_bytes=1 << 30)
    sizes = [10, 3_000_000, 10]
    await spool.append([entry(topics.DATA_FACE, i, size) for i, size in enumerate(sizes)])
    courier = Courier(spool, bus, 100)
    courier.start()
    deadline = time.monotonic() + 60
    while spool.drained_sequence < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    courier.stop()
    assert (spool.drained_sequence, courier.failures) == (3, 0)
    spool.close()
    consumer = Consumer(bus, client_id="test")
    consumer.assign({Place(topics.QUARANTINE_RECORDS, 0): BEGINNING})
    while time.monotonic() < deadline:
        for found in consumer.take(100, 0.5):
            if found.header("record-id") == b"1" and found.header("reason") == b"too-large":
                assert found.header("kind") == b"face"
                assert int(found.header("truncated") or 0) > 3_000_000
                consumer.close()
                return
    raise AssertionError("it is not in the quarantine")
