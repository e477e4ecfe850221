"""What two executors add: who does the work of a backlog, and what a second one brings.

In: a city's servers with the driver of ingest held still while a backlog is written. Out: shares,
CPU and rates. Never: a number of Spark's where the kernel has it: CPU is that of the processes.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psutil

from deploy.bench.backlog import produce_backlog
from deploy.bench.flow_times import stored_records
from deploy.bench.ingest.cpu_quota import held_to
from deploy.bench.ingest.product import Arrangement, Product, running
from deploy.bench.ingest.role_processes import (
    KEEPS_EXECUTORS,
    conf_setting,
    cpu_s,
    processes_of,
    role_cpu_s,
    standing_still,
    tree_of,
)
from deploy.errors import OperatorError
from deploy.servers.process import free_range

RECORDS = 150_000
HELD_RECORDS = 12_000
HELD_CORES = 0.2
PAGES = 8  # ports that the drivers' own pages may take
TIMEOUT_S = 900.0
POLL_S = 0.2
APPLICATION = "streams-ingest"
STORE_ROLES = ("hbase-region", "hbase-thrift")
EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass(frozen=True, slots=True)
class Work:
    """One backlog: how quickly it was stored, and the CPU seconds behind it."""

    records: int
    records_per_s: float
    smallest_share: float  # of the records, by the executor that read fewest
    driver_python_s: float
    all_s: float  # driver and executors, Java and Python
    store_s: float  # region servers and Thrift servers


def measured() -> dict[str, float]:
    """Two executors of one core beside one; the same, each held to a share of a core."""
    two, two_held = _runs(2)
    one, one_held = _runs(1)
    return {
        "ingest-executors-share": two.smallest_share * 100,
        "ingest-executors-driver": two.driver_python_s / two.all_s * 100,
        "ingest-executors-cpu": (two.all_s / two.records) / (one.all_s / one.records),
        "ingest-executors-us": two.all_s / two.records * 1e6,
        "ingest-regions-us": two.store_s / two.records * 1e6,
        "ingest-executors-held": two_held.records_per_s / one_held.records_per_s,
    }


def _runs(executors: int) -> tuple[Work, Work]:
    pages = free_range(PAGES)
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(pages),
        "spark.port.maxRetries": str(PAGES),
        "spark.cores.max": str(executors),
        **KEEPS_EXECUTORS,
    }
    with running(Arrangement.B, conf_setting(conf)) as product:
        page = _page(range(pages, pages + PAGES))
        free = _backlog(product, page, RECORDS)
        with contextlib.ExitStack() as held:
            for process in _executors(page):
                held.enter_context(held_to([one.pid for one in tree_of(process)], HELD_CORES))
            return free, _backlog(product, page, HELD_RECORDS)


def _backlog(product: Product, page: str, records: int) -> Work:
    """Write it while the driver stands still, then let it go on."""
    before = stored_records(product.store_url)
    read_before, cpu_before = _read_by(page), _cpu(product, page)  # its page stands still, too
    with standing_still(product, APPLICATION):
        produce_backlog(product.bootstrap, records)
    took_s = _seconds_until_stored(product, before + records)
    cpu = [after - first for after, first in zip(_cpu(product, page), cpu_before, strict=True)]
    read = [count - read_before.get(name, 0) for name, count in _read_by(page).items()]
    return Work(records, records / took_s, min(read) / max(1, sum(read)), *cpu)


def _seconds_until_stored(product: Product, wanted: int) -> float:
    """From now on: a backlog that an executor held to a share of a core works off is one batch."""
    began = time.monotonic()
    while (now := stored_records(product.store_url)) < wanted:
        if time.monotonic() - began > TIMEOUT_S:
            raise OperatorError(f"{now} of {wanted} records of a backlog were stored")
        time.sleep(POLL_S)
    return time.monotonic() - began


def _cpu(product: Product, page: str) -> tuple[float, float, float]:
    """CPU seconds so far: the driver's Python; driver and executors; the store's servers."""
    store = [role for role in product.roles() if role.startswith(STORE_ROLES)]
    driver = processes_of(product, APPLICATION)
    everybody = [*driver, *(one for process in _executors(page) for one in tree_of(process))]
    python = [one for one in driver if one.name().startswith("python")]
    store_s = sum(role_cpu_s(product, role) for role in store)
    return sum(map(cpu_s, python)), sum(map(cpu_s, everybody)), store_s


def _executors(page: str) -> list[psutil.Process]:
    """The executors' Java processes of the application behind this page."""
    application = _ask(page, "")[0]["id"]
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(word.endswith(EXECUTOR) for word in process.info["cmdline"] or ())
        and application in process.info["cmdline"]
    ]


def _page(ports: Sequence[int]) -> str:
    """Where the driver of ingest shows itself: each driver took the next port that was free."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for port in ports:
            page = f"http://127.0.0.1:{port}/api/v1/applications"
            with contextlib.suppress(OSError, ValueError):
                if _ask(page, "")[0]["name"] == APPLICATION:
                    return page
        time.sleep(POLL_S)
    raise OperatorError("the driver of ingest shows no page of Spark's")


def _read_by(page: str) -> dict[str, int]:
    """Records that each executor has read from the bus, by the stages that Spark still knows."""
    application = _ask(page, "")[0]["id"]
    found: dict[str, int] = {
        one["id"]: 0 for one in _ask(page, f"/{application}/executors") if one["id"] != "driver"
    }
    for stage in _ask(page, f"/{application}/stages?status=complete&details=true"):
        for name, summary in (stage.get("executorSummary") or {}).items():
            if name in found:
                found[name] += int(summary.get("inputRecords", 0))
    return found


def _ask(page: str, path: str) -> Any:
    with urllib.request.urlopen(f"{page}{path}", timeout=20) as answer:
        return json.load(answer)
