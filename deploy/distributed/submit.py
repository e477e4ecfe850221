"""One driver of a Spark cluster, by Spark's own `spark-submit`.

    python -m deploy.distributed.submit DRIVER CORES [--config FILE] [--set NAME=VALUE]…
In: a driver of `APART`, its cores, the words of the settings. Out: this process becomes
`spark-submit`.
Never: anything an operator cannot type: docs/spark-cluster.md has the same command in full.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from bus.contracts.access import STREAMS
from deploy.cluster.layout import HOST
from deploy.distributed.layout import EXECUTOR_MEMORY
from deploy.distributed.spark import spark_home
from deploy.paths import PROJECT_ROOT
from deploy.roles.run import job_settings
from deploy.roles.table import driver_name
from deploy.secure.account_settings import as_account
from deploy.settings.composed import Settings, load_arguments
from deploy.supervisor.process_end import end_with_the_supervisor
from spark_apps.session.session import java_options
from spark_apps.settings import APART, JobSettings

DRIVER = PROJECT_ROOT / "spark_apps" / "driver.py"


def command_of(job: JobSettings, path: Path, driver: str, cores: int) -> list[str]:
    """The words of `spark-submit`; `path` holds the settings as JSON."""
    streams = job.streams
    options = {
        "spark.app.name": driver_name(driver),
        "spark.cores.max": streams.conf.get("spark.cores.max", cores),
        "spark.executor.cores": 1,
        "spark.executor.memory": EXECUTOR_MEMORY,
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
    }
    words = [str(spark_home() / "bin" / "spark-submit"), "--master", streams.master]
    if streams.properties_file:
        words += ["--properties-file", streams.properties_file]
    words += ["--driver-memory", streams.driver_memory]
    words += ["--driver-java-options", java_options(streams)]
    words += ["--jars", streams.jars.replace(":", ","), "--py-files", streams.py_files]
    for key, value in options.items():
        words += ["--conf", f"{key}={value}"]
    words += [str(DRIVER), "--settings", str(path)]
    return words + [word for name in APART[driver] for word in ("--application", name)]


def prepare(settings: Settings, driver: str) -> tuple[JobSettings, Path]:
    """The settings of the driver, and the file that holds them: secrets are for its owner only."""
    folder = settings.site.data_path / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    job = job_settings(settings, folder / f"packages-{driver}.zip")
    path = folder / f"{driver}.json"
    partial = path.with_suffix(".partial")
    with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode(job))
    partial.replace(path)
    return job, path


def main(words: list[str]) -> None:
    """Become `spark-submit`; ends with the supervisor that started it."""
    driver, cores, *arguments = words
    end_with_the_supervisor()
    settings = as_account(load_arguments(arguments), STREAMS)
    job, path = prepare(settings, driver)
    command = command_of(job, path, driver, int(cores))
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
