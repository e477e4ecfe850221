"""Tasks that Spark runs twice, stages that it runs again, and workers that write late, write nothing
twice into HBase."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.domain.times import DAY_MS
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import start_broker
from deploy.servers.hbase import Hbase
from ingest.store.open import open_store
from ingest.store.port import PageRequest, Query, RecordReader
from tests.spark_apps.repeated_tasks import (
    AGAIN,
    AHEAD_CAMERA,
    AHEAD_MS,
    BATCHES,
    RECORDS,
    TIME_MS,
    WAY_MS,
)

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.rotates("executors in trouble"),
]

STAGES = 2  # rows and cells, each disturbed
SUMS = 12  # of one minute, kind and district
TWICE = RECORDS // 10 - 1  # of a batch
SENT = len(BATCHES) * RECORDS
STORED = (len(BATCHES) - len(AGAIN)) * (RECORDS - TWICE)


def test_what_runs_twice_or_late_counts_once(hbase: Hbase, tmp_path: Path) -> None:
    """Twins of slow tasks, stages that are run again because an executor died, workers that are
    stopped before a write and continue when two batches are committed: behind and before the writes
    of rows and of cells. Spark's own figures say that it happened. Then the same with batches of one
    task, which judges and writes all of it.
    What broke: the test disturbed tasks before they had written anything."""
    broker = start_broker(tmp_path / "broker")
    try:
        admin = Admin(BusSettings(bootstrap_servers=broker.bootstrap), client_id="test")
        admin.ensure_topics(TOPICS.values())
        admin.close()
        url = f"hbase://{hbase.address}/r{tmp_path.name.replace('-', '_')}"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("repeated_tasks.py")), url,
             broker.bootstrap, str(tmp_path)],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=550, check=False,
        )  # fmt: skip
    finally:
        broker.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["twins"] >= STAGES, told
    assert told["stages run again"] >= STAGES, told
    assert told["twins of one task"] == 1, told
    assert told["is the same"] == [True, True], "a late write has changed what counts"
    first = [["duplicates", "vehicle", "", TWICE], ["stored", "vehicle", "", RECORDS - TWICE]]
    again = [["duplicates", "vehicle", "", RECORDS]]
    assert told["totals"] == [first, first, first, again] * 2, "nothing else reaches the driver"
    assert max(told["sums"]) < SUMS, told
    [delay_ms] = {d for one in told["delays"] for d in one.get(AHEAD_CAMERA, {}).values()}
    assert delay_ms == WAY_MS - AHEAD_MS
    assert {camera for one in told["delays"] for camera in one} == {AHEAD_CAMERA}
    assert "a worker cannot read the register of version 2" in told["unreadable"]
    assert "./databus package" in told["unreadable"]
    reader = open_store(url)
    check(reader)
    reader.close()


def check(reader: RecordReader) -> None:
    """Everything once; of equal identities the first one."""
    counts = reader.counts()
    assert counts.stored == {"vehicle": STORED}
    assert counts.duplicates == {"vehicle": SENT - STORED}
    cells = reader.quality(from_ms=0, until_ms=0)
    assert sum(cell.arrived for cell in cells) == SENT
    assert sum(cell.stored for cell in cells) == STORED
    histogram = reader.latency_cells(from_ms=0, until_ms=0)
    assert sum(sum(cell.buckets.values()) for cell in histogram) == STORED
    days = reader.quality_sums(step_ms=DAY_MS, from_ms=0, until_ms=1 << 62)
    assert sum(one.arrived for one in days) == SENT
    assert sum(one.duplicates for one in days) == SENT - STORED
    assert reader.count(Query(kind="vehicle")) == STORED
    rows, _ = reader.query(Query(plate="浙B00009"), PageRequest())
    assert [row.record_id for row in rows] == ["id-9"]
    rows, _ = reader.query(Query(), PageRequest(limit=10_000))
    assert not [row.record_id for row in rows if b"another" in row.body]
    assert len(rows) == STORED, "an entry of another time would find a record twice"
    ahead = {row.captured_at_ms for row in rows if row.camera_ip == AHEAD_CAMERA}
    assert ahead == {TIME_MS - AHEAD_MS}
    assert {row.captured_at_ms for row in rows if row.camera_ip != AHEAD_CAMERA} == {TIME_MS}
