"""A batch written into HBase by two executors, while tasks run twice or executors die.

    python repeated_tasks.py STORE_URL BOOTSTRAP FOLDER speculation|death
Its own process, because Spark stays where it was started. Prints what Spark says of the tasks, and
commits twice over: the batch, and one more behind it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from bus.contracts.headers import RECORD_ID
from bus.contracts.register import Register
from bus.settings import BusSettings, SiteSettings
from deploy.distributed.spark import MASTER, WORKER, spark_environment, spark_home
from deploy.package import build_zip
from deploy.testservers.process import free_port
from ingest.store.hbase.writer import HbaseStore
from ingest.store.open import hbase_connection
from ingest.store.port import Position, StoreBatch
from spark_apps import executor_writer
from spark_apps.apps.ingest import store_batch
from spark_apps.judge import JudgedRecord
from spark_apps.retry import retry

RECORDS, TASKS = 2_000, 8
SLOW_S = 10.0
TIME = "2026-08-24 17:25:34.123"
SCHEMA = (
    "topic string, partition int, offset bigint, timestamp_ms bigint, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


def message(offset: int) -> tuple[Any, ...]:
    """Every tenth record comes twice."""
    number = offset - 1 if offset % 10 == 0 and offset else offset
    body = {"卡口编号": f"c{number % 7}", "车牌号码": f"浙B{number:05d}", "抓拍时间": TIME,
            "抓拍设备地址": f"10.0.0.{number % 50}"}  # fmt: skip
    value = json.dumps(body, ensure_ascii=False).encode()
    return ("data.vehicle", 0, offset, 5, value, [(RECORD_ID, f"id-{number}".encode())])


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers, each on an address of its own: Spark starts no twin on the host of
    the first."""
    port, environment = free_port(), spark_environment()
    master = f"spark://127.0.0.1:{port}"
    words = [[MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    for number in (1, 2):
        words.append(
            [WORKER, "--host", f"127.0.0.{number}", "--webui-port", "0", "--cores", "1",
             "--memory", "700m", "--work-dir", str(folder / f"worker-{number}"), master]
        )  # fmt: skip
    command = str(spark_home() / "bin" / "spark-class")
    started = [
        subprocess.Popen([command, *each], env=environment, stderr=subprocess.DEVNULL,
                         start_new_session=True)
        for each in words
    ]  # fmt: skip
    try:
        yield master
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def session(folder: Path, master: str) -> SparkSession:
    """Two executors of one core, which speculate early."""
    os.environ.update(spark_environment())
    conf = {
        "spark.master": master,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.submit.pyFiles": str(build_zip(folder / "packages.zip")),
        "spark.driver.host": "127.0.0.1",
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.5",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def once(marker: Path) -> bool:
    """Whether this is the first who asks, in any process."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def disturbed(folder: str, how: str) -> executor_writer.ToBatch:
    """`store_batch`; but one task is slow once, or kills its executor once, behind its work."""

    def to_batch(judged: Iterable[JudgedRecord]) -> StoreBatch:
        batch = store_batch(judged)
        if how == "speculation" and once(Path(folder) / "slow"):
            time.sleep(SLOW_S)
        if how == "death" and (Path(folder) / "armed").exists() and once(Path(folder) / "dead"):
            executor = psutil.Process(os.getpid()).parent()
            while executor is not None and "java" not in executor.name():
                executor = executor.parent()
            assert executor is not None
            executor.send_signal(signal.SIGKILL)
        return batch

    return to_batch


def place(first: int, end: int) -> list[Position]:
    """What a batch covers."""
    return [
        Position(application="ingest", cluster_id="c", topic="data.vehicle", topic_id="t",
                 partition=0, start_offset=first, end_offset=end)
    ]  # fmt: skip


def stages(spark: SparkSession) -> list[dict[str, Any]]:
    """Every stage with its tasks, as Spark tells them."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?details=true"
    with urllib.request.urlopen(url, timeout=20) as answer:
        found: list[dict[str, Any]] = json.loads(answer.read())
    return found


def main(url: str, bootstrap: str, folder: str, how: str) -> None:
    """Two batches; what Spark says of them."""
    with cluster(Path(folder)) as master:
        told = written(session(Path(folder), master), url, bootstrap, folder, how)
    print(json.dumps(told), flush=True)


def written(spark: SparkSession, url: str, bootstrap: str, folder: str, how: str) -> dict[str, int]:
    """Write both; which tasks ran."""
    connection, _ = hbase_connection(url)
    store = HbaseStore(connection)
    register = spark.sparkContext.broadcast(Register())
    bus, site = BusSettings(bootstrap_servers=bootstrap), SiteSettings()
    (Path(folder) / "armed").touch()
    for first, end in ((0, RECORDS), (RECORDS, RECORDS + 100)):
        attempt = store.begin(place(first, end))
        assert attempt is not None
        job = spark.sparkContext.broadcast(executor_writer.Job(url, bus, site, attempt))
        rows = [message(offset) for offset in range(first, end)]
        frame = spark.createDataFrame(rows, SCHEMA).repartition(TASKS)
        executor_writer.write(frame, job, register, disturbed(folder, how), TASKS)
        retry(partial(store.commit, attempt, place(first, end)), threading.Event(), "the ledger")
    tasks = [task for stage in stages(spark) for task in stage.get("tasks", {}).values()]
    found = {
        "speculative": sum(task["speculative"] for task in tasks),
        "stage_attempts": max(stage["attemptId"] for stage in stages(spark)),
        "failed": sum(task["status"] != "SUCCESS" for task in tasks),
    }
    spark.stop()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
