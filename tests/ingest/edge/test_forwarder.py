"""The forwarder with a real broker: records that brokers refuse for ever do not stop the rest."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.errors import DeliveryError
from bus.client.kafka.producer import OnDelivery, RecordMetadata
from bus.client.model import TopicPartition
from bus.contracts import topics
from bus.errors import ErrorCode
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from ingest.edge.forwarder import ProducerSession, SpoolForwarder
from ingest.edge.sites.site_route import SiteRoute
from ingest.spool import Queued, Spool, SpoolEntry


def entry(topic: str, number: int, size: int) -> SpoolEntry:
    return SpoolEntry(
        topic=topic, key=b"k", value=b"%d " % number + b"x" * size, timestamp_ms=1, tally="a",
        headers=[("record-id", b"%d" % number)],
    )  # fmt: skip


@pytest.mark.slow
async def test_a_message_no_broker_takes_is_quarantined_and_the_next_ones_follow(
    bus_of_edge: RunningBroker, tmp_path: Path
):
    """Larger than the client and the brokers allow: kept as far as it fits, with its size."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    spool = Spool(tmp_path / "records", max_bytes=1 << 30)
    sizes = [10, 3_000_000, 10]
    await spool.append([entry(topics.DATA_FACE, i, size) for i, size in enumerate(sizes)])
    forwarder = SpoolForwarder(spool, SiteRoute(tmp_path, bus, None), 100)
    forwarder.start()
    deadline = time.monotonic() + 60
    while spool.drained_sequence < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    forwarder.stop()
    assert (spool.drained_sequence, forwarder.failures) == (3, 0)
    spool.close()
    consumer = Consumer(bus, client_id="test")
    consumer.assign({TopicPartition(topics.QUARANTINE_RECORDS, 0): BEGINNING})
    while time.monotonic() < deadline:
        for found in consumer.poll(100, 0.5):
            if found.header("record-id") == b"1" and found.header("reason") == b"too-large":
                assert found.header("kind") == b"face"
                assert int(found.header("truncated") or 0) > 3_000_000
                consumer.close()
                return
    raise AssertionError("it is not in the quarantine")


class FullProducer:
    """A producer with room for one record, which only its own thread makes, as librdkafka's."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.senders: list[int] = []
        self._room = threading.Semaphore(1)
        self._waiting: list[tuple[str, OnDelivery]] = []
        self._there = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._poll, daemon=True)
        self.thread.start()

    def send(self, topic: str, value: bytes, *, on_delivery: OnDelivery, **_: Any) -> None:
        self.senders.append(threading.get_ident())
        assert self._room.acquire(timeout=30), "no delivery makes room"
        self._waiting.append((topic, on_delivery))
        self._there.release()

    def _poll(self) -> None:
        while True:
            self._there.acquire()
            topic, told = self._waiting.pop(0)
            if topic == topics.QUARANTINE_RECORDS:
                told(RecordMetadata(topic, 0, len(self.sent), 1))
            else:
                told(DeliveryError(ErrorCode.MESSAGE_TOO_LARGE, "planted", topic))
            self.sent.append(topic)
            self._room.release()

    def close(self, timeout_s: float) -> int:
        return 0


async def test_what_a_broker_refuses_is_quarantined_by_the_forwarder_not_in_the_delivery_callback(
    tmp_path: Path,
):
    """Only the callback's thread makes room in the queue, so it would wait for itself there."""
    spool = Spool(tmp_path, max_bytes=1 << 30)
    await spool.append([entry(topics.DATA_FACE, number, 100_000) for number in range(3)])
    producer = FullProducer()
    flight = ProducerSession(spool, producer, 100)  # type: ignore[arg-type]
    flight.run(lambda: spool.drained_sequence == 3)
    assert set(producer.senders) == {threading.get_ident()}
    assert producer.sent.count(topics.QUARANTINE_RECORDS) == 3
    spool.close()


class SourceOfThree:
    """Three messages; what is under way is delivered while the session waits, as by another
    thread."""

    def __init__(self) -> None:
        self.drained_sequence = self.waits = self._read = 0
        self.under_way: list[OnDelivery] = []

    def read(self, max_messages: int) -> list[Queued]:
        found = [
            Queued(number, entry(topics.DATA_FACE, number, 10))
            for number in range(self._read, min(self._read + max_messages, 3))
        ]
        self._read += len(found)
        return found

    def wait(self, timeout_s: float) -> None:
        self.waits += 1
        for number, told in enumerate(self.under_way):
            told(RecordMetadata(topics.DATA_FACE, 0, number, 1))
        self.under_way.clear()

    def wake(self) -> None:
        """Nobody waits."""

    def acknowledge(self, end_sequence: int, rows: object) -> None:
        self.drained_sequence = end_sequence

    def send(self, topic: str, value: bytes, *, on_delivery: OnDelivery, **_: Any) -> None:
        self.under_way.append(on_delivery)


def test_a_delivery_that_makes_room_is_followed_by_the_next_message_at_once():
    """One message under way at most; a second wait for each would be half a second of idleness."""
    source = SourceOfThree()
    flight = ProducerSession(source, source, 1)  # type: ignore[arg-type]
    flight.run(lambda: source.drained_sequence == 3)
    assert source.waits == 3
