"""The processes of a role of a running product: its own and what it started.

In: a product, a role. Out: their CPU time and memory; or they stand still for a while. Never: a
process that the product did not start.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping

import psutil

from deploy.bench.ingest.product import Product


def processes_of(product: Product, role: str) -> list[psutil.Process]:
    """The role's and all that it started."""
    return tree_of(psutil.Process(product.pid(role)))


def tree_of(process: psutil.Process) -> list[psutil.Process]:
    """A process and all that it started."""
    return [process, *process.children(recursive=True)]


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of a process and of its children that have ended; 0 if it has ended itself."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def role_cpu_s(product: Product, role: str) -> float:
    """CPU seconds of a role so far."""
    return sum(map(cpu_s, processes_of(product, role)))


def resident_mb(product: Product, role: str) -> float:
    """Resident memory of a role."""
    return sum(one.memory_info().rss for one in processes_of(product, role)) / 1e6


KEEPS_EXECUTORS = {"spark.network.timeout": "30m"}
"""Spark's settings of a driver that will stand still: after Spark's own two minutes it takes its
executors for lost, and what is measured would begin with new ones."""


def conf_setting(conf: Mapping[str, str]) -> str:
    """The setting that gives Spark these."""
    words = ", ".join(f'"{key}" = "{value}"' for key, value in conf.items())
    return f"streams.conf={{{words}}}"


@contextlib.contextmanager
def standing_still(product: Product, role: str) -> Iterator[None]:
    """SIGSTOP; it goes on at the end. Meanwhile it answers nobody."""
    processes = processes_of(product, role)
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
