"""What was written to the bus directly is what no edge handed over, and does not fall between two accounts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from alarm.dispatch.operations import OperationsStore
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import admin_client, describe
from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.kafka.producer import Producer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.register import Register
from bus.contracts.topics import DATA_TOPICS, DATA_VEHICLE, METER_ARRIVED, TOPICS
from bus.settings import BusSettings
from deploy.reconcile import collect
from deploy.reconcile.balance import FlowReconciliation
from deploy.servers.databus import RunningBroker, start_broker
from deploy.settings.composed import Settings, load
from ingest.store.open import open_store
from ingest.store.port import Position
from spark_apps.apps.ingest import store_batch
from spark_apps.batches.message import StreamMessage
from spark_apps.tasks.judge import judge_messages
from tests.ingest.edge.edge_process import EdgeProcess

pytestmark = pytest.mark.slow

BY_EDGE, DIRECTLY = 30, 5


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    Admin(BusSettings(bootstrap_servers=running.bootstrap), client_id="t").ensure_topics(TOPICS.values())
    yield running
    running.stop()


class IngestThread:
    """What ingest does with records and counts, without Spark: the same judge, the same store."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._stopping = settings, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> IngestThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        settings = self._settings
        store = open_store(settings.store.records_url(settings.site), "write")
        consumer = Consumer(settings.bus, client_id="ingest")
        cluster = describe(admin_client(settings.bus), [*DATA_TOPICS, METER_ARRIVED])
        consumer.assign({
            TopicPartition(topic, n): BEGINNING
            for topic in (*DATA_TOPICS, METER_ARRIVED) for n in range(TOPICS[topic].partitions)
        })  # fmt: skip
        while not self._stopping.is_set():
            if found := consumer.poll(500, 0.1):
                judged = judge_messages(map(message, found), Register(), "UTC")
                ends = {(one.topic, one.partition): one.offset + 1 for one in found}
                store.apply(
                    store_batch(judged.records, judged.counters),
                    [
                        Position(
                            application="ingest", cluster_id=cluster.cluster_id, topic=topic,
                            topic_id=cluster.topic_ids[topic], partition=partition, end_offset=end,
                        )
                        for (topic, partition), end in ends.items()
                    ],
                )  # fmt: skip
        consumer.close()
        store.close()


def message(one: ConsumedRecord) -> StreamMessage:
    told = {name: (one.header(name) or b"").decode() or None for name in ("record-id", "received-at")}
    return StreamMessage(
        one.topic, one.partition, one.offset, one.timestamp_ms, one.value, told["record-id"], told["received-at"]
    )


def record(number: int, camera_ip: str) -> dict[str, str]:
    return {
        "卡口编号": "c1", "抓拍时间": f"2026-08-24 17:25:34.{number:03d}", "车牌号码": "浙A12345",
        "抓拍设备地址": camera_ip, "记录编号": f"{camera_ip}-{number}",
    }  # fmt: skip


def send(edge: EdgeProcess, broker: RunningBroker) -> None:
    """Cameras behind the edge, and one that writes to the bus by itself."""
    records = [record(number, "10.0.0.1") for number in range(BY_EDGE)]
    answer = httpx.post(f"{edge.url}/v1/records/vehicle", json=records)
    assert answer.status_code == 200, answer.text
    producer = Producer(BusSettings(bootstrap_servers=broker.bootstrap), client_id="camera")
    for number in range(DIRECTLY):
        producer.send(DATA_VEHICLE, httpx.Request("POST", "/", json=record(number, "10.0.0.2")).content)
    assert producer.close() == 0
    edge.drained()


def vehicles(settings: Settings) -> FlowReconciliation:
    return next(one for one in collect.reconcile(settings).flows if one.kind == DATA_VEHICLE)


def settings_of(broker: RunningBroker, edge: EdgeProcess, data_path: Path) -> Settings:
    OperationsStore(data_path / "store" / "operations.db").close()  # there are no alarms
    port = edge.url.rpartition(":")[2]
    flags = [f"site.data_dir={data_path}", f"bus.bootstrap_servers={broker.bootstrap}", f"edge.port={port}"]
    return load(None, flags, {})


def test_an_account_right_after_the_last_record_says_what_the_next_one_says(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """Regression: an edge tells every 15 s what it took; until then its records were *directly*, and fell."""
    with EdgeProcess(broker.bootstrap, tmp_path / "var") as edge:
        settings = settings_of(broker, edge, tmp_path / "var")
        with IngestThread(settings):
            send(edge, broker)
            first, second = vehicles(settings), vehicles(settings)
    assert (first.arrived, first.directly, first.directly_at_most) == (BY_EDGE + DIRECTLY, DIRECTLY, False)
    assert second == first


def test_of_an_edge_that_is_away_the_account_says_at_most(broker: RunningBroker, tmp_path: Path) -> None:
    """It was killed before it told; what it took is told when it is back."""
    edge = EdgeProcess(broker.bootstrap, tmp_path / "var")
    settings = settings_of(broker, edge, tmp_path / "var")
    with IngestThread(settings):
        send(edge, broker)
        edge.kill()
        away = vehicles(settings)
        edge.start()
        back = vehicles(settings)
    edge.stop()
    assert away.directly_at_most
    assert away.directly >= back.directly
    assert (back.directly, back.directly_at_most) == (DIRECTLY, False)
