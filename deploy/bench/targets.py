"""The two brokers of a comparison, each alone in a fresh folder on free ports.

In: a folder. Out: a running `Target`. Never: settings that favour one of them: both run with their
defaults, apart from the addresses.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.servers.kafka import start_kafka
from deploy.servers.process import accepts, free_port

READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
OURS = "databus"
KAFKA = "Apache Kafka 4.4"


@dataclass(frozen=True, slots=True)
class Target:
    """A broker under measurement."""

    name: str
    bootstrap: str
    pid: int

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the broker's process."""
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def cpu_s(self) -> float:
        """Processor time of the broker's process so far, its own and the kernel's for it."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def our_broker(folder: Path) -> Iterator[Target]:
    """The broker of this repository, as `databus run broker` starts it."""
    port, metrics = free_port(), free_port()
    flags = broker_flags(port, metrics)
    with role("broker", folder, flags) as process:
        wait_for_port(process, port, folder)
        yield Target(OURS, f"127.0.0.1:{port}", process.pid)


@contextmanager
def apache_kafka(folder: Path) -> Iterator[Target]:
    """Apache Kafka with a heap of 1 GB, as its own start script gives it."""
    with start_kafka(folder) as server:
        yield Target(KAFKA, server.address, server.process.pid)


def broker_flags(port: int, metrics_port: int) -> list[str]:
    """Where our broker listens."""
    return [
        f"broker.listeners=PLAINTEXT://127.0.0.1:{port}",
        f"broker.metrics.port={metrics_port}",
        f"bus.bootstrap_servers=127.0.0.1:{port}",
    ]


@contextmanager
def role(name: str, folder: Path, flags: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """One role of ours as a process, with its log in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "deploy", "--data-dir", str(folder)]
    for flag in flags:
        words += ["--set", flag]
    with open(folder / f"{name}.log", "ab") as log:
        process = subprocess.Popen(
            [*words, "run", name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=PROJECT_ROOT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for_port(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    """Until the role answers; its death or the limit is an error that names the log."""
    deadline = time.monotonic() + READY_TIMEOUT_S
    while not accepts(port):
        if process.poll() is not None or time.monotonic() > deadline:
            raise OperatorError(f"the process under measurement did not start; see {folder}")
        time.sleep(0.05)
