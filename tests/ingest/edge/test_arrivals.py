"""The edge tells what it took, with a real spool and a real broker."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import OnDelivery, Producer, RecordMetadata
from bus.client.model import TopicPartition
from bus.contracts import topics
from bus.contracts.meters import Arrived
from bus.contracts.register import Register
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker
from ingest.edge.arrivals import ArrivalMeter
from ingest.edge.forwarder import SpoolForwarder
from ingest.edge.sites.site_route import Site, SiteRoute
from ingest.spool import Spool, SpoolEntry
from ingest.spool.frame import Slot
from ingest.store.open import open_store
from monitor.watch.missing import MissingJudge
from monitor.watch.questions import MinutesQuestion
from spark_apps.apps.ingest import store_batch
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge_messages

pytestmark = pytest.mark.slow

MINUTE = 1_503_566_700_000
PATIENCE_S = 60.0


def record(number: int) -> SpoolEntry:
    """A valid record of that slot."""
    _, device, _, minute_ms = slot(number)
    captured = datetime.fromtimestamp(minute_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    message = {
        "卡口编号": "c1",
        "抓拍时间": captured,
        "抓拍设备地址": device,
        "车牌号码": "浙A12345",
    }
    return msgspec.structs.replace(
        entry(number), value=json.dumps(message).encode(),
        headers=[("record-id", b"%d" % number), ("site", b"four")],
    )  # fmt: skip


def everything(bus: BusSettings, name: str, count: int) -> list[StreamMessage]:
    """What this edge has on the bus: its records, and what it told once that adds up."""
    arrived(bus, name, count)
    consumer = Consumer(bus, client_id="test")
    places = [TopicPartition(topics.METER_ARRIVED, 0)]
    places += [TopicPartition(topics.DATA_VEHICLE, number) for number in range(4)]
    consumer.assign(dict.fromkeys(places, BEGINNING))
    ends = {place: consumer.bounds(place)[1] for place in places}
    found: list[StreamMessage] = []
    deadline = time.monotonic() + PATIENCE_S
    while any(end > consumer.positions().get(place, 0) for place, end in ends.items()):
        assert time.monotonic() < deadline, consumer.positions()
        found += [
            StreamMessage(one.topic, one.partition, one.offset, 1, one.value)
            for one in consumer.poll(1_000, 0.2)
            if (one.header("site") or b"").decode() == name
        ]
    consumer.close()
    return found


def slot(number: int) -> Slot:
    return "vehicle", f"10.0.0.{number % 3}", "", MINUTE + number // 40 * 60_000


def entry(number: int) -> SpoolEntry:
    return SpoolEntry(
        topic=topics.DATA_VEHICLE, key=b"k", value=b"{}" + b"x" * 100, timestamp_ms=1, tally="a",
        headers=[("record-id", b"%d" % number)], slot=slot(number),
    )  # fmt: skip


class TalkingEdge:
    """A spool, its forwarder and its meter; what it says goes by a name of its own."""

    def __init__(self, bus: BusSettings, folder: Path, name: str) -> None:
        self.spool = Spool(folder, max_bytes=1 << 30, segment_bytes=4096)
        self.route = SiteRoute(folder, bus, None)
        self.forwarder = SpoolForwarder(self.spool, self.route, 100)
        self.meter = ArrivalMeter(self.spool, self.route, name)

    def forward(self, until: int) -> None:
        self.forwarder.start()
        deadline = time.monotonic() + PATIENCE_S
        while self.spool.drained_sequence < until:
            assert time.monotonic() < deadline
            self.spool.wait(0.1)
        self.forwarder.stop()

    def close(self) -> None:
        self.meter.start()
        self.meter.stop()
        self.spool.close()


class LosingProducer(Producer):
    """Says of ten messages that the brokers have them, and sends them nowhere."""

    lost = range(43, 53)

    def send(
        self, topic: str, value: Any, *, on_delivery: OnDelivery | None = None, **more: Any
    ) -> None:
        number = int(dict(more["headers"])["record-id"])
        if number in self.lost and on_delivery is not None:
            on_delivery(RecordMetadata(topic, 0, 0, 0))
        else:
            super().send(topic, value, on_delivery=on_delivery, **more)


class LosingForwarder(SpoolForwarder):
    def _producer(self, site: Site) -> Producer:
        return LosingProducer(self._route.bus(site), client_id="losing")


def arrived(bus: BusSettings, name: str, count: int) -> Counter[Slot]:
    """Sums over epochs of the largest numbers, once they add up to `count`, or to more."""
    consumer = Consumer(bus, client_id="test")
    consumer.assign({TopicPartition(topics.METER_ARRIVED, 0): BEGINNING})
    largest: dict[tuple[str, int, Slot], int] = {}
    deadline = time.monotonic() + PATIENCE_S
    while sum(largest.values()) < count:
        assert time.monotonic() < deadline, largest
        for found in consumer.poll(500, 0.2):
            told = msgspec.json.decode(found.value or b"", type=Arrived)
            if told.edge.startswith(f"{name}/"):
                cell = (told.kind, told.camera_ip, told.recognizer_ip, told.minute_ms)
                place = (told.edge, told.epoch, cell)
                largest[place] = max(largest.get(place, 0), told.arrived)
    consumer.close()
    sums: Counter[Slot] = Counter()
    for (_, _, cell), number in largest.items():
        sums[cell] += number
    return sums


async def test_every_message_of_every_segment_is_told_by_device_and_slot(
    bus_of_edge: RunningBroker, tmp_path: Path
) -> None:
    """Only once it is on the bus, and a segment is kept until then."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    edge = TalkingEdge(bus, tmp_path, "one")
    for at in range(0, 120, 10):
        await edge.spool.append([entry(number) for number in range(at, at + 10)])
    edge.forward(120)
    segments = len(list(tmp_path.glob("*.spool")))
    assert segments > 3, "none is deleted before it is counted"
    edge.meter.start()
    edge.meter.stop()
    assert arrived(bus, "one", 120) == Counter(slot(number) for number in range(120))
    edge.spool.acknowledge(edge.spool.drained_sequence)
    await edge.spool.append([entry(120)])
    edge.forwarder = SpoolForwarder(edge.spool, edge.route, 100)
    edge.forward(121)
    assert len(list(tmp_path.glob("*.spool"))) < segments
    edge.spool.close()


async def test_an_edge_that_was_killed_tells_the_same_numbers_again(
    bus_of_edge: RunningBroker, tmp_path: Path
) -> None:
    """What a kill leaves of a spool is a copy of its files at that moment: after telling, before
    telling, and with a position that is behind."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    first = TalkingEdge(bus, tmp_path / "a", "two")
    await first.spool.append([entry(number) for number in range(50)])
    first.forward(50)
    shutil.copytree(tmp_path / "a", tmp_path / "untold")
    first.close()
    shutil.copytree(tmp_path / "a", tmp_path / "told")
    (tmp_path / "told" / "position").write_text("20")
    for kept in ("untold", "told"):
        again = TalkingEdge(bus, tmp_path / kept, "two")
        more = range(50, 60) if kept == "told" else ()
        await again.spool.append([entry(number) for number in more])
        again.forward(50 + len(more))
        again.close()
    assert arrived(bus, "two", 60) == Counter(slot(number) for number in range(60))


async def test_messages_of_an_older_program_are_counted_nowhere_and_new_ones_are(
    bus_of_edge: RunningBroker, tmp_path: Path
) -> None:
    """They do not say where they would be counted."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    edge = TalkingEdge(bus, tmp_path, "three")
    old = [msgspec.structs.replace(entry(number), slot=None) for number in range(20)]
    await edge.spool.append([*old, *(entry(number) for number in range(20, 25))])
    edge.forward(25)
    edge.close()
    assert arrived(bus, "three", 5) == Counter(slot(number) for number in range(20, 25))


async def test_ten_records_removed_between_edge_and_topic_are_named_by_device_and_slot(
    bus_of_edge: RunningBroker, tmp_path: Path
) -> None:
    """What the brokers hold and what the edge told, through ingest's judge into a real store, and
    out of it to the watch."""
    bus = BusSettings(bootstrap_servers=bus_of_edge.bootstrap)
    edge = TalkingEdge(bus, tmp_path / "spool", "four")
    edge.forwarder = LosingForwarder(edge.spool, edge.route, 100)
    await edge.spool.append([record(number) for number in range(120)])
    edge.forward(120)
    edge.close()
    judged = judge_messages(everything(bus, "four", 120), Register(), "UTC")
    url = f"sqlite://{tmp_path}/records.db"
    store = open_store(url, "write")
    store.apply(store_batch(judged.records, judged.counters), [])
    store.close()
    settled_ms = MINUTE + 10 * 60_000
    question = MinutesQuestion(
        lambda: open_store(url), lambda: settled_ms, settle_ms=120_000, minutes=10
    )
    judge = MissingJudge(ZoneInfo("UTC"))
    told = {one.subject: one.detail for one in judge.observe(question.ask().missing)}
    lost = Counter(slot(number) for number in LosingProducer.lost)
    assert sum(lost.values()) == 10
    assert {name: detail["missing"] for name, detail in told.items()} == {
        f"vehicle {device}": str(sum(n for cell, n in lost.items() if cell[1] == device))
        for device in {cell[1] for cell in lost}
    }
    assert {detail["slots"] for detail in told.values()} == {"08-24 09:26 (3)", "08-24 09:26 (4)"}
