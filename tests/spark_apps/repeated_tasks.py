"""Batches written into HBase by two executors, while tasks run twice, executors die, a worker stops.

    python repeated_tasks.py STORE_URL BOOTSTRAP FOLDER
Its own process, because Spark stays where it was started. Prints what Spark says of the tasks, and
what the store holds before and after a late write. What is disturbed: `disturbing_daemon`.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import psutil
from pyspark.sql import SparkSession

from bus.contracts.headers import RECEIVED_AT, RECORD_ID
from bus.contracts.register import Register
from bus.domain.times import DAY_MS, HOUR_MS, local_time
from bus.settings import BusSettings, SiteSettings
from deploy.distributed.spark import MASTER, WORKER, spark_environment, spark_home
from deploy.roles.package import build_zip
from deploy.servers.process import free_port
from ingest.normalise import ClockLimits
from ingest.store.hbase.writer import HbaseStore
from ingest.store.open import hbase_connection
from ingest.store.port import PageRequest, Position, Query
from spark_apps.apps.ingest import store_batch
from spark_apps.session.job_failures import JobFailed
from spark_apps.session.retry import retry, retry_job
from spark_apps.tasks import executor_writer
from spark_apps.tasks.broadcast import VersionedValue
from tests.spark_apps.disturbing_daemon import VARIABLE

RECORDS, TASKS = 400, 8
BATCHES = (
    "speculation", "death", "stop", "stop again",
    "one task: speculation", "one task: death", "one task: stop", "one task: stop again",
)  # fmt: skip
"""Each of so many records; one that comes again sends the records of the one before."""
AGAIN = tuple(number for number, name in enumerate(BATCHES) if name.endswith(" again"))
WAIT_S = 60.0
TIME = "2026-08-24 17:25:34.123"
TIME_MS = local_time("Asia/Shanghai").to_ms(TIME)
WAY_MS = 500
AHEAD_CAMERA, AHEAD_MS = "10.0.0.7", 3 * HOUR_MS
"""Whose clock is ahead; it writes `TIME` as all do."""
SCHEMA = (
    "topic string, partition int, offset bigint, timestamp_ms bigint, value binary, "
    "headers array<struct<key: string, value: binary>>"
)


def message(offset: int, number: int, colour: str = "") -> tuple[Any, ...]:
    """Every tenth record of a batch has the identity of the one before, and another body."""
    if offset % 10 == 0 and offset % RECORDS:
        number, colour = number - 1, "another"
    camera_ip = f"10.0.0.{number % 50}"
    body = {"卡口编号": f"c{number % 7}", "车牌号码": f"浙B{number:05d}", "抓拍时间": TIME,
            "抓拍设备地址": camera_ip, "车身颜色": colour}  # fmt: skip
    value = json.dumps(body, ensure_ascii=False).encode()
    received_at_ms = TIME_MS + WAY_MS - (AHEAD_MS if camera_ip == AHEAD_CAMERA else 0)
    headers = [(RECORD_ID, f"id-{number}".encode()), (RECEIVED_AT, b"%d" % received_at_ms)]
    return ("data.vehicle", 0, offset, 5, value, headers)


def messages(batch: int) -> list[tuple[Any, ...]]:
    """One that comes again has the records of the one before, with other bodies."""
    first = batch * RECORDS
    if batch not in AGAIN:
        return [message(offset, offset) for offset in range(first, first + RECORDS)]
    again = range(first, first + RECORDS)
    return [message(offset, offset - RECORDS, "another") for offset in again]


@contextmanager
def cluster(folder: Path, local_dirs: Path | None = None) -> Iterator[str]:
    """A master and two workers, each on an address of its own: Spark starts no twin on the host of
    the first. `local_dirs`: where executors put what they shuffle."""
    port, environment = free_port(), spark_environment()
    if local_dirs is not None:
        environment["SPARK_LOCAL_DIRS"] = str(local_dirs)
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
        "spark.executorEnv." + VARIABLE: str(folder),
        "spark.python.daemon.module": "tests.spark_apps.disturbing_daemon",
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
        # A stage of one task has no other to be slower than.
        "spark.speculation.task.duration.threshold": "2s",
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def place(batch: int) -> list[Position]:
    """What a batch covers."""
    first = batch * RECORDS
    return [
        Position(application="ingest", cluster_id="c", topic="data.vehicle", topic_id="t",
                 partition=0, start_offset=first, end_offset=first + RECORDS)
    ]  # fmt: skip


def stages(spark: SparkSession) -> list[dict[str, Any]]:
    """Every attempt of every stage with its tasks, as Spark tells them."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?details=true"
    with urllib.request.urlopen(url, timeout=90) as answer:
        found: list[dict[str, Any]] = json.loads(answer.read())
    return found


def tasks_of(stage: dict[str, Any]) -> list[dict[str, Any]]:
    return list(stage.get("tasks", {}).values())


def twins_that_won(spark: SparkSession) -> set[int]:
    """Stages in which a speculative twin ran to its end."""
    return {
        stage["stageId"]
        for stage in stages(spark)
        if any(task["speculative"] and task["status"] == "SUCCESS" for task in tasks_of(stage))
    }


def stages_run_again(spark: SparkSession) -> set[int]:
    """Stages that were run again and came to an end."""
    return {
        stage["stageId"]
        for stage in stages(spark)
        if stage["attemptId"] > 0 and stage["status"] == "COMPLETE" and tasks_of(stage)
    }


def until(what: Callable[[], bool], sentence: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline, f"never: {sentence}"
        time.sleep(0.1)


class Writer:
    """Writes and commits the batches of this test by Spark."""

    def __init__(self, spark: SparkSession, url: str, bootstrap: str, folder: Path) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.bus = BusSettings(bootstrap_servers=bootstrap)
        self.store = HbaseStore(hbase_connection(url)[0])
        sent = spark.sparkContext.broadcast(Register())
        self.register = VersionedValue("register", 1, sent)
        known = ClockLimits(offsets={AHEAD_CAMERA: AHEAD_MS})
        self.clocks = VersionedValue("clocks", 1, spark.sparkContext.broadcast(known))

    def write(
        self, batch: int, *disturbances: str, tasks: int = TASKS
    ) -> executor_writer.BatchResult:
        """One attempt, without its commit."""
        for what in disturbances:
            (self.folder / what).touch()
        attempt = self.store.begin(place(batch))
        assert attempt is not None
        job = executor_writer.Job(self.url, self.bus, SiteSettings(), attempt)
        frame = self.spark.createDataFrame(messages(batch), SCHEMA).repartition(tasks)
        found = executor_writer.write(
            frame, job, self.register, self.clocks, store_batch, tasks
        )
        left = [what for what in disturbances if (self.folder / what).exists()]
        assert not left, f"never happened: {left}"
        retry(partial(self.store.add_up, attempt, found.sums), threading.Event(), "the sums")
        retry(
            partial(self.store.commit, attempt, place(batch)), threading.Event(), "the ledger"
        )
        return found

    def content(self) -> str:
        """Everything that the store says, as one text."""
        rows, _ = self.store.query(Query(), PageRequest(limit=10_000))
        parts = (
            self.store.counts(),
            self.store.quality(from_ms=0, until_ms=0),
            self.store.latency_cells(from_ms=0, until_ms=0),
            self.store.quality_sums(step_ms=DAY_MS, from_ms=0, until_ms=1 << 62),
            sorted(
                (row.record_id, row.captured_at_ms, row.stored_at_ms, row.body.decode())
                for row in rows
            ),
        )
        return msgspec.json.encode(parts).decode()

    def continue_stopped(self, *stages: str) -> None:
        """SIGCONT to every worker that stopped itself, and until it has written after all and has
        ended: nobody reads what it has to say."""
        stopped = [
            (marker, psutil.Process(int(marker.name.partition("-")[2])))
            for marker in self.folder.glob("stopped-*")
        ]
        for _, process in stopped:
            process.resume()
        for stage in stages:
            until((self.folder / f"late-{stage}").exists, f"the late write of {stage}")
            (self.folder / f"late-{stage}").unlink()
        for marker, process in stopped:
            process.wait(WAIT_S)
            marker.unlink()

    def unreadable(self) -> str:
        """What the driver says of a register that a worker cannot read."""
        sent = self.spark.sparkContext.broadcast(UnreadableValue())
        register: Any = VersionedValue("register", 2, sent)
        work = executor_writer.judging(register, self.clocks, SiteSettings().zone)
        frame = self.spark.createDataFrame(messages(0)[:1], SCHEMA)
        judged = frame.mapInArrow(work, executor_writer.JUDGED_SCHEMA)
        try:
            retry_job(judged.collect, threading.Event(), "judging")
        except JobFailed as error:
            return str(error)
        return ""


class UnreadableValue:
    """A value that is written here and cannot be read there."""

    def __reduce__(self) -> tuple[Callable[[], NoReturn], tuple[()]]:
        return _refuse, ()


def _refuse() -> NoReturn:
    raise AttributeError("Register has no field of this version")


def main(url: str, bootstrap: str, folder: str) -> None:
    """All batches; what Spark says of them, and the store."""
    with cluster(Path(folder)) as master:
        spark = session(Path(folder), master)
        told = written(Writer(spark, url, bootstrap, Path(folder)))
        spark.stop()
    print(json.dumps(told), flush=True)


def written(writer: Writer) -> dict[str, Any]:
    """Each batch with what happens meanwhile."""
    spark = writer.spark
    totals = [writer.write(0, "slow-rows", "slow-cells")]
    twins = twins_that_won(spark)
    totals.append(writer.write(1, "die-rows", "die-cells"))
    again = stages_run_again(spark)
    totals.append(writer.write(2, "stop-rows", "stop-cells"))
    totals.append(writer.write(3))
    before = writer.content()
    writer.continue_stopped("rows", "cells")
    is_same = [before == writer.content()]
    earlier = twins_that_won(spark)  # also those of batches in between, on a machine that is slow
    totals.append(writer.write(4, "slow-rows", tasks=1))
    alone = twins_that_won(spark) - earlier
    totals.append(writer.write(5, "die-rows", "die-cells", tasks=1))
    totals.append(writer.write(6, "stop-rows", tasks=1))
    totals.append(writer.write(7, tasks=1))
    before = writer.content()
    writer.continue_stopped("rows")  # and goes on to the cells
    is_same.append(before == writer.content())
    return {
        "twins": len(twins),
        "stages run again": len(again),
        "totals": [sorted(one.numbers.totals) for one in totals],
        "sums": [len(one.sums) for one in totals],
        "delays": [one.delays for one in totals],
        "twins of one task": len(alone),
        "is the same": is_same,
        "unreadable": writer.unreadable(),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
