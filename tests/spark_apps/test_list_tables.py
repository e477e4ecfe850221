"""A worker on another machine than the driver's: it builds the tables of lists itself, dies or not."""

from __future__ import annotations

import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alarm.lists.reader import ListReader
from alarm.lists.table import PlateTable
from alarm.rules.references import References
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.contracts.topics import STATE_LISTS, TOPICS
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import start_broker
from tests.alarm.lists.stored_list import records_of_list

pytestmark = pytest.mark.slow  # a broker process
PLATES = [f"浙{letter}{number:05}" for letter in "ABC" for number in range(50_000)]
KILLS = 3
WORKER = """
import pickle, sys
from pathlib import Path
from bus.settings import BusSettings
from spark_apps.tasks.list_tables import open_tables
packed, bootstrap, folder = sys.argv[1:]
references = pickle.loads(Path(packed).read_bytes())
print("begins", flush=True)
open_tables(references, BusSettings(bootstrap_servers=bootstrap), Path(folder))
print(references.lists["stolen"].find("浙B00042").number, flush=True)
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusSettings]:
    """With a list of many plates, and a change of it."""
    running = start_broker(tmp_path / "broker")
    found = BusSettings(bootstrap_servers=running.bootstrap)
    admin = Admin(found, client_id="test")
    admin.ensure_topics([TOPICS[STATE_LISTS]])
    admin.close()
    producer = Producer(found, client_id="test")
    for key, value in records_of_list("stolen", PLATES, added=["浙C99999"], version=7):
        producer.send(STATE_LISTS, value, key=key)
    assert producer.close() == 0
    yield found
    running.stop()


def worker(packed: Path, bus: BusSettings, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WORKER, str(packed), bus.bootstrap_servers, str(folder)]
    return subprocess.Popen(words, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True)


def test_a_worker_without_the_drivers_file_builds_the_table_whenever_one_before_it_died(
    bus: BusSettings, tmp_path: Path
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    driver, here = tmp_path / "driver", tmp_path / "worker"
    with closing(ListReader(bus, "driver", driver)) as reader:
        references = References(lists=dict(reader.catch_up()))
    [table] = driver.glob("*.table")
    packed = tmp_path / "references"
    packed.write_bytes(pickle.dumps(references))
    assert packed.stat().st_size < 5_000
    sha256 = PlateTable.open(table).sha256
    table.unlink()
    for _ in range(KILLS):
        process = worker(packed, bus, here)
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(rng.uniform(0, 1.5))  # where it dies is drawn
        process.send_signal(signal.SIGKILL)
        process.communicate()
        for found in here.glob("*.table"):
            assert PlateTable.open(found).sha256 == sha256, "never half of one"
    both = [worker(packed, bus, here) for _ in range(2)]
    said = [process.communicate(timeout=90)[0] for process in both]
    assert said == [f"begins\n{PLATES.index('浙B00042') + 2}\n"] * 2
    assert [PlateTable.open(found).sha256 for found in here.glob("*.table")] == [sha256]
