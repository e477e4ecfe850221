"""Tasks that Spark runs twice, and stages that it runs again, write nothing twice into HBase."""

from __future__ import annotations

import json
import random
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


HAPPENED = {"speculation": "speculative", "death": "stage_attempts"}
"""How it comes that something runs twice, and where Spark tells it."""


def test_what_runs_twice_counts_once(hbase: Hbase, tmp_path: Path, dice: random.Random) -> None:
    """A twin of a slow task, or another attempt of a stage whose executor died: one of them is drawn,
    and Spark itself says that it really ran."""
    how, happened = dice.choice(sorted(HAPPENED.items()))
    print(f"what runs twice: {how}")
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
