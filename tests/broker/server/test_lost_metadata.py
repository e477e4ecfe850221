"""A broker deletes nothing if its metadata are lost (`faults.md` D1) or a file is damaged (D2)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.servers.databus import BrokerStartError, RunningBroker, start_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
WAIT_S = 30.0
METADATA = "__cluster_metadata-0"


def make(running: RunningBroker, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": running.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(WAIT_S)


def write(running: RunningBroker, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for number in range(count):
        producer.produce(topic, b"value %d" % number, partition=partition)
    assert producer.flush(WAIT_S) == 0


def end_of(running: RunningBroker, topic: str, partition: int) -> int:
    reader = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "g"})
    try:
        where = TopicPartition(topic, partition)
        return int(reader.get_watermark_offsets(where, timeout=WAIT_S)[1])
    finally:
        reader.close()


def segments(directory: Path) -> bytes:
    """Every batch of every topic here, under any name."""
    found = (p for p in (directory / "logs").rglob("*.log") if METADATA not in str(p))
    return b"".join(sorted(path.read_bytes() for path in found if path.stat().st_size))


def naming_another_topic(data: bytes) -> bytes:
    """``partition.metadata`` with one bit flipped such that the topic id stays a valid one. (One that
    cannot be read is recreated from its copy: nothing is in doubt then.)"""
    first = data.index(b"topic_id: ") + len(b"topic_id: ")
    for at in range(first, first + 21):  # the last character has bits that mean nothing
        flipped = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        if re.fullmatch(rb"[A-Za-z0-9_-]{22}", flipped[first : first + 22]):
            return flipped
    raise AssertionError(f"every flipped bit makes {data!r} unreadable")


def databus(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "deploy", *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


def figure(running: RunningBroker, name: str) -> int:
    page = urllib.request.urlopen(f"http://127.0.0.1:{running.metrics_port}/metrics").read()
    [line] = [one for one in page.decode().splitlines() if one.startswith(name)]
    return int(float(line.rpartition(" ")[2]))


def test_the_only_voter_without_its_metadata_log_refuses_and_all_is_there_when_it_is_back(
    broker_dir: Path,
) -> None:
    """It said "ready" and marked every partition for deletion."""
    running = start_broker(broker_dir)
    make(running, "t", 4)
    write(running, "t", 2, 100)
    running.stop()
    before = segments(broker_dir)
    aside = (broker_dir / "logs" / METADATA).rename(broker_dir.parent / f"{broker_dir.name}-aside")
    with pytest.raises(BrokerStartError, match=r"only voter.*put the directory back"):
        start_broker(broker_dir)
    assert segments(broker_dir) == before
    assert len(list((broker_dir / "logs").glob("t-?"))) == 4, sorted(
        (broker_dir / "logs").iterdir()
    )
    aside.rename(broker_dir / "logs" / METADATA)
    running = start_broker(broker_dir)
    try:
        assert end_of(running, "t", 2) == 100
    finally:
        running.stop()


def test_topics_that_an_older_copy_of_the_metadata_does_not_know_are_kept(
    broker_dir: Path, tmp_path: Path
) -> None:
    """A backup from before they were made is put back: they are strays, shown, counted, and
    removed on request."""
    running = start_broker(broker_dir)
    make(running, "old")
    running.stop()
    subprocess.run(["cp", "-a", broker_dir / "logs" / METADATA, tmp_path / "backup"], check=True)
    running = start_broker(broker_dir)
    make(running, "new", 2)
    write(running, "new", 1, 50)
    running.stop()
    before = segments(broker_dir)
    (broker_dir / "logs" / METADATA).rename(broker_dir / "newer")
    subprocess.run(["cp", "-a", tmp_path / "backup", broker_dir / "logs" / METADATA], check=True)
    running = start_broker(broker_dir, {"metrics.port": "0"})
    try:
        config = tmp_path / "server.properties"
        config.write_text(f"log.dirs={broker_dir / 'logs'}\n")
        assert not list((broker_dir / "logs").glob("*-delete"))
        assert segments(broker_dir) == before
        rows = json.loads(databus("broker", "strays", "list", "--config", str(config), "--json"))
        assert sorted((row["topic"], row["partition"]) for row in rows) == [("new", 0), ("new", 1)]
        assert figure(running, "kafka_log_logmanager_straypartitioncount") == 2
        sizes = sum(row["size_bytes"] for row in rows)
        assert figure(running, "kafka_log_logmanager_straypartitionbytes") == sizes > 0
        assert figure(running, "kafka_log_logmanager_logdirectoryfreebytes") > 0
        databus("broker", "strays", "remove", "--config", str(config), rows[0]["path"])
        assert [row["path"] for row in rows if Path(row["path"]).exists()] == [rows[1]["path"]]
    finally:
        running.stop()


def test_a_flipped_bit_in_a_topic_id_takes_one_partition_offline_and_no_other(
    broker_dir: Path,
) -> None:
    """Regression: it deleted that partition. Clients get a storage error, and the log names the
    file."""
    running = start_broker(broker_dir)
    make(running, "t", 2)
    write(running, "t", 0, 10)
    write(running, "t", 1, 10)
    running.stop()
    path = broker_dir / "logs" / "t-0" / "partition.metadata"
    data = path.read_bytes()
    path.write_bytes(naming_another_topic(data))
    running = start_broker(broker_dir)
    try:
        assert end_of(running, "t", 1) == 10
        with pytest.raises(KafkaException):
            end_of(running, "t", 0)
        assert "t-0/partition.metadata and its copy" in running.log_path.read_text()
    finally:
        running.stop()
    path.write_bytes(data)
    running = start_broker(broker_dir)
    try:
        assert end_of(running, "t", 0) == 10
    finally:
        running.stop()
