"""The edge as a process with a real broker: everything acknowledged is on the bus, also if either
is killed."""

from __future__ import annotations

import collections
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bus.client.kafka.consumer import BEGINNING, Consumer
from bus.client.model import ConsumedRecord, TopicPartition
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings
from deploy.servers.databus import RunningBroker, start_broker
from tests.ingest.edge.edge_process import EdgeProcess


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[RunningBroker]:
    """A broker that the test may kill."""
    from bus.client.kafka.admin import Admin

    broker = start_broker(tmp_path / "broker")
    Admin(BusSettings(bootstrap_servers=broker.bootstrap), client_id="test").ensure_topics(
        TOPICS.values()
    )
    yield broker
    if broker.process.poll() is None:
        broker.stop()


def end_offsets(bootstrap: str, topic: str) -> dict[TopicPartition, int]:
    """The end offset of each partition of a topic."""
    consumer = Consumer(BusSettings(bootstrap_servers=bootstrap), client_id="test")
    places = [TopicPartition(topic, partition) for partition in range(TOPICS[topic].partitions)]
    ends = {place: consumer.bounds(place)[1] for place in places}
    consumer.close()
    return ends


def on_topic(
    bootstrap: str, topic: str, starts: dict[TopicPartition, int] | None = None
) -> list[ConsumedRecord]:
    """The records of a topic from `starts` on, or all; per partition by offset."""
    ends = end_offsets(bootstrap, topic)
    starts = starts or dict.fromkeys(ends, BEGINNING)
    consumer = Consumer(BusSettings(bootstrap_servers=bootstrap), client_id="test")
    consumer.assign(starts)
    found: list[ConsumedRecord] = []
    deadline = time.monotonic() + 60
    while len(found) < sum(end - max(0, starts[place]) for place, end in ends.items()):
        found += consumer.poll(1000, 0.5)
        assert time.monotonic() < deadline
    consumer.close()
    return found


def record(plate: str, number: int) -> dict[str, object]:
    return {
        "卡口编号": "c1", "抓拍时间": f"2017-08-24 17:25:34.{number % 1000:03d}", "车牌号码": plate,
        "抓拍设备地址": "10.0.0.1", "记录编号": f"{plate}-{number}", "n": number,
    }  # fmt: skip


class RecordPoster(threading.Thread):
    """One recognition server: posts one plate's records one after the other, each until it is
    acknowledged."""

    def __init__(self, url: str, plate: str) -> None:
        super().__init__(daemon=True)
        self._url, self._plate = url, plate
        self.acknowledged: dict[str, int] = {}
        self.stop = threading.Event()

    def run(self) -> None:
        number = 0
        with httpx.Client(base_url=self._url, timeout=10) as client:
            while not self.stop.is_set():
                batch = [record(self._plate, number + i) for i in range(5)]
                try:
                    answer = client.post("/v1/records/vehicle", json=batch)
                except httpx.TransportError:
                    time.sleep(0.05)
                    continue
                if answer.status_code == 200:
                    for one, record_id in zip(batch, answer.json()["ids"], strict=True):
                        self.acknowledged[record_id] = int(str(one["n"]))
                    number += 5


def check(senders: list[RecordPoster], found: list[ConsumedRecord]) -> None:
    """Checks that everything acknowledged is on the topic, and that the first arrivals of one plate
    are on one partition in the order sent."""
    first: dict[str, ConsumedRecord] = {}
    for one in found:
        first.setdefault(str(one.header("record-id"), "ascii"), one)
    for sender in senders:
        assert len(sender.acknowledged) >= 10
        assert sender.acknowledged.keys() <= first.keys()
        mine = [first[record_id] for record_id in sender.acknowledged]
        assert len({one.partition for one in mine}) == 1
        by_offset = sorted(mine, key=lambda one: one.offset)
        assert [json.loads(one.value or b"")["n"] for one in by_offset] == sorted(
            sender.acknowledged.values()
        )


def post_for(
    edge: EdgeProcess, seconds: float, disturb: list[tuple[float, object]]
) -> list[RecordPoster]:
    """Runs six senders; `disturb` are (after seconds, what to do)."""
    senders = [RecordPoster(edge.url, f"浙A0000{i}") for i in range(6)]
    started = time.monotonic()
    for sender in senders:
        sender.start()
    for after, action in [*disturb, (seconds, lambda: None)]:
        # The load continues; this is its duration
        time.sleep(max(0, started + after - time.monotonic()))
        action()  # type: ignore[operator]
    for sender in senders:
        sender.stop.set()
    for sender in senders:
        sender.join(30)
    return senders


@pytest.mark.slow
def test_records_rejects_and_counters_reach_their_topics(
    bus_of_edge: RunningBroker, tmp_path: Path
):
    """Sends one of each, with Kafka's timestamp = arrival, and stops cleanly."""
    with EdgeProcess(bus_of_edge.bootstrap, tmp_path) as edge:
        check_all_topics(bus_of_edge, edge)


def check_all_topics(bus_of_edge: RunningBroker, edge: EdgeProcess) -> None:
    """Reads only what was added since its start: other tests use the same broker before it."""
    topics = ("data.vehicle", "quarantine.records", "meter.sent")
    starts = {topic: end_offsets(bus_of_edge.bootstrap, topic) for topic in topics}
    before_ms = time.time_ns() // 1_000_000
    plates = ["浙A00001", "浙A00002", "无车牌"]
    good = [record(plate, i) for i in range(40) for plate in plates]
    answer = httpx.post(f"{edge.url}/v1/records/vehicle", json=[*good, {"bad": 1}]).json()
    counter = {
        "producer": "s",
        "epoch": 1,
        "kind": "vehicle",
        "camera_ip": "1",
        "minute_ms": 0,
        "sent": 1,
    }
    httpx.post(f"{edge.url}/v1/counters", json=counter)
    status = edge.drained()
    found, rejected, counted = (on_topic(bus_of_edge.bootstrap, t, starts[t]) for t in topics)
    by_id = {str(one.header("record-id"), "ascii"): one for one in found}
    assert set(filter(None, answer["ids"])) <= by_id.keys()
    for record_id, sent in zip(answer["ids"][:-1], good, strict=True):
        one = by_id[record_id]
        assert json.loads(one.value or b"") == sent
        assert before_ms <= one.timestamp_ms == int(one.header("received-at") or 0)
    unread = collections.Counter(one.partition for one in found if one.key is None)
    assert sum(unread.values()) == 40
    for plate in plates[:2]:
        assert len({one.partition for one in found if one.key == plate.encode()}) == 1
    (bad,) = [one for one in rejected if json.loads(one.value or b"") == {"bad": 1}]
    assert (bad.header("reason"), bad.header("kind")) == (b"no-checkpoint", b"vehicle")
    assert [json.loads(one.value or b"")["producer"] for one in counted] == ["s"]
    assert status["arrived"] == {"vehicle": 121}
    assert edge.stop() == 0
    edge.start()
    again = httpx.get(f"{edge.url}/v1/status").json()
    assert (again["arrived"], again["backlog"]) == ({"vehicle": 121}, 0)
    edge.stop()


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_the_edge_is_killed(
    own_broker: RunningBroker, tmp_path: Path
):
    """It is killed twice with -9 while six servers post; retries keep their identity."""
    with EdgeProcess(own_broker.bootstrap, tmp_path / "edge") as edge:

        def kill_and_start() -> None:
            edge.kill()
            edge.start()

        senders = post_for(edge, 5, [(1.0, kill_and_start), (3.0, kill_and_start)])
        status = edge.drained()
    found = on_topic(own_broker.bootstrap, "data.vehicle")
    check(senders, found)
    # Kills may repeat messages on the topic, never lose one that the spool has counted.
    assert len(found) >= sum(status["accepted"].values())  # type: ignore[attr-defined]


@pytest.mark.slow
def test_nothing_is_lost_and_nobody_refused_while_the_broker_is_dead(
    own_broker: RunningBroker, tmp_path: Path
):
    """After kill -9 of the broker the edge goes on acknowledging, and delivers all in sequence when
    the broker is back."""
    backlog: list[int] = []
    with EdgeProcess(own_broker.bootstrap, tmp_path / "edge") as edge:

        def read_backlog() -> None:
            backlog.append(httpx.get(f"{edge.url}/v1/status").json()["backlog"])

        senders = post_for(edge, 3.5, [(1.0, own_broker.kill), (3.0, read_backlog)])
        again = own_broker.restart()
        edge.drained()
    found = on_topic(again.bootstrap, "data.vehicle")
    check(senders, found)
    assert backlog[0] > 100
    again.stop()
