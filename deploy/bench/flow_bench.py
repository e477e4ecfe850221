"""The figures of the whole flow: the demo itself on free ports, and a backlog for the store.

In: how often. Out: samples in the figures' units. Never: a part of the product replaced.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from alarm.dispatch.reader import OperationsReader
from deploy.bench.backlog import produce_backlog
from deploy.bench.flow_times import POLL_S, percentile_s, rate_of_commits, stored_rows
from deploy.bench.report import Samples
from deploy.bench.samples import SampleRecorder, Say, attempt
from deploy.bench.targets import OURS, broker_flags, role, wait_for_port
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.servers.process import free_port
from deploy.supervisor.state_file import read_state
from ingest.store.port import Query

BACKLOG = "backlog"
NAMES = ("stored", "alarm", BACKLOG, "second-start")
RATE = 500
NO_MISHAPS = ("city.misfortunes=false",)  # a slow uplink by script is no latency of ours
LONG, SHORT = "100s", "15s"
WARM_UP_MS = (
    40_000  # until Java has compiled what it runs; the figures are those of a day, not a start
)
DEMO_TIMEOUT_S = 600
BACKLOG_RECORDS = 1_000_000
BACKLOG_TIMEOUT_S = 600


def measure(names: Sequence[str], repeat: int, say: Say) -> Iterator[Samples]:
    """Runs of the chosen figures; one demo gives several of them."""
    recorder = SampleRecorder(names, repeat, say)
    for _ in range(repeat if names else 0):
        figures: dict[str, float] = {}
        if set(names) & {"stored", "alarm", "second-start"}:
            figures |= attempt("the demo", _demo_figures, say) or {}
        if BACKLOG in names:
            rate = attempt(BACKLOG, catch_up, say)
            figures |= {} if rate is None else {BACKLOG: rate}
        for name, value in figures.items():
            if name in names:
                recorder.add(name, value, of=OURS)
        yield from recorder.samples()


def _demo_figures() -> dict[str, float]:
    with fresh_folder() as (folder, flags):
        watched_demo(folder, flags)
        figures = warm_percentiles(folder)
        second = _demo(folder, [*flags, *NO_MISHAPS], SHORT)
    if second["first_stored_s"] is not None:
        figures["second-start"] = second["first_stored_s"]
    return figures


def watched_demo(folder: Path, flags: Sequence[str]) -> None:
    """A whole one, long enough for figures. Raises OperatorError."""
    _demo(folder, [*flags, *NO_MISHAPS], LONG)


def warm_percentiles(folder: Path) -> dict[str, float]:
    """p99 in seconds over the records captured after the warm-up, one by one, from the stores."""
    stored = list(_stored(folder))
    since_ms = min(captured_at_ms for captured_at_ms, _ in stored) + WARM_UP_MS
    raised = _raised(folder)
    return {
        name: percentile_s([end - captured for captured, end in times if captured >= since_ms], 99)
        for name, times in (("stored", stored), ("alarm", raised))
    }


def _stored(folder: Path) -> Iterator[tuple[int, int]]:
    """(captured, stored) of every vehicle."""
    url = f"sqlite://{folder / 'store' / 'records.db'}"
    rows = stored_rows(url, Query(kind="vehicle"))
    return ((each.captured_at_ms, each.stored_at_ms) for each in rows)


def _raised(folder: Path) -> list[tuple[int, int]]:
    """(captured, raised) of every alarm."""
    with closing(OperationsReader(folder / "store" / "operations.db")) as reader:
        return [(each.captured_at_ms, each.raised_at_ms) for each in reader.every_alarm()]


def _demo(folder: Path, flags: Sequence[str], how_long: str) -> dict[str, Any]:
    words = command(folder, flags)
    demo = subprocess.Popen(
        [*words, "demo", "--for", how_long, "--rate", str(RATE), "--city-hour", "8", "--json"],
        cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _watch_for_one_in_a_hundred(demo, folder, words)
    output, errors = demo.communicate(timeout=DEMO_TIMEOUT_S)
    if not output.strip():
        raise OperatorError(f"the demo under measurement failed: {errors[-600:]}")
    answer: dict[str, Any] = json.loads(output.splitlines()[-1])
    if not answer["balanced"]:
        raise OperatorError(f"the demo under measurement does not balance: {answer['faults']}")
    return answer


def _watch_for_one_in_a_hundred(
    demo: subprocess.Popen[str], folder: Path, words: Sequence[str]
) -> None:
    """Three alarms of the city's own story make no percentile: every yellow car is wanted."""
    while (_state_of(folder, "dispatcher")) != "running":
        if demo.poll() is not None:
            return
        time.sleep(POLL_S)
    rule = ["watch", "add", "--id", "bench", "--match", "vehicle_color=黄色", "--quiet", "0"]
    subprocess.run([*words, *rule], cwd=PROJECT_ROOT, capture_output=True, check=True)


def _state_of(folder: Path, role_name: str) -> str:
    roles = (read_state(folder) or {}).get("roles", {})
    return str(roles.get(role_name, {}).get("state", ""))


def command(folder: Path, flags: Sequence[str]) -> list[str]:
    """`databus` on this data directory."""
    words = [sys.executable, "-m", "deploy", "--data-dir", str(folder)]
    for flag in flags:
        words += ["--set", flag]
    return words


def catch_up() -> float:
    """Records per second into the store, from its first commit to its last."""
    with fresh_folder() as (folder, flags):
        port = int(flags[0].rpartition(":")[2])
        with role("broker", folder, flags) as broker:
            wait_for_port(broker, port, folder)
            produce_backlog(f"127.0.0.1:{port}", BACKLOG_RECORDS)
            with role("streams", folder, flags) as streams:
                return rate_of_commits(
                    f"sqlite://{folder / 'store' / 'records.db'}", BACKLOG_RECORDS,
                    timeout_s=BACKLOG_TIMEOUT_S, goes_on=lambda: streams.poll() is None,
                )  # fmt: skip


@contextmanager
def fresh_folder() -> Iterator[tuple[Path, list[str]]]:
    """A data directory and ports that are free."""
    with tempfile.TemporaryDirectory(prefix="databus-bench-", ignore_cleanup_errors=True) as name:
        flags = [
            *broker_flags(free_port(), free_port()),
            f"edge.port={free_port()}",
            f"console.port={free_port()}",
        ]
        yield Path(name), flags
