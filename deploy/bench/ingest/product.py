"""The whole product without its city, on free ports, in one of four arrangements.

A: everything embedded on one machine (one driver, SQLite, one broker). B: a Spark cluster with two
workers and a driver for each application, HBase with two region servers, three brokers. KRAFT and
ZOOKEEPER: as A, on three brokers.
In: an arrangement. Out: a running `Product`. Never: settings that an operator would not have.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from deploy.cluster.layout import ControllerKind
from deploy.demo.folders import arrangement as demo_arrangement
from deploy.demo.folders import folder_of
from deploy.distributed.layout import DistributedPlan, plan
from deploy.distributed.processes import STORE_NAME
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.servers.process import free_port, free_range
from deploy.supervisor.state_file import read_state

READY_TIMEOUT_S = 300.0  # a city's servers on two cores
STOP_TIMEOUT_S = 240.0
POLL_S = 0.1
BROKERS, WORKERS, REGION_SERVERS = 3, 2, 2
PORTS_OF_A_CLUSTER = 80


NO_POLICY_FLAGS = ("policy.requires_approval=false", "policy.requires_reason=false")
"""Nobody is there to approve the rule that finds the wanted car."""


class Arrangement(StrEnum):
    """Where everything runs."""

    A = "a"
    B = "b"
    KRAFT = "kraft"
    ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class Product:
    """What runs: its folder, its words on the command line, where its bus and its store are."""

    arrangement: Arrangement
    folder: Path
    flags: tuple[str, ...]
    bootstrap: str
    store_url: str

    @property
    def command(self) -> list[str]:
        """`databus` on this product."""
        return self.command_in(self.folder)

    def command_in(self, folder: Path) -> list[str]:
        """`databus` with another data directory: a demo is given the one above its own."""
        words = [sys.executable, "-m", "deploy", "--data-dir", str(folder)]
        bus = f"bus.bootstrap_servers={self.bootstrap}"
        for flag in (*self.flags, bus, *NO_POLICY_FLAGS):
            words += ["--set", flag]
        return words

    def databus(self, *words: str) -> None:
        """One command, to its end."""
        done = subprocess.run(
            [*self.command, *words], cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise OperatorError(f"databus {' '.join(words)}: {done.stderr[-400:]}")

    def port(self, section: str) -> int:
        """Where the edge or the console answers."""
        found = [flag for flag in self.flags if flag.startswith(f"{section}.port=")]
        return int(found[0].partition("=")[2])

    def roles(self) -> dict[str, dict[str, Any]]:
        """What the supervisor says of every process."""
        return dict((read_state(self.folder) or {}).get("roles", {}))

    def pid(self, role: str) -> int:
        """The process of a role now."""
        return int(self.roles()[role]["pid"])

    def kill(self, role: str) -> None:
        """kill -9 of the role and what it started."""
        os.killpg(os.getpgid(self.pid(role)), signal.SIGKILL)


@contextlib.contextmanager
def running(arrangement: Arrangement, *settings: str) -> Iterator[Product]:
    """Every role runs; at the end every role is stopped."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        folder = _folder_of(arrangement, root)
        folder.mkdir(parents=True, exist_ok=True)
        product, words = _planned(arrangement, folder, settings)
        with open(folder / "demo.log", "wb") as log:
            process = subprocess.Popen(
                [*product.command_in(root), "demo", "--rate", "0", *words],
                cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            _wait_until_ready(process, product)
            yield product
        finally:
            _stop(process)


def _folder_of(arrangement: Arrangement, root: Path) -> Path:
    """Where the demo of an arrangement keeps its data."""
    is_zookeeper, is_hbase = arrangement is Arrangement.ZOOKEEPER, arrangement is Arrangement.B
    controller = ControllerKind.ZOOKEEPER if is_zookeeper else ControllerKind.KRAFT
    brokers = None if arrangement is Arrangement.A else BROKERS
    return folder_of(root, demo_arrangement(brokers, controller, hbase=is_hbase))


def _planned(
    arrangement: Arrangement, folder: Path, settings: Sequence[str]
) -> tuple[Product, list[str]]:
    match arrangement:
        case Arrangement.A:
            return _on_one_machine(folder, settings)
        case Arrangement.B:
            return _on_a_city_s_servers(folder, settings)
        case Arrangement.KRAFT | Arrangement.ZOOKEEPER:
            return _on_three_brokers(arrangement, folder, settings)


def _on_one_machine(folder: Path, settings: Sequence[str]) -> tuple[Product, list[str]]:
    bootstrap = f"127.0.0.1:{free_port()}"
    flags = (
        f"broker.listeners=PLAINTEXT://{bootstrap}",
        f"broker.metrics.port={free_port()}",
        *_own_ports(),
        *settings,
    )
    return Product(Arrangement.A, folder, flags, bootstrap, _sqlite(folder)), []


def _on_three_brokers(
    arrangement: Arrangement, folder: Path, settings: Sequence[str]
) -> tuple[Product, list[str]]:
    first = free_range(PORTS_OF_A_CLUSTER)
    words = ["--brokers", str(BROKERS), "--port", str(first)]
    words += ["--controller", arrangement.value, "--zookeeper-port", str(first + 40)]
    flags = (*_own_ports(), *settings)
    return Product(arrangement, folder, flags, _brokers(first), _sqlite(folder)), words


def _sqlite(folder: Path) -> str:
    return f"sqlite://{folder / 'store' / 'records.db'}"


def _brokers(first_port: int) -> str:
    return ",".join(f"127.0.0.1:{first_port + 10 * number}" for number in range(BROKERS))


def _on_a_city_s_servers(folder: Path, settings: Sequence[str]) -> tuple[Product, list[str]]:
    first = free_range(PORTS_OF_A_CLUSTER)
    wanted = distributed_plan(folder, first)
    words = [
        "--brokers", str(BROKERS), "--port", str(first),
        "--spark-workers", str(WORKERS), "--spark-port", str(first + 40),
        "--region-servers", str(REGION_SERVERS), "--hbase-port", str(first + 60),
    ]  # fmt: skip
    flags = (*_own_ports(), *settings)
    assert wanted.hbase is not None
    store = wanted.hbase.store_url(STORE_NAME)
    return Product(Arrangement.B, folder, flags, _brokers(first), store), words


def distributed_plan(folder: Path, first_port: int) -> DistributedPlan:
    """The Spark cluster and the HBase of arrangement B."""
    return plan(
        folder, workers=WORKERS, region_servers=REGION_SERVERS,
        first_spark_port=first_port + 40, first_hbase_port=first_port + 60,
    )  # fmt: skip


def _own_ports() -> tuple[str, ...]:
    return f"edge.port={free_port()}", f"console.port={free_port()}"


def _wait_until_ready(process: subprocess.Popen[bytes], product: Product) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        roles = product.roles()
        if roles and all(role["state"] == "running" for role in roles.values()):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise OperatorError(f"not everything came up: {_end_of_log(product)}")
        time.sleep(POLL_S)


def _end_of_log(product: Product) -> str:
    return (product.folder / "demo.log").read_text("utf-8", "replace")[-800:]


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Twice: the account does not know our senders, and is not waited for."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(1)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
