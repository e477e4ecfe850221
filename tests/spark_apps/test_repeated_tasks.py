"""Tasks that Spark runs twice, and stages that it runs again, write nothing twice into HBase."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bus.client.kafka.admin import Admin
from bus.contracts.topics import TOPICS
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.testservers.databus import start_broker
from deploy.testservers.hbase import Hbase
from ingest.store import open_store
from ingest.store.port import PageRequest, Query
from tests.spark_apps.repeated_tasks import RECORDS

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
SENT = RECORDS + 100
DUPLICATES = SENT // 10 - 1


@pytest.mark.parametrize(
    ("how", "happened"), [("speculation", "speculative"), ("death", "stage_attempts")]
)
def test_what_runs_twice_counts_once(hbase: Hbase, tmp_path: Path, how: str, happened: str) -> None:
    """Spark itself says that a twin, or another attempt of a stage, really ran."""
    broker = start_broker(tmp_path / "broker")
    try:
        admin = Admin(BusSettings(bootstrap_servers=broker.bootstrap), client_id="test")
        admin.ensure_topics(TOPICS.values())
        admin.close()
        url = f"hbase://{hbase.address}/{how}{tmp_path.name.replace('-', '_')}"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("repeated_tasks.py")), url,
             broker.bootstrap, str(tmp_path), how],
            cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    finally:
        broker.stop()
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])[happened] > 0, done.stdout
    reader = open_store(url)
    counts = reader.counts()
    assert counts.stored == {"vehicle": SENT - DUPLICATES}
    assert counts.duplicates == {"vehicle": DUPLICATES}
    cells = reader.quality(from_ms=0, until_ms=0)
    assert sum(cell.arrived for cell in cells) == SENT
    assert sum(cell.stored for cell in cells) == SENT - DUPLICATES
    histogram = reader.latency_cells(from_ms=0, until_ms=0)
    assert sum(sum(cell.buckets.values()) for cell in histogram) == SENT - DUPLICATES
    assert reader.count(Query(kind="vehicle")) == SENT - DUPLICATES
    rows, _ = reader.query(Query(plate="浙B00009"), PageRequest())
    assert [row.record_id for row in rows] == ["id-9"]
    reader.close()
