"""Executors with another Python, or with a full disk: a sentence says what to do, nothing is lost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.distributed.spark import spark_environment
from deploy.roles.package import build_zip
from deploy.servers.small_disk import ResizableDisk
from spark_apps.batches.batch_tasks import SMALL_BATCH
from spark_apps.session.job_failures import FULL_DISK
from tests.own_disk import own_disk
from tests.spark_apps.conftest import INTO_HBASE, DriverProcess
from tests.spark_apps.repeated_tasks import cluster

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]

EXECUTOR = "CoarseGrainedExecutorBackend"
OURS = pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
MANY = 100 + 12 * SMALL_BATCH
SMALL_BYTES, ROOMY_BYTES = 24 << 20, 512 << 20
# A Python that says it is another one: `sys.version_info` is all that Spark looks at.
OTHER = """
import sys
from collections import namedtuple
names = "major minor micro releaselevel serial"
sys.version_info = namedtuple("version_info", names)(3, 9, 1, "final", 0)
"""


def other_python(folder: Path) -> Path:
    """Its executable."""
    (folder / "sitecustomize.py").write_text(OTHER, encoding="utf-8")
    found = folder / "python3.9"
    found.write_text(
        f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec {sys.executable} "$@"\n', "utf-8"
    )
    found.chmod(0o755)
    return found


@pytest.mark.rotates("executors in trouble")
@OURS
@pytest.mark.parametrize("work_in", ["executors"], indirect=True)
def test_a_worker_with_another_python_ends_the_start_with_a_sentence(
    driver: DriverProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: Spark itself found it first, and its trace ended the driver with status 1."""
    monkeypatch.setenv("PYSPARK_PYTHON", str(other_python(tmp_path)))
    driver.launch("watchlist")
    assert driver.process is not None
    assert driver.process.wait(120) == 2
    text = driver.log.read_text(encoding="utf-8")
    assert "cannot start: the driver runs Python 3.11, the executors run 3.9" in text
    assert "docs/spark-cluster.md" in text


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ResizableDisk]:
    """Where executors put what they shuffle."""
    with own_disk(tmp_path / "disk", SMALL_BYTES) as mounted:
        yield mounted


@pytest.mark.rotates("executors in trouble")
@OURS
@pytest.mark.parametrize("work_in", [INTO_HBASE], indirect=True)
def test_a_full_disk_of_an_executor_is_waited_for(
    driver: DriverProcess, disk: ResizableDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: Java's exception was none of those that were caught; the driver died of each
    batch. It stays, says what to do, and writes the same batch when there is room."""
    with full_disk(driver, disk, tmp_path, monkeypatch):
        send(driver, 100, MANY)  # a small batch shuffles nothing
        # By a failed job, or because no executor begins: which of them comes first is chance.
        driver.until(lambda: driver.said(FULL_DISK) > 0, True)
        disk.resize(ROOMY_BYTES)
        driver.until(driver.stored, MANY)
        assert driver.said("streams: ready") == 1, "it is the same driver"
        assert driver.failed_attempts() == ()
        assert driver.stop() == 0


@pytest.mark.rotates("executors in trouble")
@OURS
@pytest.mark.parametrize("work_in", [INTO_HBASE], indirect=True)
def test_executors_that_cannot_begin_are_named_and_waited_for(
    driver: DriverProcess, disk: ResizableDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What broke: the job waited for an executor, no attempt of it failed, and nothing was said."""
    with full_disk(driver, disk, tmp_path, monkeypatch):
        for executor in executors():
            executor.kill()
        send(driver, 100, 200)
        driver.until(lambda: driver.said(f"no executor works: {FULL_DISK}") > 0, True)
        disk.resize(ROOMY_BYTES)
        driver.until(driver.stored, 200)
        assert driver.said("streams: ready") == 1, "it is the same driver"
        assert driver.stop() == 0


@contextmanager
def full_disk(
    driver: DriverProcess, disk: ResizableDisk, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The driver has stored a hundred records by executors whose disk is full then."""
    for name, value in spark_environment().items():
        monkeypatch.setenv(name, value)
    with cluster(folder, disk.folder) as master:
        driver.set_streams(
            master=master,
            py_files=str(build_zip(folder / "packages.zip")),
            conf={"spark.executor.memory": "512m", "spark.executor.cores": "1"},
        )
        driver.start("ingest")
        send(driver, 0, 100)
        driver.until(driver.stored, 100)
        disk.leave(0)
        (disk.folder / "ballast").write_bytes(b"x" * max(0, disk.free_bytes - 1))
        yield


def executors() -> list[psutil.Process]:
    """Those of workers that this process has started."""
    ours = {one.pid for one in psutil.Process().children(recursive=True)}
    return [
        one for one in psutil.process_iter(["cmdline"])
        if one.pid in ours and any(EXECUTOR in word for word in one.info["cmdline"] or ())
    ]  # fmt: skip


def send(driver: DriverProcess, first: int, end: int) -> None:
    for number in range(first, end):
        driver.send_vehicle(number)
    driver.flush()
