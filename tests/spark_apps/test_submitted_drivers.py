"""Each driver of a Spark cluster starts by the command of docs/spark-cluster.md, here on `local[2]`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from bus.settings import BusSettings, SiteSettings
from deploy.distributed.spark import spark_environment
from deploy.distributed.submit import command_of
from deploy.roles.package import build_zip
from ingest.settings import StoreSettings
from spark_apps.settings import APART, JobSettings, StreamsSettings
from tests.rotation import drawn
from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.java, pytest.mark.timeout(200)]

READY_S = 120.0


@pytest.mark.parametrize("bootstrap", ["our broker"], indirect=True)
@pytest.mark.parametrize("name", drawn("submitted driver", list(APART)))
def test_a_driver_starts_alone_by_spark_submit(
    name: str, driver: DriverProcess, tmp_path: Path
) -> None:
    """With the zip of our packages and nothing of the folder it was made from; SIGTERM ends it."""
    packages = tmp_path / "packages.zip"
    build_zip(packages)
    store = f"sqlite://{tmp_path / 'records.db'}"
    if name != "ingest":
        store = "hbase://127.0.0.1:1/nowhere"  # it needs none
    environment = spark_environment()
    del environment["PYTHONPATH"]
    job = JobSettings(
        site=SiteSettings(data_dir=str(tmp_path / "var")),
        bus=BusSettings(bootstrap_servers=driver.bus.bootstrap_servers),
        store=StoreSettings(url=store),
        streams=StreamsSettings(
            master="local[2]", jars=":".join(map(str, driver.jars)), py_files=str(packages),
            metrics_port=-1,
        ),
    )  # fmt: skip
    path = tmp_path / "job.json"
    path.write_bytes(msgspec.json.encode(job))
    log = tmp_path / "submitted.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command_of(job, path, name, 2), cwd=tmp_path, env=environment,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_S
        while str(list(APART[name])) not in (text := log.read_text("utf-8", "replace")):
            assert process.poll() is None, text[-3000:]
            assert time.monotonic() < deadline, text[-3000:]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
