"""The figures of the broker, ours and Apache Kafka's in turn, the client always the same program.

In: how often. Out: samples. Never: both brokers running at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from deploy.bench.figures import Samples
from deploy.bench.targets import Target, apache_kafka, our_broker
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT

SECONDS = 5.0
CLIENT_TIMEOUT_S = 300
MB = 1_000_000
GIGABYTE_RECORDS = 1_000_000  # of 1 kB
Start = Callable[[Path], AbstractContextManager[Target]]


def produce_single(target: Target) -> float:
    """Requests of one record each, five in flight, acks=all."""
    return float(_client(target, "produce", "--batch", "1")["records_per_s"])


def produce_batches(target: Target) -> float:
    """Batches of 16 records of 1 KiB."""
    return float(_client(target, "produce", "--batch", "16")["bytes_per_s"]) / MB


def consume_hot(target: Target) -> float:
    """What was just produced, still in the page cache."""
    _client(target, "produce", "--batch", "64", "--limit", "300000", "--seconds", "30")
    return float(_client(target, "consume", "--seconds", "30")["bytes_per_s"]) / MB


def ack_idle(target: Target) -> float:
    """One record every ten milliseconds."""
    return float(_client(target, "acknowledge")["p99"])


def memory(target: Target) -> float:
    """After 1 GB written and read."""
    limit = str(GIGABYTE_RECORDS)
    words = ("--record-bytes", "1000", "--batch", "16", "--limit", limit, "--seconds", "250")
    _client(target, "produce", *words)
    _client(target, "consume", "--seconds", "25")
    return target.rss_bytes / MB


MEASURES: dict[str, Callable[[Target], float]] = {
    "produce-single": produce_single,
    "produce-batches": produce_batches,
    "consume-hot": consume_hot,
    "ack-idle": ack_idle,
    "memory": memory,
}


def measure(name: str, repeat: int, say: Callable[[str], None]) -> Samples:
    """Runs of one figure, the two brokers in turn so that a noisy minute strikes both."""
    ours: list[float] = []
    kafka: list[float] = []
    starts: Sequence[tuple[Start, list[float]]] = ((our_broker, ours), (apache_kafka, kafka))
    for run in range(1, repeat + 1):
        for start, samples in starts:
            with _fresh(start) as target:
                samples.append(MEASURES[name](target))
                say(f"{name} {run}/{repeat} {target.name}: {samples[-1]:.4g}")
    return Samples(figure=name, ours=ours, kafka=kafka)


@contextmanager
def _fresh(start: Start) -> Iterator[Target]:
    with tempfile.TemporaryDirectory(prefix="databus-bench-") as folder:
        with start(Path(folder)) as target:
            _client(target, "create")
            yield target


def _client(target: Target, program: str, *words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "deploy.bench.load", program, "--bootstrap", target.bootstrap]
    if "--seconds" not in words:
        words = (*words, "--seconds", str(SECONDS))
    done = subprocess.run(
        [*command, *words], cwd=PROJECT_ROOT, capture_output=True, text=True,
        timeout=CLIENT_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise OperatorError(f"the load program failed on {target.name}: {done.stderr[-400:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
