"""Ingest on a real broker and a real store, without Spark: what is told after a commit, and only then."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import admin_client, describe
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import TopicPartition
from bus.contracts.meters import Arrived, QualityCell
from bus.contracts.topics import METER_ARRIVED, METER_QUALITY, TOPICS
from bus.domain.times import HOUR_MS, MINUTE_MS, minute_of
from bus.files.register_file import RegisterFile
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings
from deploy.servers.databus import start_broker
from ingest.store.port import PageRequest, PositionsOverlap, Query
from ingest.store.sqlite.writer import SqliteStore
from spark_apps.apps.ingest import Ingest
from spark_apps.batches.message import StreamMessage
from spark_apps.progress.metrics import StreamsMetrics
from spark_apps.publish.publisher import EventPublisher
from spark_apps.queries.context import Context
from spark_apps.queries.store_writer import OpenStore, StoreWriter
from spark_apps.settings import JobSettings
from tests.spark_apps.apps.test_ingest import VEHICLE, ZONE, vehicle

DATA = ("data.vehicle", 0)


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusSettings]:
    """A broker with our topics."""
    broker = start_broker(tmp_path_factory.mktemp("broker"))
    settings = BusSettings(bootstrap_servers=broker.bootstrap)
    admin = Admin(settings, client_id="test")
    admin.ensure_topics(TOPICS.values())
    admin.close()
    yield settings
    broker.stop()


def captured_at(offset: int, moment_ms: int, **headers: str) -> StreamMessage:
    """A vehicle of that moment, as the device writes it."""
    time = datetime.fromtimestamp(moment_ms / 1000, ZoneInfo(ZONE)).strftime("%Y-%m-%d %H:%M:%S")
    body = json.dumps(VEHICLE | {"抓拍时间": time}, ensure_ascii=False).encode()
    return vehicle(offset, **headers)._replace(value=body, timestamp_ms=moment_ms)


class IngestRun:
    """One driver's ingest, as far as it needs no Spark."""

    def __init__(
        self, bus: BusSettings, folder: Path, clock: Callable[[], int] = now_ms
    ) -> None:
        admin = admin_client(bus)
        self.context = Context(
            settings=JobSettings(site=SiteSettings(data_dir=str(folder)), bus=bus),
            cluster=describe(admin, sorted(TOPICS)),
            admin=admin,
            publisher=EventPublisher(bus, "test"),
            register=RegisterFile(folder / "register.json"),
            stopping=threading.Event(),
            metrics=StreamsMetrics(),
        )
        self.store = SqliteStore(folder / "records.db", clock)
        writer = StoreWriter(self.store, self.context.stopping)
        self.context.__dict__["store"] = OpenStore(writer, self.store)
        self.ingest = Ingest(self.context)

    def apply(self, *messages: StreamMessage) -> None:
        """One batch."""
        first, end = messages[0].offset, messages[-1].offset + 1
        self.ingest.on_batch(messages, {DATA: (first, end)})

    def commits(self) -> float:
        """How many the histogram has seen."""
        [metric] = self.context.metrics.commit_seconds.collect()
        return sum(s.value for s in metric.samples if s.name.endswith("_count"))

    def counted(self) -> tuple[float, float]:
        """Records by the ends of their topics, and as they were read."""
        found: Counter[str] = Counter()
        for metric in self.context.metrics.registry.collect():
            for sample in metric.samples:
                found[sample.name] += int(sample.value)
        return found["databus_streams_offsets_total"], found["databus_streams_records_total"]

    def die(self) -> None:
        """Without publishing what was touched."""
        self.context.publisher.close()
        for group in self.context.groups:
            group.close()
        self.store.close()


def published_cells(bus: BusSettings) -> list[QualityCell]:
    """What lies on the topic."""
    with Consumer(bus, client_id="test") as consumer:
        places = [TopicPartition(METER_QUALITY, n) for n in range(TOPICS[METER_QUALITY].partitions)]
        left = {place: end for place in places if (end := consumer.bounds(place)[1])}
        consumer.assign(dict.fromkeys(left, BEGINNING))
        found = []
        while left:
            for one in consumer.poll(100, 0.5):
                found.append(msgspec.json.decode(one.value or b"", type=QualityCell))
                place = TopicPartition(one.topic, one.partition)
                if one.offset + 1 >= left.get(place, 0):
                    left.pop(place, None)
    return found


def test_only_a_commit_that_returned_is_in_the_histogram(bus: BusSettings, tmp_path: Path) -> None:
    """What broke: a write that failed counted, and a batch that was there already."""
    run = IngestRun(bus, tmp_path)
    run.apply(vehicle(0), vehicle(1))
    assert run.commits() == 1
    run.apply(vehicle(0), vehicle(1))
    assert run.commits() == 1, "stored before"
    with pytest.raises(PositionsOverlap):
        run.apply(vehicle(1), vehicle(2))
    assert run.commits() == 1, "failed"
    run.die()


def test_what_arrived_by_the_topics_ends_and_what_was_read_can_disagree(
    bus: BusSettings, tmp_path: Path
) -> None:
    """Of devices that write to the bus themselves nobody else counts. Ten records that the log does
    not give out any more are the difference; what fails, or comes again, is in neither."""
    run = IngestRun(bus, tmp_path)
    run.apply(vehicle(0), vehicle(1))
    run.apply(vehicle(0), vehicle(1))
    with pytest.raises(PositionsOverlap):
        run.apply(vehicle(1), vehicle(2))
    assert run.counted() == (2, 2)
    run.apply(vehicle(2), vehicle(13))
    assert run.counted() == (14, 4)
    run.die()


def test_the_page_tells_what_arrived_was_valid_and_was_stored_and_how_late(
    bus: BusSettings, tmp_path: Path
) -> None:
    """Each is counted by itself; nothing of what is stored again, and a stranger's kind makes no
    series."""
    run = IngestRun(bus, tmp_path)
    now = now_ms()
    told = [
        Arrived(edge="e", epoch=1, kind=kind, camera_ip="10.0.0.1", minute_ms=now, arrived=n)
        for n, kind in ((3, "vehicle"), (4, "a cat"))
    ]
    meters = [
        StreamMessage(METER_ARRIVED, 0, number, now, msgspec.json.encode(one))
        for number, one in enumerate(told)
    ]
    records = [captured_at(n, now - 60_000)._replace(record_id=f"id-{n % 2}") for n in range(3)]
    for _ in range(2):
        run.ingest.on_batch([*records, *meters], {DATA: (0, 3), (METER_ARRIVED, 0): (0, 2)})
    run.die()

    def shown(name: str, **labels: str) -> float | None:
        return run.context.metrics.registry.get_sample_value(f"databus_streams_{name}", labels)

    assert shown("arrived_total", kind="vehicle") == 3
    assert shown("arrived_total", kind="other") == 4
    assert shown("valid_total", kind="vehicle") == 3
    assert shown("records_total", outcome="stored", kind="vehicle", reason="") == 2
    assert shown("records_total", outcome="duplicates", kind="vehicle", reason="") == 1
    assert shown("capture_seconds_count", kind="vehicle") == 2
    assert shown("capture_seconds_bucket", kind="vehicle", le="30.0") == 0


def test_what_was_committed_before_a_long_outage_is_published_after_it(
    bus: BusSettings, tmp_path: Path
) -> None:
    """What broke: the minutes were counted from the start and not from the last commit, so that the
    cells of a driver that died more than ten minutes ago were never published."""
    before = IngestRun(bus, tmp_path, lambda: now_ms() - HOUR_MS)
    before.apply(captured_at(0, now_ms() - HOUR_MS))
    [cell] = before.store.quality(from_ms=0, until_ms=0)
    before.die()
    assert published_cells(bus) == []
    after = IngestRun(bus, tmp_path)
    after.context.close()
    assert [(one.camera_ip, one.stored) for one in published_cells(bus)] == [(cell.camera_ip, 1)]


def test_a_clock_that_is_ahead_is_corrected_and_a_record_stays_the_one_it_was(
    bus: BusSettings, tmp_path: Path
) -> None:
    """Found by its true time; the sender's slot is by the time that it wrote. What came before the
    clock was known, and comes again, is a duplicate of what is stored; a batch that fails leaves
    the estimate as it is; the next driver goes on with it. Without an edge's arrival, nothing."""
    run = IngestRun(bus, tmp_path)
    ahead_ms, way_ms = 5 * MINUTE_MS, 1_000
    begin_ms = minute_of(now_ms()) - HOUR_MS

    def message(offset: int, minute: int, *, by_edge: bool = True) -> StreamMessage:
        at_ms = begin_ms + minute * MINUTE_MS
        arrival = {"received_at": str(at_ms + way_ms)} if by_edge else {}
        return captured_at(offset, at_ms + ahead_ms, record_id=f"id-{minute}-{by_edge}", **arrival)

    for minute in range(5):
        run.apply(message(minute, minute))
    with pytest.raises(PositionsOverlap):
        run.apply(message(4, 9), message(5, 5))
    run.apply(message(5, 5), message(6, 5, by_edge=False))
    assert run.store.clocks() == {"10.0.0.1": ahead_ms - way_ms}
    run.die()
    run = IngestRun(bus, tmp_path)
    run.apply(message(7, 6), message(8, 0))
    rows, _ = run.store.query(Query(), PageRequest())
    found = {row.record_id: row for row in rows}
    late_ms = {
        name: row.captured_at_ms - (begin_ms + int(name.split("-")[1]) * MINUTE_MS)
        for name, row in found.items()
    }
    assert late_ms == {
        **{f"id-{minute}-True": ahead_ms for minute in range(4)},
        "id-4-True": way_ms, "id-5-True": way_ms, "id-5-False": ahead_ms, "id-6-True": way_ms,
    }  # fmt: skip
    written = {row.claimed_at_ms - row.captured_at_ms + late_ms[n] for n, row in found.items()}
    assert written == {ahead_ms}, "what the device wrote is kept"
    cells = run.store.quality(from_ms=0, until_ms=0)
    slots = {cell.minute_ms: cell.valid for cell in cells}
    assert slots == {
        begin_ms + ahead_ms + minute * MINUTE_MS: 2 if minute in (0, 5) else 1
        for minute in range(7)
    }
    assert sum(cell.duplicates for cell in cells) == 1
    run.die()
