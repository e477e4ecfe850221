"""The city, a real edge, a real broker: what arrives is what the truth says, though processes die."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import msgspec
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bus.contracts.topics import (
    DATA_TOPICS,
    METER_SENT,
    QUARANTINE_RECORDS,
    STATE_LISTS,
    STATE_WATCHLIST,
    TOPICS,
)
from deploy.servers.databus import PROJECT_ROOT, RunningBroker, start_broker
from ingest.senders.simulator.ground_truth import TruthTotals, read_truth, truth_files
from tests.running_decider import running_decider

pytestmark = pytest.mark.slow
BOUND_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker")
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    wanted = [NewTopic(t.name, t.partitions, 1, config=t.configs) for t in TOPICS.values()]
    for made in admin.create_topics(wanted).values():
        made.result(BOUND_S)
    with running_decider(running.bootstrap):
        yield running
    if running.process.poll() is None:
        running.stop()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def role(
    name: str, data_dir: Path, bootstrap: str, edge_port: int, **more: object
) -> Iterator[subprocess.Popen[bytes]]:
    settings = {
        "bus.bootstrap_servers": bootstrap, "edge.port": edge_port, "city.rate": 60,
        "city.counters_interval_ms": 1000, "site.data_dir": data_dir, **{f"city.{key}": value for key, value in more.items()},
    }  # fmt: skip
    words = [sys.executable, "-m", "deploy"]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    with (data_dir / f"{name}.log").open("ab") as log:
        process = subprocess.Popen([*words, "run", name], cwd=PROJECT_ROOT, stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(BOUND_S)


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.3)


def truth(data_dir: Path) -> TruthTotals:
    return read_truth(truth_files(data_dir / "city"))


def sent(data_dir: Path) -> int:
    return sum(counts.sent for counts in truth(data_dir).topics.values())


Records = list[tuple[str, dict[str, bytes], bytes]]


def everything(bootstrap: str) -> Records:
    """All records of the data topics, the quarantine and the counters: topic, headers, value."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    partitions = [
        confluent_kafka.TopicPartition(topic, p, 0)
        for topic in (*DATA_TOPICS, QUARANTINE_RECORDS, METER_SENT, STATE_WATCHLIST, STATE_LISTS)
        for p in range(TOPICS[topic].partitions)
    ]
    left = sum(consumer.get_watermark_offsets(p, BOUND_S)[1] for p in partitions)
    consumer.assign(partitions)
    found: Records = []
    deadline = time.monotonic() + BOUND_S
    while len(found) < left:
        assert time.monotonic() < deadline, f"{len(found)} of {left} records could be read"
        for message in consumer.consume(1000, 0.5):  # it waits for all of them or the time
            assert message.error() is None
            found.append((message.topic(), dict(message.headers() or ()), message.value()))
    consumer.close()
    return found


def assert_balanced(totals: TruthTotals, records: Records) -> None:
    by_id: dict[str, set[str]] = {topic: set() for topic in DATA_TOPICS}
    reasons: Counter[tuple[str, str]] = Counter()
    quarantined = set()
    for topic, headers, _ in records:
        record_id = headers.get("record-id", b"").decode()
        if topic in by_id:
            by_id[topic].add(record_id)
        elif topic == QUARANTINE_RECORDS and record_id not in quarantined:
            quarantined.add(record_id)
            reasons[headers["kind"].decode(), headers["reason"].decode()] += 1
    assert totals.disagreements == 0
    assert not totals.unconfirmed
    for topic, counts in totals.topics.items():
        assert totals.ids[topic] <= by_id[topic]
        at_edge = sum(n for (kind, _), n in reasons.items() if f"data.{kind}" == topic)
        assert counts.sent == len(by_id[topic]) + at_edge


def newest_counters(records: Records) -> int:
    newest: dict[tuple[object, ...], int] = {}
    for topic, _, value in records:
        if topic == METER_SENT:
            m = msgspec.json.decode(value)
            key = tuple(m[k] for k in ("producer", "epoch", "kind", "camera_ip", "minute_ms"))
            newest[key] = max(newest.get(key, 0), m["sent"])
    return sum(newest.values())


def drained(bootstrap: str, data_dir: Path, port: int) -> Records:
    """Start the edge alone until its spool is empty."""
    wanted = sent(data_dir)
    with role("edge", data_dir, bootstrap, port):
        eventually(lambda: _arrived(bootstrap) >= wanted, "the spool is drained")
    return everything(bootstrap)


def _arrived(bootstrap: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "test"})
    topics = (*DATA_TOPICS, QUARANTINE_RECORDS)
    partitions = [
        confluent_kafka.TopicPartition(t, p) for t in topics for p in range(TOPICS[t].partitions)
    ]
    total = sum(consumer.get_watermark_offsets(p, BOUND_S)[1] for p in partitions)
    consumer.close()
    return total


def test_what_arrives_is_what_the_truth_says_and_the_rules_came_first(
    broker: RunningBroker, tmp_path: Path
) -> None:
    port = free_port()
    with (
        role("edge", tmp_path, broker.bootstrap, port),
        role("city", tmp_path, broker.bootstrap, port) as city,
    ):
        eventually(lambda: sent(tmp_path) > 600, "600 records are acknowledged")
        city.send_signal(signal.SIGTERM)
        assert city.wait(BOUND_S) == 0
    records = drained(broker.bootstrap, tmp_path, port)
    totals = truth(tmp_path)
    assert_balanced(totals, records)
    assert newest_counters(records) == sum(totals.tried(topic) for topic in totals.topics)
    rules = [msgspec.json.decode(v) for topic, _, v in records if topic == STATE_WATCHLIST]
    lists = [msgspec.json.decode(v) for topic, _, v in records if topic == STATE_LISTS and v[:1] == b"{"]
    named = {rule["rule_id"] for rule in rules} | {f"list/{one['list_id']}" for one in lists}
    assert named == totals.rules
    assert len(totals.rules) == 10
    assert (tmp_path / "register.json").exists()


def test_killed_edge_and_broker_cost_no_record(broker: RunningBroker, tmp_path: Path) -> None:
    port = free_port()
    with role("city", tmp_path, broker.bootstrap, port) as city:
        with role("edge", tmp_path, broker.bootstrap, port) as edge:
            eventually(lambda: sent(tmp_path) > 200, "records flow")
            edge.kill()
            edge.wait()
            broker.kill()
        again = broker.restart()
        with role("edge", tmp_path, again.bootstrap, port):
            reached = sent(tmp_path)
            eventually(lambda: sent(tmp_path) > reached + 300, "records flow again")
            city.send_signal(signal.SIGTERM)
            assert city.wait(BOUND_S) == 0
    records = drained(again.bootstrap, tmp_path, port)
    again.stop()
    assert_balanced(truth(tmp_path), records)


def test_a_killed_city_lists_what_is_uncertain_and_the_next_tells_its_counters(
    broker: RunningBroker, tmp_path: Path
) -> None:
    port = free_port()
    with role("edge", tmp_path, broker.bootstrap, port):
        with role("city", tmp_path, broker.bootstrap, port) as city:
            eventually(lambda: sent(tmp_path) > 200, "records flow")
            city.kill()
            city.wait()
        reached = sent(tmp_path)
        with role("city", tmp_path, broker.bootstrap, port) as city:
            eventually(lambda: sent(tmp_path) > reached + 100, "the next city lives")
            city.send_signal(signal.SIGTERM)
            assert city.wait(BOUND_S) == 0
    records = drained(broker.bootstrap, tmp_path, port)
    totals = truth(tmp_path)
    ids = {headers.get("record-id", b"").decode() for _, headers, _ in records}
    assert set().union(*totals.ids.values()) <= ids
    assert totals.ended_runs == 2
    assert newest_counters(records) == sum(totals.tried(topic) for topic in totals.topics)


def test_a_city_that_stops_when_edge_and_broker_are_gone_leaves_its_counters_to_the_next(
    broker: RunningBroker, tmp_path: Path
) -> None:
    """As when the supervisor is killed. Regression: it recorded its end without having sent
    them."""
    port = free_port()
    with role("city", tmp_path, broker.bootstrap, port, flush_timeout_ms=1000) as city:
        with role("edge", tmp_path, broker.bootstrap, port) as edge:
            eventually(lambda: sent(tmp_path) > 200, "records flow")
            edge.kill()
            edge.wait()
            broker.kill()
        city.send_signal(signal.SIGTERM)
        assert city.wait(BOUND_S) == 0
    assert truth(tmp_path).ended_runs == 0
    reached, again = sent(tmp_path), broker.restart()
    with (
        role("edge", tmp_path, again.bootstrap, port),
        role("city", tmp_path, again.bootstrap, port) as city,
    ):
        eventually(lambda: sent(tmp_path) > reached + 100, "the next city lives")
        city.send_signal(signal.SIGTERM)
        assert city.wait(BOUND_S) == 0
    records = drained(again.bootstrap, tmp_path, port)
    again.stop()
    totals = truth(tmp_path)
    assert totals.ended_runs == 2
    assert newest_counters(records) == sum(totals.tried(topic) for topic in totals.topics)
