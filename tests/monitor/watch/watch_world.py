"""What the watch watches in tests: a real bus, real stores, and a notifier that keeps what it is sent."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from alarm.dispatch.operations import OperationsStore
from alarm.dispatch.reader import OperationsReader
from alarm.lists.records_reader import ListRecordsReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import TopicPartition
from bus.contracts.alarms import Incident
from bus.contracts.plate_lists import ListRecord
from bus.contracts.topics import DATA_VEHICLE, EVENT_ALARM, EVENT_INCIDENT, STATE_LISTS, TOPICS
from bus.notify.notice_plan import NoticePlan
from bus.settings import BusSettings, SiteSettings
from deploy.roles.stages import STAGES
from deploy.roles.watch_ports import DECIDER, DISPATCHER, RECORDER
from ingest.store.open import open_store
from ingest.store.port import Position
from monitor.ports import ProcessStatus
from monitor.settings import WatchSettings
from monitor.watch.ending_certificates import CertificateEnd
from monitor.watch.ports import WatchPorts
from monitor.watch.service import WatchService
from tests.alarm.lists.stored_list import records_of_list

BOUND_S = 2.0
DAY_MS = 24 * 3_600_000
WITHIN_S = BOUND_S + 60  # an incident comes within a minute after its bound
QUICK = WatchSettings(away_s=BOUND_S, standing_s=BOUND_S, filling_s=0.5, probe_interval_s=0.3)
RECORD = {"卡口编号": "c1", "车牌号码": "浙AWL999", "抓拍设备地址": "10.0.0.7",
          "后端图片识别服务器地址": "10.9.0.1"}  # fmt: skip


class KeptNotices:
    """A notifier of this test: it keeps what it is sent."""

    name = "kept"

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def send(self, subject: str, body: bytes) -> None:
        self.subjects.append(subject)

    async def close(self) -> None: ...


@dataclass
class WatchWorld:
    """A bus, two stores, processes by their supervisor's word; the watch beside them."""

    bus: BusSettings
    folder: Path
    notifier: KeptNotices = field(default_factory=KeptNotices)
    processes: list[ProcessStatus] = field(default_factory=list)
    certificates: list[CertificateEnd] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site = SiteSettings(data_dir=str(self.folder))
        self.records_path = self.folder / "store" / "records.db"
        self.operations_path = self.folder / "store" / "operations.db"
        self.file_path = QUICK.file_path(self.site)
        self.records = open_store(f"sqlite://{self.records_path}", "write")
        self.operations = OperationsStore(self.operations_path)
        admin = Admin(self.bus, client_id="test")
        admin.ensure_topics(TOPICS.values())
        self.cluster = admin.identity([DATA_VEHICLE, EVENT_ALARM])
        admin.close()

    @property
    def ports(self) -> WatchPorts:
        return WatchPorts(
            notifiers=[self.notifier],
            plan=NoticePlan((self.notifier.name,)),
            give_up_ms=lambda _: DAY_MS,
            open_records=lambda: open_store(f"sqlite://{self.records_path}"),
            open_alarms=lambda: OperationsReader(self.operations_path),
            read_processes=lambda: self.processes,
            stages=STAGES,
            groups=[DISPATCHER, DECIDER],
            recorder=RECORDER,
            edge_status_urls={},
            spool_max_bytes=1,
            folders=[self.folder],
            lists=ListRecordsReader(self.bus, QUICK.probe_timeout_s),
            read_certificates=lambda: self.certificates,
        )

    def close(self) -> None:
        """The stores that this test writes."""
        self.records.close()
        self.operations.close()

    def send(self, topic: str, count: int) -> None:
        producer = Producer(self.bus, client_id="test")
        for _ in range(count):
            producer.send(topic, json.dumps(RECORD, ensure_ascii=False), partition=0)
        assert producer.close() == 0

    def put_list(self, list_id: str, *, version: int = 1, renewal_days: int, renewed_at_ms: int) -> None:
        """As the site's decider does."""
        self._send_lists(records_of_list(
            list_id, ["浙A12345"], version=version, renewal_days=renewal_days, renewed_at_ms=renewed_at_ms,
        ))  # fmt: skip

    def end_list(self, list_id: str, *, version: int) -> None:
        ended = ListRecord(list_id=list_id, op="remove", version=version)
        self._send_lists([(list_id, msgspec.json.encode(ended))])

    def _send_lists(self, records: Iterable[tuple[str, bytes]]) -> None:
        producer = Producer(self.bus, client_id="test")
        for key, value in records:
            producer.send(STATE_LISTS, value, key=key)
        assert producer.close() == 0

    def position(self, application: str, topic: str, end_offset: int) -> Position:
        return Position(
            application=application, cluster_id=self.cluster.cluster_id, topic=topic,
            topic_id=self.cluster.topic_ids[topic], partition=0, end_offset=end_offset,
        )  # fmt: skip

    def on_topic(self) -> list[Incident]:
        """Everything on `event.incident`."""
        with Consumer(self.bus, client_id="check") as consumer:
            consumer.assign({TopicPartition(EVENT_INCIDENT, 0): BEGINNING})
            found: list[Incident] = []
            deadline = time.monotonic() + 30
            while not consumer.at_end:
                assert time.monotonic() < deadline
                found += [
                    msgspec.json.decode(r.value or b"", type=Incident)
                    for r in consumer.poll(1000, 0.2)
                ]
            return found

    def subjects(self) -> list[str]:
        """What was notified, without the times in the names."""
        return [
            ":".join(part for part in subject.split(":") if not part.isdecimal() or len(part) < 13)
            for subject in self.notifier.subjects
        ]

    def states_in_file(self, name: str) -> list[str]:
        """Of incidents whose id begins so."""
        return [
            state for (state,) in self._in_file(
                "SELECT state FROM incidents WHERE incident_id LIKE ? ORDER BY id", f"{name}:%"
            )
        ]  # fmt: skip

    def waiting_in_file(self) -> int:
        """Notices that are not delivered yet."""
        return len(self._in_file("SELECT 1 FROM notices WHERE outcome = ''"))

    def _in_file(self, sql: str, *values: str) -> list[tuple[str]]:
        with closing(sqlite3.connect(f"file:{self.file_path}?mode=ro", uri=True)) as db:
            return db.execute(sql, values).fetchall()

    @asynccontextmanager
    async def watched(self, settings: WatchSettings = QUICK) -> AsyncIterator[WatchService]:
        service = WatchService(self.site, self.bus, settings, self.ports)
        task = asyncio.create_task(service.run())
        await until(lambda: service.is_bus_there, 60)
        yield service
        service.stop()
        await task


async def until(condition: Callable[[], bool], timeout_s: float = WITHIN_S) -> float:
    """Seconds until it holds."""
    began_s = time.monotonic()
    while not await asyncio.to_thread(condition):
        assert time.monotonic() - began_s < timeout_s, "it never held"
        await asyncio.sleep(0.05)
    return time.monotonic() - began_s
