"""What Apache Kafka's own cleaner leaves is read here as Kafka reads it: holes, transactions, markers.

One directory that Kafka 4.4 has written and cleaned: a table with committed and aborted
transactions, and `__consumer_offsets` with plain and transactional commits.
"""

from __future__ import annotations

import itertools
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from broker.config.views import TopicConfig
from broker.coordinator.group.records import CommittedOffset, OffsetRecord, decode
from broker.coordinator.newest_records import AppliedBatches, NewestRecords, stored_batches
from broker.coordinator.open_transactions import OpenTransactions
from broker.disk.real import RealDisk
from broker.log.dump import dump_file, readable_files
from broker.log.log import Log
from broker.log.verify import verify
from deploy.errors import Unavailable
from deploy.servers.kafka import start_kafka

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
WAIT_S = 90.0
NOW_MS = 1_760_000_000_000
EAGER = {
    "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "200", "delete.retention.ms": "0",
}  # fmt: skip
OFFSETS = "__consumer_offsets"


class KafkaTable:
    """Writes to a Kafka, and knows what it must say in the end."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._transactional = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": "writer", "linger.ms": 0}
        )
        self._transactional.init_transactions(WAIT_S)
        self._reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
        self.values: dict[bytes, bytes] = {}
        self.offsets: dict[tuple[str, int], int] = {}

    def create(self) -> None:
        self._admin.create_topics([NewTopic("table", 3, 1, config=EAGER)])["table"].result(WAIT_S)

    def make_offsets_eager(self) -> None:
        changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                   for name, value in EAGER.items()]  # fmt: skip
        resource = ConfigResource(ConfigResource.Type.TOPIC, OFFSETS, incremental_configs=changes)
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(WAIT_S)

    def write(self, number: int) -> None:
        """One round: plain records, a transaction that counts, one that does not, commits."""
        self._put(self._plain, b"plain-%d" % (number % 3), b"%d" % number)
        removed = b"plain-%d" % (number % 3) if number % 5 == 4 else None
        if removed is not None:
            self._plain.produce("table", None, removed, 0)
            self.values.pop(removed)
        self._plain.flush(WAIT_S)
        self._in_transaction(number, commits=True)
        self._in_transaction(number, commits=False)
        self._reader.commit(offsets=[TopicPartition("table", 0, number)], asynchronous=False)
        self.offsets["readers", 0] = number

    def _in_transaction(self, number: int, *, commits: bool) -> None:
        self._transactional.begin_transaction()
        key, value = b"of transactions-%d" % (number % 2), b"%d %d" % (number, commits)
        self._transactional.produce("table", value, key, 0)
        metadata = self._reader.consumer_group_metadata()
        place = TopicPartition("table", 1 + number % 2, number * 10 + commits)
        self._transactional.send_offsets_to_transaction([place], metadata, WAIT_S)
        if commits:
            self._transactional.commit_transaction(WAIT_S)
            self.values[key] = value
            self.offsets["readers", place.partition] = place.offset
        else:
            self._transactional.abort_transaction(WAIT_S)

    def _put(self, producer: Producer, key: bytes, value: bytes) -> None:
        producer.produce("table", value, key, 0)
        self.values[key] = value

    def close(self) -> None:
        self._reader.close()


def cleaned_to(data: Path) -> dict[str, int]:
    """What Kafka's cleaner says of itself."""
    path = data / "cleaner-offset-checkpoint"
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    return {f"{topic}-{index}": int(at) for topic, index, at in (one.split() for one in lines)}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KafkaTable]:
    """Of a Kafka that has stopped."""
    folder = tmp_path_factory.mktemp("kafka")
    settings = {
        "offsets.topic.num.partitions": "1", "log.cleaner.backoff.ms": "100",
        "transaction.state.log.num.partitions": "1",
    }  # fmt: skip
    try:
        server = start_kafka(folder, settings=settings, heap="512m")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka 4.4: {missing}")
    data = folder / "data"
    with server:
        table = KafkaTable(server.address)
        table.create()
        table.write(0)
        table.make_offsets_eager()
        deadline = time.monotonic() + WAIT_S
        for number in itertools.count(1):
            table.write(number)
            done = cleaned_to(data)
            if min(done.get("table-0", 0), done.get(f"{OFFSETS}-0", 0)) > 60:
                break
            assert time.monotonic() < deadline, done
        table.write(number + 1)
        table.close()
    return data, table


def opened(data: Path, name: str, tmp_path: Path, *, clean: bool) -> Log:
    """A copy of a log of that directory, as after a clean stop or a kill."""
    shutil.copytree(data / name, tmp_path / name, dirs_exist_ok=True)
    config = replace(TopicConfig(), compacted=True)
    return Log(str(tmp_path / name), disk=RealDisk(), config=config, now_ms=NOW_MS, clean=clean,
               recovery_point=cleaned_to(data)[name])  # fmt: skip


def newest(log: Log) -> dict[bytes, bytes]:
    """The newest value of each key, of what was committed."""
    aborted = log.aborted_transactions(log.log_start_offset, log.end_offset)
    found = NewestRecords(AppliedBatches(aborted, log.producers), OpenTransactions())
    for segment in log.segments.all:
        if segment.size_bytes:
            data = bytes(segment.read_bytes(0, segment.size_bytes))
            batches = stored_batches(data, segment.base_offset, log.end_offset)
            for _ in found.add(data, batches, 0):
                pass
    return {key: value for key, value in found.drain() if value is not None}


@pytest.mark.parametrize("clean", [True, False])
def test_a_table_that_kafka_has_cleaned_has_the_last_committed_values(
    written: tuple[Path, KafkaTable], tmp_path: Path, clean: bool
) -> None:
    """Aborted records and removed keys are none of them."""
    data, table = written
    log = opened(data, "table-0", tmp_path, clean=clean)
    assert log.truncated_bytes == 0
    assert newest(log) == table.values
    lines = [one for path in readable_files(RealDisk(), log.directory)
             for one in dump_file(RealDisk(), path, records=True)]  # fmt: skip
    assert sum(int(str(one.get("missing_before", 0))) for one in lines) > 10, "it has holes"
    assert not [one for one in lines if one["kind"] == "damage"]


@pytest.mark.parametrize("clean", [True, False])
def test_offsets_that_kafka_has_cleaned_are_those_that_were_committed(
    written: tuple[Path, KafkaTable], tmp_path: Path, clean: bool
) -> None:
    """Also in transactions; those of aborted ones are not."""
    data, table = written
    log = opened(data, f"{OFFSETS}-0", tmp_path, clean=clean)
    assert log.truncated_bytes == 0
    records = [decode(key, value) for key, value in newest(log).items()]
    found = {
        (one.group_id, one.partition): one.value.offset
        for one in records
        if isinstance(one, OffsetRecord) and isinstance(one.value, CommittedOffset)
    }
    assert found == table.offsets


def test_no_hole_in_a_directory_of_kafka_is_called_damage(
    written: tuple[Path, KafkaTable],
) -> None:
    data, _ = written
    wanted = ("table", OFFSETS)
    found = list(
        verify(RealDisk(), str(data), records=True, pause=lambda: None,
               wanted=lambda topic: topic in wanted)
    )  # fmt: skip
    assert [outcome.damaged for outcome in found] == [[]] * 4
