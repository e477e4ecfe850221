"""Apache Kafka's own dump tool on the files of our logs, and our recovery on the files of Kafka."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.views import TopicConfig
from broker.disk.real import RealDisk
from broker.log.log import Log
from broker.log.validation import AppendOrigin
from bus.records.build import build_batch
from bus.records.control import end_txn_marker
from bus.records.record import Record
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

pytestmark = pytest.mark.java

NOW_MS = 1_700_000_000_000


def dump(*options: str) -> list[str]:
    done = subprocess.run(
        [str(ensure_java()), "-cp", class_path(kafka_jars()),
         "org.apache.kafka.tools.DumpLogSegments", *options],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two segments with all compressions, an idempotent and a transactional producer."""
    path = tmp_path_factory.mktemp("dump") / "t-0"
    config = replace(TopicConfig(), segment_bytes=60_000)
    log = Log(str(path), disk=RealDisk(), config=config, now_ms=NOW_MS)
    sequence = 0
    for i in range(400):
        records = [
            Record(b"k", b"x" * 200, timestamp_ms=NOW_MS + i * 10 + j) for j in range(1 + i % 4)
        ]
        log.append(
            build_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence,
                        compression=i % 5),
            leader_epoch=i // 200, now_ms=NOW_MS,
        )  # fmt: skip
        sequence += len(records)
    log.append(
        build_batch([Record(b"a", b"b", timestamp_ms=NOW_MS)], producer_id=9, producer_epoch=1,
                    base_sequence=0, is_transactional=True),
        leader_epoch=3, now_ms=NOW_MS,
    )  # fmt: skip
    marker = end_txn_marker(
        commit=False, producer_id=9, producer_epoch=1, coordinator_epoch=4, timestamp_ms=NOW_MS
    )
    log.append(marker, leader_epoch=3, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.close()
    return path


def test_every_batch_is_valid_and_every_record_is_read(written: Path) -> None:
    logs = sorted(map(str, written.glob("*.log")))
    assert len(logs) >= 2
    lines = dump("--deep-iteration", "--files", ",".join(logs))
    batches = [line for line in lines if line.startswith("baseOffset")]
    assert len(batches) == 402
    assert all("isvalid: true" in line for line in batches)
    assert sum(line.startswith("|") for line in lines) == 1002


def test_our_indexes_pass_kafkas_checks(written: Path) -> None:
    indexes = sorted(map(str, [*written.glob("*.index"), *written.glob("*.timeindex")]))
    for option in ("--index-sanity-check", "--verify-index-only"):
        text = "\n".join(dump(option, "--files", ",".join(indexes)))
        assert "Mismatches" not in text
        assert "Found timestamp mismatch" not in text
        assert "out of order" not in text
        if option == "--index-sanity-check":
            assert text.count("passed sanity check") == len(indexes)


def test_snapshots_and_the_transaction_index_say_what_we_meant(written: Path) -> None:
    newest = max(written.glob("*.snapshot"))
    text = "\n".join(dump("--files", str(newest)))
    assert "producerId: 5 producerEpoch: 0" in text
    assert "producerId: 9 producerEpoch: 1 coordinatorEpoch: 4" in text
    last = max(written.glob("*.txnindex"))
    assert "producerId: 9 firstOffset: 1000 lastOffset: 1001 lastStableOffset: 1002" in "\n".join(
        dump("--files", str(last))
    )
