"""The product on a city's servers: a Spark cluster, three brokers, a distributed HBase.

All on this machine, and one of them dies under load.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import psutil
import pytest
from running_product import Demo, RunningProduct
from test_hbase import stored

from deploy.distributed.layout import plan
from deploy.distributed.processes import STORE_NAME
from deploy.testservers.process import free_range

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]
NEEDED_BYTES = 12 << 30
RATE = 100
VICTIMS = (
    "an executor of ingest", "spark-worker-1", "streams-ingest", "streams-watchlist",
    "hbase-thrift-1", "hbase-thrift-2", "hbase-region-1", "hbase-region-2",
)  # fmt: skip
EXECUTOR = "CoarseGrainedExecutorBackend"


def executors_of(application_id: str) -> list[psutil.Process]:
    """Executors are the workers' children, and name their application."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if EXECUTOR in words and application_id in words:
            found.append(process)
    return found


def application_id(place: RunningProduct) -> str:
    """Of the running ingest, as Spark gave it out; in the command line of its executors."""
    log = (place.folder / "log" / "streams-ingest.log").read_text("utf-8", "replace")
    found = [word for line in log.splitlines() for word in line.split() if word.startswith("app-")]
    return found[-1].partition("/")[0]


def kill(demo: Demo, victim: str) -> None:
    """kill -9, and wait until its successor runs."""
    if victim != "an executor of ingest":
        demo.kill([victim])
        return
    process = executors_of(application_id(demo.place))[0]
    os.kill(process.pid, signal.SIGKILL)
    demo.wait_until(lambda: not process.is_running(), "the executor is dead")


@pytest.mark.skipif(
    psutil.virtual_memory().total < NEEDED_BYTES, reason="a city's servers need 12 GB of memory"
)
def test_the_account_balances_after_a_death_among_a_city_s_servers(
    tmp_path: Path, dice: random.Random
) -> None:
    """The victim is drawn. `Demo.ctrl_c` checks the balance."""
    place, first = RunningProduct(tmp_path / "data"), free_range(80)
    wanted = plan(place.folder, workers=2, region_servers=2, first_hbase_port=first + 60)
    assert wanted.hbase is not None
    url = wanted.hbase.store_url(STORE_NAME)
    words = [
        "--brokers", "3", "--port", str(first), "--spark-workers", "2", "--region-servers", "2",
        "--spark-port", str(first + 40), "--hbase-port", str(first + 60), "--rate", str(RATE),
    ]  # fmt: skip
    with Demo(place, *words) as demo:

        def flows(what: str) -> None:
            before = stored(url)
            demo.wait_until(lambda: stored(url) >= before + 3 * RATE, what)

        demo.wait_until(lambda: place.role("city").get("state") == "running", "all run")
        flows("the first records are stored")
        victim = dice.choice(VICTIMS)
        print(f"the victim: {victim}")
        kill(demo, victim)
        flows(f"records are stored after the death of {victim}")
        account = demo.ctrl_c()
    assert account["alarms_raised"] > 0
