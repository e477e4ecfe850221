"""CPU by process and by thread of a running product, as the kernel counts it.

In: a product. Out: cores, by part and by the names of threads. Never: a guess for a process that
ended between two readings: what it used since the first one is left out.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from deploy.bench.ingest.executors import EXECUTOR
from deploy.bench.ingest.product import Product
from deploy.bench.ingest.role_processes import processes_of
from deploy.roles.table import STREAMS
from deploy.supervisor.state_file import SUPERVISOR, read_state

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
DAEMON = "pyspark.daemon"
DRIVER_URL = "--driver-url"
"""Behind it an executor is told where its driver listens."""
_NUMBERED = re.compile(r"(?:[-#_. ]\d+)+.?$")


class CpuTime(NamedTuple):
    """Of a process or a thread, so far; `name` is the kernel's, of fifteen letters."""

    name: str
    seconds: float


class ProcessCpu(NamedTuple):
    """One process: what it is for, its CPU, and that of its threads by their ids."""

    part: str
    seconds: float
    threads: Mapping[int, CpuTime]


class PartCpu(msgspec.Struct, frozen=True, kw_only=True):
    """Cores that a part of the product took, and its threads, the busiest first."""

    part: str
    processes: int
    cores: float
    threads: Mapping[str, float]


Reading = Mapping[int, ProcessCpu]
"""By the id of a process."""


def read_stat(text: str) -> CpuTime:
    """A line of `/proc/…/stat` (proc(5)). The name stands in brackets and may hold some itself.
    Raises `ValueError` for another line."""
    first, last = text.index("("), text.rindex(")")
    fields = text[last + 1 :].split()
    if len(fields) < 13:
        raise ValueError(f"no line of /proc/…/stat: {text[:80]!r}")
    return CpuTime(text[first + 1 : last], (int(fields[11]) + int(fields[12])) / TICKS_PER_S)


def part_of(role: str, words: Sequence[str], owner: str) -> str:
    """What a process is for, by its role and its command line; `owner`: the application that an
    executor or a worker belongs to."""
    if any(word.endswith(EXECUTOR) for word in words):
        return f"executors' JVMs of {owner}"
    if DAEMON in words:
        return f"Python workers of {owner}"
    if role.startswith(STREAMS):
        kind = "JVM" if words and Path(words[0]).name == "java" else "Python"
        return f"driver's {kind} of {role}"
    return role


def group_of(thread: str) -> str:
    """Threads whose names differ by a number are one row."""
    return _NUMBERED.sub("", thread) or thread


def read_cpu(product: Product) -> Reading:
    """All processes of a product now."""
    found: dict[int, ProcessCpu] = {}
    for process, part in _parts(product):
        with contextlib.suppress(OSError, ValueError):
            found[process.pid] = _of_process(process.pid, part)
    return found


def spent(before: Reading, after: Reading, seconds: float) -> list[PartCpu]:
    """Between two readings, by part, the largest first."""
    cores: defaultdict[str, float] = defaultdict(float)
    processes: Counter[str] = Counter()
    threads: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for pid, now in after.items():
        first = before.get(pid)
        cores[now.part] += now.seconds - (first.seconds if first else 0.0)
        processes[now.part] += 1
        by_name = threads[now.part]
        for thread, time in now.threads.items():
            known = first.threads.get(thread) if first else None
            by_name[group_of(time.name)] += time.seconds - (known.seconds if known else 0.0)
    return [
        PartCpu(
            part=part,
            processes=processes[part],
            cores=used / seconds,
            threads={name: took / seconds for name, took in _sorted(threads[part]) if took},
        )
        for part, used in _sorted(cores)
    ]


def _sorted(sums: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(sums.items(), key=lambda one: -one[1])


def _of_process(pid: int, part: str) -> ProcessCpu:
    own = read_stat((PROC / str(pid) / "stat").read_text("utf-8", "replace"))
    threads: dict[int, CpuTime] = {}
    for thread in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(OSError, ValueError):  # it has ended meanwhile
            threads[int(thread.name)] = read_stat((thread / "stat").read_text("utf-8", "replace"))
    return ProcessCpu(part, own.seconds, threads)


def _parts(product: Product) -> Iterator[tuple[psutil.Process, str]]:
    roles = [role for role, state in product.roles().items() if state["pid"]]
    listening = _listening(product, roles)
    for role in roles:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in processes_of(product, role):
                with contextlib.suppress(psutil.NoSuchProcess):
                    owner = _owner(process, listening) or role
                    yield process, part_of(role, process.cmdline(), owner)
    state = read_state(product.folder)
    if state is not None:
        yield psutil.Process(state["pid"]), SUPERVISOR


def _listening(product: Product, roles: Sequence[str]) -> dict[int, str]:
    """The drivers, by the ports on which they listen."""
    found: dict[int, str] = {}
    for role in roles:
        if not role.startswith(STREAMS):
            continue
        for process in processes_of(product, role):
            with contextlib.suppress(psutil.NoSuchProcess):
                for connection in process.net_connections("tcp"):
                    if connection.status == psutil.CONN_LISTEN:
                        found[connection.laddr.port] = role
    return found


def _owner(process: psutil.Process, listening: Mapping[int, str]) -> str:
    """The driver of an executor, or of the executor that a worker works for."""
    for one in (process, *process.parents()):
        words = one.cmdline()
        if DRIVER_URL in words[:-1]:
            port = words[words.index(DRIVER_URL) + 1].rpartition(":")[2]
            return listening.get(int(port), "an application that is gone")
    return ""
