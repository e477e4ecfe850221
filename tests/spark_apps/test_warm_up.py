"""Before a driver says that it is ready, every slot of the cluster has run our packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deploy.errors import Unavailable
from deploy.paths import PROJECT_ROOT
from deploy.roles.package import build_zip
from deploy.setup.java import java_home
from spark_apps.session.warm_up import slots_asked_for, wait_for_slots
from tests.spark_apps.repeated_tasks import cluster

JOB = """
import json, sys, threading, time
from functools import partial
from spark_apps.session.session import slots_now
from spark_apps.session.session import open_session
from spark_apps.settings import StreamsSettings
from spark_apps.session.warm_up import run_in_every_slot, slots_asked_for, wait_for_slots

def imported(batches):
    import os, pyarrow, sys
    for batch in batches:
        deadline = time.monotonic() + 60  # both at work, so that they are in two workers
        open(f"{together}/{batch.column(0)[0]}", "w").close()
        while len(os.listdir(together)) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        known = "spark_apps.tasks.executor_writer" in sys.modules
        yield pyarrow.RecordBatch.from_pydict({"process": [os.getpid()], "known": [known]})

master, py_files, together = sys.argv[1:]
conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1"}
spark = open_session(StreamsSettings(master=master, py_files=py_files, conf=conf), 1)
wanted = slots_asked_for(dict(spark.sparkContext.getConf().getAll()))
found = wait_for_slots(wanted, partial(slots_now, spark), threading.Event())
ran = run_in_every_slot(spark, found)
rows = spark.range(0, found, 1, found).mapInArrow(imported, "process long, known boolean").collect()
print("FOUND", json.dumps([found, ran, [[row.process, row.known] for row in rows]]))
spark.stop()
"""


@pytest.mark.parametrize(
    ("conf", "slots"),
    [
        ({}, 1),
        ({"spark.cores.max": "2"}, 2),
        ({"spark.cores.max": "5", "spark.executor.cores": "2"}, 4),
        ({"spark.cores.max": "8", "spark.executor.cores": "4", "spark.task.cpus": "2"}, 4),
        ({"spark.executor.instances": "3", "spark.executor.cores": "2"}, 6),
        ({"spark.executor.instances": "0"}, 1),
    ],
)
def test_slots_are_those_that_the_configuration_bounds(conf: dict[str, str], slots: int) -> None:
    assert slots_asked_for(conf) == slots


def test_slots_come_one_after_the_other() -> None:
    coming = iter([1, 1, 2, 3])
    assert wait_for_slots(3, lambda: next(coming), threading.Event()) == 3


def test_an_application_with_fewer_slots_begins_with_these() -> None:
    assert wait_for_slots(3, lambda: 1, threading.Event(), timeout_s=0.3) == 1


def test_who_is_asked_to_stop_waits_for_no_slot() -> None:
    stopping = threading.Event()
    stopping.set()
    began = time.monotonic()
    assert wait_for_slots(3, lambda: 1, stopping) == 1
    assert time.monotonic() - began < 30, "it did not wait for the whole time"


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.rotates("executors in trouble")
def test_every_executor_of_a_cluster_has_a_worker_with_our_packages(tmp_path: Path) -> None:
    """Two executors come one after the other; what is run next finds all imported in both."""
    try:
        home = java_home()
    except Unavailable as missing:
        pytest.skip(str(missing))
    together = tmp_path / "together"
    together.mkdir()
    with cluster(tmp_path) as master:
        done = subprocess.run(
            [sys.executable, "-c", JOB, master, str(build_zip(tmp_path / "packages.zip")),
             str(together)],
            cwd=PROJECT_ROOT, timeout=250, capture_output=True, text=True, check=False,
            env={**os.environ, "JAVA_HOME": str(home)},
        )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert told, done.stderr[-3000:]
    slots, ran, rows = json.loads(told[0].removeprefix("FOUND "))
    assert (slots, ran) == (2, 2)
    assert len({process for process, _ in rows}) == 2
    assert all(known for _, known in rows), rows
