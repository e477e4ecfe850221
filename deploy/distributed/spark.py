"""A standalone Spark cluster from pyspark's own jars, and our applications as drivers of their own.

    python -m deploy.distributed.spark CLASS WORDS…
In: a class of Spark and its words. Out: this process becomes it; `Child` values for the supervisor.
Never: a city's Spark cluster: that is there already, and `streams.master` names it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from deploy.cluster.layout import HOST
from deploy.distributed.layout import CORES, EXECUTOR_MEMORY, SparkPlan
from deploy.distributed.spark_key_files import SparkKeyFiles
from deploy.errors import Unavailable
from deploy.roles.table import ROLES, driver_name, environment
from deploy.settings.composed import Settings
from deploy.setup.java import java_home
from deploy.supervisor.child import Child, ServiceEndpoint
from deploy.supervisor.process_end import end_with_the_supervisor

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
DAEMON_MEMORY = "256m"
STOP_TIMEOUT_S = 15.0
WRITER = "ingest"
PORT_OPTION = "--spark-port"


def spark_home() -> Path:
    """The folder of the installed pyspark, which is a whole Spark; `Unavailable` without it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise Unavailable("Spark: the pyspark package is not installed")
    return Path(found.origin).parent


def spark_environment() -> dict[str, str]:
    """What a process of Spark is started with: this Python, this Java, the loopback."""
    return {
        **environment(),
        "SPARK_HOME": str(spark_home()),
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


def spark_processes(
    settings: Settings, plan: SparkPlan, store: tuple[str, ...] = (), bus: tuple[str, ...] = ()
) -> list[Child]:
    """The master, the workers, the drivers; `store`: what the one that writes it waits for, `bus`:
    what all drivers wait for. On a secured site the cluster is a closed one."""
    closed = SparkKeyFiles(plan.home) if settings.security.folder else None
    if closed:
        closed.make()
    workers = [_worker(plan, number, closed) for number in range(plan.workers)]
    drivers = [_driver(settings, plan, name, store, bus) for name in CORES]
    return [_master(plan, closed), *workers, *drivers]


def _master(plan: SparkPlan, closed: SparkKeyFiles | None) -> Child:
    port = plan.first_port
    words = [MASTER, "--host", HOST, "--port", str(port), "--webui-port", str(port + 1)]
    return _daemon("spark-master", port, [*words, *_properties(closed)], needs=())


def _properties(closed: SparkKeyFiles | None) -> list[str]:
    return ["--properties-file", str(closed.properties)] if closed else []


def _worker(plan: SparkPlan, number: int, closed: SparkKeyFiles | None) -> Child:
    name, port = plan.names[number], plan.port_of(number)
    folder = plan.home / name
    folder.mkdir(parents=True, exist_ok=True)
    words = [
        WORKER, "--host", HOST, "--port", str(port), "--webui-port", str(port + 1),
        "--cores", str(plan.cores_per_worker), "--memory", _memory(plan.cores_per_worker),
        "--work-dir", str(folder), *_properties(closed), plan.master,
    ]  # fmt: skip
    more = closed.of_workers if closed else {}
    return _daemon(name, port, words, needs=("spark-master",), more=more)


def _memory(executors: int) -> str:
    """Room for so many executors: it is reserved by count, not taken."""
    return f"{executors * int(EXECUTOR_MEMORY.removesuffix('m'))}m"


def _daemon(
    name: str,
    port: int,
    words: list[str],
    needs: tuple[str, ...],
    more: Mapping[str, str] = MappingProxyType({}),
) -> Child:
    return Child(
        name=name,
        command=(sys.executable, "-m", "deploy.distributed.spark", *words),
        environment={**spark_environment(), **more},
        needs=needs,
        endpoint=ServiceEndpoint(HOST, port, PORT_OPTION),
        stop_timeout_s=STOP_TIMEOUT_S,
    )


def _driver(
    settings: Settings, plan: SparkPlan, name: str, store: tuple[str, ...], bus: tuple[str, ...]
) -> Child:
    words = ["deploy.distributed.submit", name, str(CORES[name])]
    return Child(
        name=driver_name(name),
        command=(sys.executable, "-m", *words, *settings.arguments),
        environment=spark_environment(),
        needs=(*plan.names, *bus, *(store if name == WRITER else ())),
        ready_line=ROLES["streams"].ready_line,
        stop_timeout_s=ROLES["streams"].stop_timeout_s,
    )


def main(words: list[str]) -> None:
    """Become the process; ends with the supervisor that started it."""
    end_with_the_supervisor()
    command = [str(spark_home() / "bin" / "spark-class"), *words]
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
