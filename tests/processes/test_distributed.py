"""The product on a city's servers: a Spark cluster, three brokers, a distributed HBase.

All on this machine, and one of them dies under load, or stands still for a while. By hand, several
in one run, one after the other, or each of all:

    DATABUS_VICTIMS="hbase-region-1 stands still" DATABUS_AWAY_S=600 \\
        ./databus test tests/processes/test_distributed.py
    DATABUS_VICTIMS=all ./databus test tests/processes/test_distributed.py
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from running_product import Demo, RunningProduct
from test_hbase import stored

from deploy.cluster.layout import ControllerKind
from deploy.demo.folders import arrangement, folder_of
from deploy.distributed.layout import CORES, plan
from deploy.distributed.processes import STORE_NAME
from deploy.distributed.tables import NAME as TABLES
from deploy.roles.table import driver_name
from deploy.servers.process import free_range
from ingest.store.hbase.columns import read_ledger
from ingest.store.open import hbase_connection

NEEDED_BYTES = 12 << 30
RATE = 100
STARTED_S = 900.0  # as long as the demo itself waits for four drivers, three brokers and HBase
AWAY_S = float(os.environ.get("DATABUS_AWAY_S", "60"))
STANDS_STILL = " stands still"
DRIVERS = tuple(driver_name(driver) for driver in CORES)
VICTIMS = (
    "an executor of ingest", "spark-worker-1", "spark-worker-2", *DRIVERS,
    "hbase-thrift-1", "hbase-thrift-2", "hbase-region-1", "hbase-region-2",
    "hbase-region-1" + STANDS_STILL, "hbase-region-2" + STANDS_STILL,
)  # fmt: skip
EACH_S = 300.0  # for one victim more
EXECUTOR = "CoarseGrainedExecutorBackend"


def given_victims() -> list[str]:
    """Those asked for by hand, in an order drawn anew where it is all of them; none: one is drawn."""
    given = [word.strip() for word in os.environ.get("DATABUS_VICTIMS", "").split(",")]
    return list(VICTIMS) if given == ["all"] else [word for word in given if word]


pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.timeout(1200 + (AWAY_S + EACH_S) * max(1, len(given_victims()))),
]


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


def disturb(demo: Demo, victim: str) -> None:
    """kill -9, and wait until its successor runs; or SIGSTOP, and SIGCONT when it was away."""
    if victim.endswith(STANDS_STILL):
        stand_still(demo, victim.removesuffix(STANDS_STILL))
        return
    if victim != "an executor of ingest":
        demo.kill([victim])
        return
    process = executors_of(application_id(demo.place))[0]
    os.kill(process.pid, signal.SIGKILL)
    demo.wait_until(lambda: not process.is_running(), "the executor is dead")


def stand_still(demo: Demo, name: str) -> None:
    """HBase gives its regions to the other one; continued, it learns that it is dead, and is
    started anew."""
    pid = demo.place.role(name)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(AWAY_S)
    finally:
        os.kill(pid, signal.SIGCONT)
    demo.wait_until(lambda: demo.place.role(name).get("state") == "running", f"{name} runs")


def pids_of_drivers(place: RunningProduct) -> dict[str, int]:
    return {name: place.role(name)["pid"] for name in DRIVERS}


def failed_attempts(url: str) -> tuple[int, ...]:
    """Numbers that will never count."""
    connection, _ = hbase_connection(url)
    with connection.session() as session:
        ledger, _ = read_ledger(session)
    connection.close()
    return ledger.failed


@pytest.mark.skipif(
    psutil.virtual_memory().available < NEEDED_BYTES,
    reason="a city's servers need 12 GB of free memory",
)
@pytest.mark.rotates("hbase of a product")
def test_the_account_balances_after_a_death_among_a_city_s_servers(
    tmp_path: Path, dice: random.Random
) -> None:
    """The victim is drawn. `Demo.ctrl_c` checks the balance. No driver is started again but the one
    that died, and only the death of ingest's leaves a number that never counts."""
    victims = given_victims() or [dice.choice(VICTIMS)]
    dice.shuffle(victims)
    print(f"the victims: {', '.join(victims)}")
    root, first = tmp_path / "data", free_range(80)
    name = arrangement(3, ControllerKind.KRAFT, hbase=True)
    place = RunningProduct(folder_of(root, name), data_dir=root)
    wanted = plan(place.folder, workers=2, region_servers=2, first_hbase_port=first + 60)
    assert wanted.hbase is not None
    url = wanted.hbase.store_url(STORE_NAME)
    words = [
        "--brokers", "3", "--port", str(first), "--spark-workers", "2", "--region-servers", "2",
        "--spark-port", str(first + 40), "--hbase-port", str(first + 60), "--rate", str(RATE),
    ]  # fmt: skip
    with Demo(place, *words, started_s=STARTED_S) as demo:

        def flows(what: str) -> None:
            before = stored(url)
            demo.wait_until(lambda: stored(url) >= before + 3 * RATE, what)

        demo.wait_until(lambda: place.role("city").get("state") == "running", "all run")
        flows("the first records are stored")
        assert "tables of 4 regions" in (place.folder / "log" / f"{TABLES}.log").read_text("utf-8")
        failed_before = 0
        for victim in victims:
            drivers = pids_of_drivers(place)
            disturb(demo, victim)
            flows(f"records are stored after the death of {victim}")
            now = pids_of_drivers(place)
            restarted = [name for name in DRIVERS if now[name] != drivers[name]]
            assert restarted == [name for name in DRIVERS if name == victim]
            failed = len(failed_attempts(url)) - failed_before
            assert failed <= (1 if victim == driver_name("ingest") else 0), victim
            failed_before += failed
        account = demo.ctrl_c()
    assert account["alarms_raised"] > 0
